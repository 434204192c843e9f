"""Writes the launches of kernels by other compilers, and of other packages, for `sixwarp bench --launch` and `time_launches.py`.

    pip install torch triton liger-kernel flash-linear-attention fla-core
    python benches/others/prepare.py FOLDER [NAME ...]

No GPU is needed. Kernels are Triton's: of this folder, of tests/triton, and of two packages on PyPI.
"""

import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "tests/triton")]

import recorder  # noqa: E402
import torch  # noqa: E402
import triton  # noqa: E402
from triton.tools.tensor_descriptor import TensorDescriptor  # noqa: E402

LAUNCHES = {}
HALF, BF16, F32, FP8 = torch.float16, torch.bfloat16, torch.float32, torch.float8_e4m3fn


def launch(kernel=""):
    """Registers a function that launches a kernel whose name contains `kernel`, by the function's name."""
    def register(function):
        LAUNCHES[function.__name__.replace("_", "-")] = (kernel, function)
        return function
    return register


def empty(*shape, dtype=BF16):
    return torch.empty(shape, dtype=dtype)


def described(rows, columns, block, dtype=BF16):
    return TensorDescriptor.from_tensor(empty(rows, columns, dtype=dtype), list(block))


@launch()
def triton_add():
    import kernels
    n = 1 << 25
    kernels.add[(n // 1024,)](empty(n, dtype=F32), empty(n, dtype=F32), empty(n, dtype=F32), n, BLOCK=1024)


@launch()
def triton_gelu():
    import kernels
    n = 1 << 26
    kernels.gelu[(n // 2048,)](empty(n), empty(n), n, BLOCK=2048, num_warps=8)


@launch()
def triton_softmax():
    import kernels
    kernels.softmax[(8192,)](empty(8192, 4096), empty(8192, 4096), 4096, BLOCK=4096, num_warps=8)


@launch()
def triton_softmax_in_l2():
    import kernels
    kernels.softmax[(1024,)](empty(1024, 2048), empty(1024, 2048), 2048, BLOCK=2048)


@launch()
def triton_layer_norm():
    import kernels
    weight, bias = empty(5120), empty(5120)
    kernels.layer_norm[(4096,)](empty(4096, 5120), weight, bias, empty(4096, 5120), 5120, BLOCK=8192, num_warps=8)


@launch()
def triton_row_sum():
    import kernels
    kernels.row_sum[(2048,)](empty(2048, 16384, dtype=F32), empty(2048, dtype=F32), 16384, BLOCK=2048, num_warps=8)


@launch()
def triton_transpose():
    import kernels
    kernels.transpose[(128, 128)](empty(8192, 8192), empty(8192, 8192), 8192, 8192, BLOCK=64)


@launch()
def triton_gather():
    import kernels
    index = torch.randint(0, 65536, (16384,), generator=torch.Generator().manual_seed(1), dtype=torch.int32)
    kernels.gather[(16384,)](empty(65536, 2048), index, empty(16384, 2048), 2048, BLOCK=2048)


@launch()
def triton_gather_short_rows():
    import kernels
    index = torch.randint(0, 262144, (65536,), generator=torch.Generator().manual_seed(4), dtype=torch.int32)
    kernels.gather[(65536,)](empty(262144, 512), index, empty(65536, 512), 512, BLOCK=512)


@launch()
def triton_exponentials():
    import kernels
    n = 132 * 8 * 1024
    kernels.exponentials[(n // 1024,)](empty(n, dtype=F32), empty(n, dtype=F32), 256, BLOCK=1024)


@launch()
def triton_matmul_pointers():
    from matmul import matmul_pointers
    m = n = k = 4096
    matmul_pointers[(m // 128, n // 128)](empty(m, k), empty(k, n), empty(m, n), m, n, k, k, 1, n, 1, n, 1,
                                          BLOCK_M=128, BLOCK_N=128, BLOCK_K=64, num_warps=8)


@launch()
def triton_matmul_split():
    import kernels
    m, n, k = 512, 1024, 16384
    kernels.matmul_split[(m // 128, n // 128, 4)](empty(m, k), empty(k, n), empty(m, n, dtype=F32), m, n, k,
                                                  BLOCK_M=128, BLOCK_N=128, BLOCK_K=64, SPLITS=4, num_warps=8)


@launch()
def triton_matmul_grouped():
    import kernels
    experts, rows, n, k = 16, 8192, 2048, 2048
    generator = torch.Generator().manual_seed(2)
    starts = torch.randint(0, experts, (rows // 128,), generator=generator, dtype=torch.int32).sort().values
    kernels.matmul_grouped[(rows // 128 * n // 128,)](empty(rows, k), empty(experts, k, n), empty(rows, n), starts,
                                                      n, k, n // 128, BLOCK_M=128, BLOCK_N=128, BLOCK_K=64,
                                                      num_warps=8)


def matmul_host(m, n, k, dtype, out, block_n=256, block_k=64, **options):
    from matmul import matmul_host_descriptors
    a = described(m, k, (128, block_k), dtype)
    b = described(n, k, (block_n, block_k), dtype)
    c = described(m, n, (128, block_n), out)
    matmul_host_descriptors[(m // 128, n // block_n)](a, b, c, k, BLOCK_M=128, BLOCK_N=block_n, BLOCK_K=block_k,
                                                      **options)


@launch()
def triton_matmul_copies():
    matmul_host(4096, 4096, 4096, BF16, BF16, num_warps=8)


@launch()
def triton_matmul_copies_small():
    matmul_host(1024, 1024, 4096, BF16, BF16, block_n=128, num_warps=4)


@launch()
def triton_matmul_fp8():
    matmul_host(4096, 4096, 8192, FP8, HALF, block_k=128, num_warps=8)


def persistent(m, n, k, dtype, out, block_k):
    from matmul import matmul_persistent
    a, b = described(m, k, (128, block_k), dtype), described(n, k, (256, block_k), dtype)
    matmul_persistent[(132,)](a, b, described(m, n, (128, 256), out), m, n, k, 132, BLOCK_M=128, BLOCK_N=256,
                              BLOCK_K=block_k, WARP_SPECIALIZE=False, num_warps=8)


@launch()
def triton_matmul_persistent():
    persistent(8192, 8192, 4096, BF16, BF16, 64)


def attention(tokens, heads, d, causal, dtype=BF16, out=BF16, **options):
    from attention import attention_forward
    rows = tokens * heads
    q, result = described(rows, d, (128, d), dtype), described(rows, d, (128, d), out)
    k, v = described(rows, d, (64, d), dtype), described(rows, d, (64, d), dtype)
    attention_forward[(tokens // 128, heads)](q, k, v, result, empty(rows, dtype=F32), 0.1, tokens, D=d, BLOCK_M=128,
                                              BLOCK_N=64, CAUSAL=causal, WARP_SPECIALIZE=False, **options)


@launch()
def triton_attention_d64_causal():
    attention(4096, 32, 64, True, num_warps=4)


@launch()
def triton_attention_d128():
    attention(4096, 16, 128, False, num_warps=8)


@launch()
def triton_attention_d128_causal():
    attention(8192, 16, 128, True, num_warps=8)


@launch()
def triton_decode():
    import kernels
    heads, tokens, splits = 8, 32768, 32
    keys, values = empty(heads, tokens, 128), empty(heads, tokens, 128)
    parts, lse = empty(splits, heads, 16, 128, dtype=F32), empty(splits, heads, 16, dtype=F32)
    kernels.decode[(heads, splits)](empty(heads, 16, 128), keys, values, parts, lse, 0.1, tokens, tokens // splits,
                                    HEADS=16, D=128, BLOCK=64)


@launch()
def liger_rms_norm():
    from liger_kernel.ops.rms_norm import LigerRMSNormFunction
    LigerRMSNormFunction.apply(empty(4096, 8192), empty(8192), 1e-6, 0.0, "llama", False)


@launch()
def liger_swiglu():
    from liger_kernel.ops.swiglu import LigerSiLUMulFunction
    LigerSiLUMulFunction.apply(empty(4096, 14336), empty(4096, 14336))


@launch()
def liger_rope():
    from liger_kernel.ops.rope import LigerRopeFunction
    q, k = empty(2, 4096, 32, 128).transpose(1, 2), empty(2, 4096, 8, 128).transpose(1, 2)
    LigerRopeFunction.apply(q, k, empty(1, 4096, 128), empty(1, 4096, 128))


@launch()
def liger_cross_entropy():
    from liger_kernel.ops.cross_entropy import LigerCrossEntropyFunction
    target = torch.randint(0, 32768, (2048,), generator=torch.Generator().manual_seed(3))
    LigerCrossEntropyFunction.apply(empty(2048, 32768), target, None)


@launch()
def liger_layer_norm():
    from liger_kernel.ops.layer_norm import LigerLayerNormFunction
    LigerLayerNormFunction.apply(empty(8192, 4096), empty(4096), empty(4096), 1e-5)


@launch()
def liger_geglu():
    from liger_kernel.ops.geglu import LigerGELUMulFunction
    LigerGELUMulFunction.apply(empty(4096, 8192), empty(4096, 8192))


@launch("chunk_fwd_kernel_o")
def fla_chunk_output():
    from fla.ops.simple_gla import chunk_simple_gla
    q, k, v = (empty(2, 8192, 16, 128) for _ in range(3))
    chunk_simple_gla(q, k, v, torch.zeros(2, 8192, 16))


@launch("chunk_fwd_kernel_h")
def fla_chunk_state():
    from fla.ops.simple_gla import chunk_simple_gla
    q, k, v = (empty(2, 8192, 16, 128) for _ in range(3))
    chunk_simple_gla(q, k, v, torch.zeros(2, 8192, 16))


@launch("parallel_attn_fwd_kernel")
def fla_attention():
    from fla.ops.attn import parallel_attn
    q, k, v = (empty(1, 4096, 16, 128) for _ in range(3))
    parallel_attn(q, k, v)


@launch("gated_delta_rule_fwd_kernel_h")
def fla_delta_rule_state():
    from fla.ops.gated_delta_rule import chunk_gated_delta_rule
    q, k, v = (empty(2, 4096, 16, 128) for _ in range(3))
    chunk_gated_delta_rule(q, k, v, torch.zeros(2, 4096, 16), torch.zeros(2, 4096, 16, dtype=BF16))


@launch("causal_conv1d_fwd_kernel")
def fla_convolution():
    from fla.modules.convolution import causal_conv1d
    causal_conv1d(empty(4, 4096, 2048), empty(2048, 4), activation="silu")


def main():
    folder, names = pathlib.Path(sys.argv[1]), sys.argv[2:]
    recorder.install(folder)
    failed = []
    for name, (kernel, function) in LAUNCHES.items():
        if names and name not in names:
            continue
        recorder.Launcher.name, recorder.Launcher.kernel_name = name, kernel
        try:
            function()
            assert recorder.Launcher.name is None, "nothing was launched"
        except Exception as error:  # noqa: BLE001
            if recorder.Launcher.name is not None:
                failed.append(name)
                print(f"{name}: {type(error).__name__}: {error}", flush=True)
                continue
        print(f"{name}: written", flush=True)
    print(f"triton {triton.__version__}, torch {torch.__version__}")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()

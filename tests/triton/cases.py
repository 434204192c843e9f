"""The kernels to compile: which function, which argument types, which tile sizes.

An argument is a Triton type (`*fp16`, `i32`, `tensordesc<fp16[128,64]>`), with `:16` behind it if
the caller promises a multiple of 16, or a plain number that is fixed at compile time.
"""

from dataclasses import dataclass, field

POINTER_SIZES = dict(BLOCK_M=128, BLOCK_N=64, BLOCK_K=32)
TILE_SIZES = dict(BLOCK_M=128, BLOCK_N=128, BLOCK_K=64)


@dataclass
class Case:
    name: str
    module: str
    function: str
    args: dict
    constants: dict
    num_warps: int = 4
    num_stages: int = 3
    num_ctas: int = 1
    archs: tuple = (90, 100)
    options: dict = field(default_factory=dict)


def pointer_matmul(name, dtype, out):
    args = dict(a=f"*{dtype}:16", b=f"*{dtype}:16", c=f"*{out}:16", m="i32:16", n="i32:16",
                k="i32:16", stride_am="i32:16", stride_ak=1, stride_bk="i32:16", stride_bn=1,
                stride_cm="i32:16", stride_cn=1)
    return Case(name, "matmul", "matmul_pointers", args, POINTER_SIZES)


def descriptors(dtype, out, sizes):
    m, n, k = sizes["BLOCK_M"], sizes["BLOCK_N"], sizes["BLOCK_K"]
    return dict(a=f"tensordesc<{dtype}[{m},{k}]>", b=f"tensordesc<{dtype}[{n},{k}]>",
                c=f"tensordesc<{out}[{m},{n}]>")


def host_matmul(name, dtype, out, block_k=64, **launch):
    sizes = dict(TILE_SIZES, BLOCK_K=block_k)
    args = dict(descriptors(dtype, out, sizes), k="i32")
    return Case(name, "matmul", "matmul_host_descriptors", args, sizes, **launch)


def device_matmul(name, dtype, out):
    args = dict(a=f"*{dtype}:16", b=f"*{dtype}:16", c=f"*{out}:16", m="i32", n="i32:16", k="i32:16")
    return Case(name, "matmul", "matmul_device_descriptors", args, TILE_SIZES)


def persistent_matmul(name, dtype, out, block_k=64, warp_specialize=False, **launch):
    sizes = dict(TILE_SIZES, BLOCK_K=block_k)
    args = dict(descriptors(dtype, out, sizes), m="i32", n="i32", k="i32", programs="i32")
    constants = dict(sizes, WARP_SPECIALIZE=warp_specialize)
    return Case(name, "matmul", "matmul_persistent", args, constants, **launch)


def attention(name, dtype, out, d, causal, warp_specialize=False, block_n=64, **launch):
    sizes = dict(BLOCK_M=128, BLOCK_N=block_n)
    args = dict(q_desc=f"tensordesc<{dtype}[128,{d}]>", k_desc=f"tensordesc<{dtype}[{block_n},{d}]>",
                v_desc=f"tensordesc<{dtype}[{block_n},{d}]>", out_desc=f"tensordesc<{out}[128,{d}]>",
                lse="*fp32:16", scale="fp32", tokens="i32")
    constants = dict(sizes, D=d, CAUSAL=causal, WARP_SPECIALIZE=warp_specialize)
    # One warpgroup per 64 query rows on Hopper; the register file asks for two from d = 128 on.
    return Case(name, "attention", "attention_forward", args, constants,
                num_warps=8 if d >= 128 and not warp_specialize else 4, **launch)


CASES = [
    pointer_matmul("matmul_pointers_fp16", "fp16", "fp16"),
    pointer_matmul("matmul_pointers_bf16", "bf16", "fp32"),
    pointer_matmul("matmul_pointers_tf32", "fp32", "fp32"),
    pointer_matmul("matmul_pointers_fp8", "fp8e4nv", "fp16"),
    host_matmul("matmul_host_fp16", "fp16", "fp16"),
    host_matmul("matmul_host_bf16", "bf16", "bf16", num_stages=4),
    host_matmul("matmul_host_tf32", "fp32", "fp32", block_k=32),
    host_matmul("matmul_host_fp8", "fp8e4nv", "fp16", block_k=128),
    host_matmul("matmul_host_cluster", "fp16", "fp16", num_ctas=2, archs=(90,)),
    device_matmul("matmul_device_bf16", "bf16", "bf16"),
    persistent_matmul("matmul_persistent_fp16", "fp16", "fp16"),
    persistent_matmul("matmul_persistent_fp8", "fp8e5", "fp16", block_k=128),
    # Triton specialises the warps of these loops for Blackwell only.
    persistent_matmul("matmul_specialised_bf16", "bf16", "bf16", warp_specialize=True,
                      archs=(100,)),
    attention("attention_fp16_d64_causal", "fp16", "fp16", 64, True),
    attention("attention_bf16_d128", "bf16", "bf16", 128, False),
    attention("attention_fp8_d64", "fp8e5", "fp16", 64, False),
    attention("attention_specialised_fp16_d64", "fp16", "fp16", 64, False, warp_specialize=True,
              archs=(100,)),
]

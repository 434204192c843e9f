"""A Triton program as people write it for a GPU: torch tensors on `cuda`, an autotuner, addresses in a tensor.

`sixwarp check -- python check_torch.py` runs it where there is none.
"""

import torch
import triton
import triton.language as tl

DEVICE = triton.runtime.driver.active.get_active_torch_device()


@triton.jit
def softmax_kernel(x, out, stride, columns, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    row = tl.program_id(0) * stride
    scores = tl.load(x + row + i, mask=i < columns, other=-float("inf"))
    exponentials = tl.exp(scores - tl.max(scores, axis=0))
    tl.store(out + row + i, exponentials / tl.sum(exponentials, axis=0), mask=i < columns)


@triton.autotune(configs=[triton.Config({"STEP": 32}), triton.Config({"STEP": 16})], key=["K"])
@triton.jit
def matmul_kernel(a, b, out, K, M: tl.constexpr, N: tl.constexpr, STEP: tl.constexpr):
    i, j, k = tl.arange(0, M)[:, None], tl.arange(0, N)[None, :], tl.arange(0, STEP)
    total = tl.zeros((M, N), dtype=tl.float32)
    for start in range(0, K, STEP):
        left = tl.load(a + i * K + (start + k)[None, :])
        right = tl.load(b + (start + k)[:, None] * N + j)
        total = tl.dot(left, right, total)
    tl.store(out + i * N + j, total)


@triton.jit
def add_all_kernel(addresses, out, count, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for number in range(count):
        total += tl.load(tl.load(addresses + number).to(tl.pointer_type(tl.float32)) + i)
    tl.store(out + i, total)


def main():
    torch.manual_seed(0)
    x = torch.randn(5, 100, device="cuda")
    out = torch.empty_like(x)
    softmax_kernel[(5,)](x, out, x.stride(0), 100, BLOCK=128)
    assert x.is_cuda and torch.allclose(out, torch.softmax(x, dim=-1), atol=1e-6)

    a = torch.randn(64, 1024, device=DEVICE, dtype=torch.float16)
    b = torch.randn(1024, 32).to("cuda", torch.float16)
    product = torch.empty(64, 32, device="cuda")
    matmul_kernel[(1,)](a, b, product, 1024, M=64, N=32)
    torch.cuda.synchronize()
    assert torch.allclose(product, a.float() @ b.float(), atol=1e-3)

    # Halves are summed as on a GPU: in single precision and in the order of K, as the kernel does it.
    assert torch.equal(a @ b, product.half()) and torch.equal(torch.mm(a, b), product.half())
    many = 0.1 * torch.randn(1151, 64, device="cuda").half()
    bias = torch.zeros(64, device="cuda", dtype=torch.float16, requires_grad=True)
    torch.nn.functional.layer_norm(torch.randn_like(many), (64,), None, bias).backward(many)
    assert torch.allclose(bias.grad.double(), many.double().sum(dim=0), atol=0.004)

    parts = [torch.randn(64).cuda() for _ in range(3)]
    addresses = torch.tensor([part.data_ptr() for part in parts], device="cuda")
    total = torch.empty(64, device="cuda")
    add_all_kernel[(1,)](addresses, total, 3, BLOCK=64)
    assert torch.allclose(total, sum(parts))

    # Triton's helper around cuBLAS, which its tutorials compare with: its library cannot run here, its products do.
    from triton._C.libtriton import nvidia

    blas = nvidia.cublas.CublasLt(torch.empty(1 << 20, device="cuda", dtype=torch.uint8))
    left, right = (torch.randn(rows, 64, device="cuda").half() for rows in (32, 16))
    product, sums = (torch.empty(32, 16, device="cuda", dtype=torch.float16) for _ in range(2))
    blas.matmul(left, right, product)
    blas.gemm(left, right, product, sums, 2.0, 1.0)
    exact = left.float() @ right.float().T
    assert torch.allclose(product.float(), exact, atol=0.02) and torch.allclose(sums.float(), 3 * exact, atol=0.06)
    print("all right")


if __name__ == "__main__":
    main()

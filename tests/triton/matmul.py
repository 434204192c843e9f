"""C = A @ B in the styles Triton users write it: pointers, tensor descriptors, persistent.

A is [m, k] and row-major. The pointer kernel takes B as [k, n] with any strides, the others as
[n, k] and row-major, which is the only way the hardware takes fp8. C is [m, n] and row-major.
"""

import triton
import triton.language as tl


@triton.jit
def matmul_pointers(
    a, b, c, m, n, k,
    stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    steps = tl.arange(0, BLOCK_K)
    a_tile = a + rows[:, None] * stride_am + steps[None, :] * stride_ak
    b_tile = b + steps[:, None] * stride_bk + cols[None, :] * stride_bn
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for start in range(0, k, BLOCK_K):
        inside = steps < k - start
        x = tl.load(a_tile, mask=(rows < m)[:, None] & inside[None, :], other=0.0)
        y = tl.load(b_tile, mask=inside[:, None] & (cols < n)[None, :], other=0.0)
        acc = tl.dot(x, y, acc)
        a_tile += BLOCK_K * stride_ak
        b_tile += BLOCK_K * stride_bk
    c_tile = c + rows[:, None] * stride_cm + cols[None, :] * stride_cn
    inside = (rows < m)[:, None] & (cols < n)[None, :]
    tl.store(c_tile, acc.to(c.dtype.element_ty), mask=inside)


@triton.jit
def matmul_host_descriptors(
    a, b, c, k,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):
    row = tl.program_id(0) * BLOCK_M
    col = tl.program_id(1) * BLOCK_N
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for start in range(0, k, BLOCK_K):
        acc = tl.dot(a.load([row, start]), b.load([col, start]).T, acc)
    c.store([row, col], acc.to(c.dtype))


@triton.jit
def matmul_device_descriptors(
    a, b, c, m, n, k,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):
    a_desc = tl.make_tensor_descriptor(a, [m, k], [k, 1], [BLOCK_M, BLOCK_K])
    b_desc = tl.make_tensor_descriptor(b, [n, k], [k, 1], [BLOCK_N, BLOCK_K])
    c_desc = tl.make_tensor_descriptor(c, [m, n], [n, 1], [BLOCK_M, BLOCK_N])
    row = tl.program_id(0) * BLOCK_M
    col = tl.program_id(1) * BLOCK_N
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for start in range(0, k, BLOCK_K):
        acc = tl.dot(a_desc.load([row, start]), b_desc.load([col, start]).T, acc)
    c_desc.store([row, col], acc.to(c.dtype.element_ty))


@triton.jit
def matmul_persistent(
    a, b, c, m, n, k, programs,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
    WARP_SPECIALIZE: tl.constexpr,
):
    tiles_n = tl.cdiv(n, BLOCK_N)
    tiles = tl.cdiv(m, BLOCK_M) * tiles_n
    for tile in tl.range(tl.program_id(0), tiles, programs, flatten=True,
                         warp_specialize=WARP_SPECIALIZE):
        row = (tile // tiles_n) * BLOCK_M
        col = (tile % tiles_n) * BLOCK_N
        acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
        for start in range(0, k, BLOCK_K):
            acc = tl.dot(a.load([row, start]), b.load([col, start]).T, acc)
        c.store([row, col], acc.to(c.dtype))

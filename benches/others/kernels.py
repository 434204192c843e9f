"""Triton kernels of common kinds, beside those of tests/triton: what a model of time has to predict besides attention."""

import triton
import triton.language as tl


@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < n
    tl.store(out + i, tl.load(x + i, mask=inside) + tl.load(y + i, mask=inside), mask=inside)


@triton.jit
def gelu(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < n
    value = tl.load(x + i, mask=inside).to(tl.float32)
    inner = 0.7978845608 * (value + 0.044715 * value * value * value)
    tl.store(out + i, (value * tl.sigmoid(2 * inner)).to(out.dtype.element_ty), mask=inside)


@triton.jit
def softmax(x, out, columns, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    row = tl.program_id(0) * columns
    scores = tl.load(x + row + i, mask=i < columns, other=-float("inf")).to(tl.float32)
    exponentials = tl.exp(scores - tl.max(scores, axis=0))
    result = exponentials / tl.sum(exponentials, axis=0)
    tl.store(out + row + i, result.to(out.dtype.element_ty), mask=i < columns)


@triton.jit
def layer_norm(x, weight, bias, out, columns, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    inside = i < columns
    row = tl.program_id(0) * columns
    values = tl.load(x + row + i, mask=inside, other=0.0).to(tl.float32)
    mean = tl.sum(values, axis=0) / columns
    centred = tl.where(inside, values - mean, 0.0)
    scale = tl.rsqrt(tl.sum(centred * centred, axis=0) / columns + 1e-5)
    result = centred * scale * tl.load(weight + i, mask=inside) + tl.load(bias + i, mask=inside)
    tl.store(out + row + i, result.to(out.dtype.element_ty), mask=inside)


@triton.jit
def row_sum(x, out, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * columns
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, columns, BLOCK):
        i = start + tl.arange(0, BLOCK)
        total += tl.load(x + row + i, mask=i < columns, other=0.0)
    tl.store(out + tl.program_id(0), tl.sum(total, axis=0))


@triton.jit
def transpose(x, out, rows, columns, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    j = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    tile = tl.load(x + i[:, None] * columns + j[None, :])
    tl.store(out + j[:, None] * rows + i[None, :], tile.T)


@triton.jit
def gather(table, index, out, columns, BLOCK: tl.constexpr):
    row = tl.load(index + tl.program_id(0)).to(tl.int64)
    i = tl.arange(0, BLOCK)
    values = tl.load(table + row * columns + i, mask=i < columns)
    tl.store(out + tl.program_id(0).to(tl.int64) * columns + i, values, mask=i < columns)


@triton.jit
def matmul_split(a, b, c, m, n, k, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
                 SPLITS: tl.constexpr):
    """Parts of the inner dimension are added by atomic operations."""
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    steps = tl.program_id(2) * BLOCK_K + tl.arange(0, BLOCK_K)
    a_tile = a + rows[:, None] * k + steps[None, :]
    b_tile = b + steps[:, None] * n + columns[None, :]
    total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for _ in range(0, k, BLOCK_K * SPLITS):
        total = tl.dot(tl.load(a_tile), tl.load(b_tile), total)
        a_tile += BLOCK_K * SPLITS
        b_tile += BLOCK_K * SPLITS * n
    tl.atomic_add(c + rows[:, None] * n + columns[None, :], total, sem="relaxed")


@triton.jit
def matmul_grouped(a, b, c, starts, n, k, tiles_n, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
                   BLOCK_K: tl.constexpr):
    """Rows of one group after the other, each group with a matrix of its own; groups begin at multiples of a tile."""
    row = tl.program_id(0) // tiles_n
    column = tl.program_id(0) % tiles_n
    group = tl.load(starts + row).to(tl.int64)
    rows = row * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = column * BLOCK_N + tl.arange(0, BLOCK_N)
    steps = tl.arange(0, BLOCK_K)
    a_tile = a + rows[:, None] * k + steps[None, :]
    b_tile = b + group * n * k + steps[:, None] * n + columns[None, :]
    total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for _ in range(0, k, BLOCK_K):
        total = tl.dot(tl.load(a_tile), tl.load(b_tile), total)
        a_tile += BLOCK_K
        b_tile += BLOCK_K * n
    tl.store(c + rows[:, None] * n + columns[None, :], total.to(c.dtype.element_ty))


@triton.jit
def decode(q, keys, values, parts, lse, scale, tokens, part, HEADS: tl.constexpr, D: tl.constexpr,
           BLOCK: tl.constexpr):
    """One token's query heads over a part of the keys of their head."""
    head, split = tl.program_id(0), tl.program_id(1)
    rows, columns, i = tl.arange(0, HEADS), tl.arange(0, D), tl.arange(0, BLOCK)
    query = tl.load(q + (head * HEADS + rows)[:, None] * D + columns[None, :])
    top = tl.full((HEADS,), float("-inf"), tl.float32)
    below = tl.zeros((HEADS,), tl.float32)
    total = tl.zeros((HEADS, D), tl.float32)
    base = head.to(tl.int64) * tokens * D
    for start in range(split * part, split * part + part, BLOCK):
        k = tl.load(keys + base + (start + i)[None, :] * D + columns[:, None])
        scores = tl.dot(query, k) * scale
        higher = tl.maximum(top, tl.max(scores, 1))
        p = tl.math.exp2(scores - higher[:, None])
        factor = tl.math.exp2(top - higher)
        v = tl.load(values + base + (start + i)[:, None] * D + columns[None, :])
        total = tl.dot(p.to(v.dtype), v, total * factor[:, None])
        below = below * factor + tl.sum(p, 1)
        top = higher
    at = (split * tl.num_programs(0) + head) * HEADS + rows
    tl.store(parts + at[:, None] * D + columns[None, :], total / below[:, None])
    tl.store(lse + at, top + tl.math.log2(below))


@triton.jit
def exponentials(x, out, rounds, BLOCK: tl.constexpr):
    """Special functions alone."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + i)
    for _ in range(rounds):
        value = tl.math.exp2(value) - 1.0
    tl.store(out + i, value)

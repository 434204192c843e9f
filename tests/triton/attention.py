"""Forward attention: out and LSE of softmax(scale * q k^T) v, one program per head and query tile.

q, k, v and out are [heads * tokens, D] and row-major, lse is [heads * tokens] in natural log.
`scale` is the softmax scale times log2(e).
"""

import triton
import triton.language as tl


@triton.jit
def attend_tile(
    q, k_desc, v_desc, acc, row_max, row_sum, base, low, high, scale, rows,
    BLOCK_N: tl.constexpr, MASKED: tl.constexpr, WARP_SPECIALIZE: tl.constexpr,
):
    for start in tl.range(low, high, BLOCK_N, warp_specialize=WARP_SPECIALIZE):
        k = k_desc.load([base + start, 0])
        s = tl.dot(q, k.T) * scale
        if MASKED:
            keys = start + tl.arange(0, BLOCK_N)
            s = tl.where(rows[:, None] >= keys[None, :], s, float("-inf"))
        new_max = tl.maximum(row_max, tl.max(s, 1))
        p = tl.math.exp2(s - new_max[:, None])
        rescale = tl.math.exp2(row_max - new_max)
        acc = acc * rescale[:, None]
        v = v_desc.load([base + start, 0])
        acc = tl.dot(p.to(v.dtype), v, acc)
        row_sum = row_sum * rescale + tl.sum(p, 1)
        row_max = new_max
    return acc, row_max, row_sum


@triton.jit
def attention_forward(
    q_desc, k_desc, v_desc, out_desc, lse, scale, tokens,
    D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
    CAUSAL: tl.constexpr, WARP_SPECIALIZE: tl.constexpr,
):
    tile = tl.program_id(0) * BLOCK_M
    base = tl.program_id(1) * tokens
    rows = tile + tl.arange(0, BLOCK_M)
    q = q_desc.load([base + tile, 0])
    acc = tl.zeros((BLOCK_M, D), tl.float32)
    row_max = tl.full((BLOCK_M,), float("-inf"), tl.float32)
    row_sum = tl.zeros((BLOCK_M,), tl.float32)
    full = tile if CAUSAL else tokens
    acc, row_max, row_sum = attend_tile(
        q, k_desc, v_desc, acc, row_max, row_sum, base, 0, full, scale, rows,
        BLOCK_N, False, WARP_SPECIALIZE)
    if CAUSAL:
        acc, row_max, row_sum = attend_tile(
            q, k_desc, v_desc, acc, row_max, row_sum, base, tile, tile + BLOCK_M, scale, rows,
            BLOCK_N, True, WARP_SPECIALIZE)
    acc = acc / row_sum[:, None]
    out_desc.store([base + tile, 0], acc.to(out_desc.dtype))
    tl.store(lse + base + rows, (row_max + tl.math.log2(row_sum)) * 0.6931471805599453)

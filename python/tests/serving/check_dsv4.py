"""DeepSeek-V4 on the CPU: sixwarp and vLLM's own CPU kernels on the same packed pages."""

import pytest
import torch
from vllm import _custom_ops
from vllm.platforms import current_platform

from sixwarp import dsv4
from sixwarp.flash_mla import flash_mla_with_kvcache

current_platform.import_kernels()
TOKENS, WINDOW = 7, 128


def generator(seed):
    return torch.Generator().manual_seed(seed)


def pages_of(rows, page):
    """Packed pages `[pages, bytes]`, written by sixwarp."""
    made = torch.randn(rows, 512, generator=generator(rows)).bfloat16()
    return dsv4.pack_rows(made, page)


def lists(width, rows, seed):
    """Places of rows, some of them -1; the third token has none."""
    found = torch.randint(-rows // 8, rows, (TOKENS, width), generator=generator(seed)).clamp(min=-1)
    found[2] = -1
    return found


def engine_view(pages, page):
    return pages[:, : page * 584].unflatten(1, (page, 1, 584))


@pytest.mark.parametrize("heads", [1, 8, 16, 64, 128])
@pytest.mark.parametrize("compressed_page, width", [(None, 0), (64, 512), (2, 40)])
def test_attention_over_the_same_pages(heads, compressed_page, width):
    near, near_lists = pages_of(5 * 64, 64), lists(WINDOW, 5 * 64, 1)
    far, page = (near, 1) if compressed_page is None else (pages_of(300 * compressed_page // 2, compressed_page), compressed_page)
    far_lists = lists(width, len(far) * page, 2) if width else near_lists.new_empty((TOKENS, 0))
    q = torch.randn(TOKENS, heads, 512, generator=generator(heads)).bfloat16()
    sinks = torch.linspace(-3, 3, heads)
    theirs = torch.full_like(q, 7)
    _custom_ops.flash_mla_with_kvcache_cpu(theirs, q, near, near_lists, 64, far, far_lists, page, sinks, 512**-0.5)
    extra = {} if not width else dict(extra_k_cache=engine_view(far, page), extra_indices_in_kvcache=far_lists[:, None].int())
    ours, _ = flash_mla_with_kvcache(
        q[:, None], engine_view(near, 64), indices=near_lists[:, None].int(), is_fp8_kvcache=True, attn_sink=sinks,
        softmax_scale=512**-0.5, **extra,
    )  # fmt: skip
    torch.testing.assert_close(ours[:, 0].float(), theirs.float(), atol=2e-2, rtol=2e-2)
    assert not bool(ours[2].any())


@pytest.mark.parametrize("page", [64, 128])
def test_rows_that_vllm_wrote_are_the_rows_that_sixwarp_reads(page):
    rows, heads = 3 * page, 4
    kv = torch.randn(rows, 512, generator=generator(1)).bfloat16()
    q = torch.randn(rows, heads, 512, generator=generator(2)).bfloat16()
    positions = torch.arange(rows) * 3
    angles = torch.rand(int(positions.max()) + 1, 32, generator=generator(3)) * 6
    table = torch.cat([angles.cos(), angles.sin()], 1)
    pages = torch.zeros(3, dsv4.page_bytes(page), dtype=torch.uint8)
    slots = torch.randperm(rows, generator=generator(4))
    _custom_ops.fused_qnorm_rope_kv_insert_cpu(q, kv, positions, pages, slots, table, heads, 1e-6, page)
    even, odd = kv[:, 448::2].float(), kv[:, 449::2].float()
    cos, sin = table[positions].chunk(2, 1)
    turned = torch.stack([even * cos - odd * sin, even * sin + odd * cos], -1).flatten(1)
    want = torch.empty_like(kv)
    want[slots] = torch.cat([kv[:, :448], turned.bfloat16()], 1)
    theirs, ours = dsv4.unpack_rows(pages, rows, page), dsv4.unpack_rows(dsv4.pack_rows(want, page), rows, page)
    # Rounded to e4m3 in blocks of 64 by both. vLLM writes 0 for e4m3's subnormal numbers, which are below 2^-12 here.
    tiny = ours[:, :448].abs() < 2**-12
    assert torch.equal(theirs[:, :448].where(~tiny, 0), ours[:, :448].where(~tiny, 0))
    # The turned columns are rounded to bfloat16 behind other arithmetic.
    torch.testing.assert_close(theirs[:, 448:], ours[:, 448:], atol=0, rtol=2**-7)

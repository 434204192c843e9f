"""FlashMLA's functions, against softmax in float64 over gathered, dequantised rows."""

import inspect
import math

import pytest

torch = pytest.importorskip("torch")

import sixwarp
from sixwarp import dsv4, flash_mla
from sixwarp.flash_mla import flash_mla_sparse_fwd, flash_mla_with_kvcache, get_mla_metadata

E2M1 = torch.tensor([0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0])
E2M1 = torch.cat([E2M1, -E2M1])


def generator(seed):
    return torch.Generator().manual_seed(seed)


def bytes_of(*shape, seed, below=0x60):
    """Bytes that no format reads as NaN, nor as a large number."""
    signs = torch.randint(2, shape, generator=generator(seed + 1000)) * 128
    return (torch.randint(below, shape, generator=generator(seed)) + signs).to(torch.uint8)


def e4m3(x):
    return x.contiguous().view(torch.float8_e4m3fn).double()


def powers(exponents):
    return torch.pow(2.0, exponents.double() - 127)


class Format:
    """A way to store rows: pages of bytes as an engine views them, and what the rows are, by the format's words."""

    def __init__(self, row_bytes, inline, pages, page, seed, gap=0):
        self.row_bytes, self.inline = row_bytes, inline
        make = {584: self.model1, 656: self.v32, 528: self.v41_fp8, 288: self.v41_fp4}[row_bytes]
        data, scales, self.rows = make(pages * page, seed)
        split = [x.reshape(pages, page, -1) for x in (data, scales)]
        whole = torch.cat(split, 2) if inline or row_bytes == 656 else torch.cat([x.flatten(1) for x in split], 1)
        memory = torch.full((pages, page * row_bytes + gap), 0xFF, dtype=torch.uint8)
        memory[:, : page * row_bytes] = whole.reshape(pages, -1)
        self.pages = memory[:, : page * row_bytes].unflatten(1, (page, 1, row_bytes))

    def model1(self, n, seed):
        nope, rope = bytes_of(n, 448, seed=seed), torch.randn(n, 64, generator=generator(seed)).bfloat16()
        scales = torch.randint(120, 128, (n, 8), generator=generator(seed)).to(torch.uint8)
        rows = torch.cat([e4m3(nope) * powers(scales[:, :7]).repeat_interleave(64, 1), rope.double()], 1)
        return torch.cat([nope, rope.view(torch.uint8)], 1), scales, rows

    def v32(self, n, seed):
        nope, rope = bytes_of(n, 512, seed=seed), torch.randn(n, 64, generator=generator(seed)).bfloat16()
        scales = torch.rand(n, 4, generator=generator(seed)) / 8
        nope_rows = (e4m3(nope).float() * scales.repeat_interleave(128, 1)).bfloat16().double()
        data = torch.cat([nope, scales.view(torch.uint8), rope.view(torch.uint8)], 1)
        return data, data[:, :0], torch.cat([nope_rows, rope.double()], 1)

    def v41_fp8(self, n, seed):
        data = bytes_of(n, 512, seed=seed)
        scales = torch.randint(120, 128, (n, 16), generator=generator(seed)).to(torch.uint8)
        return data, scales, e4m3(data) * powers(scales).repeat_interleave(32, 1)

    def v41_fp4(self, n, seed):
        data, scales = bytes_of(n, 256, seed=seed, below=128), bytes_of(n, 32, seed=seed + 1, below=0x40)
        pairs = torch.stack([E2M1[(data & 15).long()], E2M1[(data >> 4).long()]], 2).flatten(1).double()
        return data, scales, pairs * e4m3(scales).repeat_interleave(16, 1)


def reference(q, keys, scale, sinks, width=512):
    """One query `[heads, dim]` on rows `[n, dim]`."""
    s = q.double() @ keys.double().T * scale
    logits = torch.cat([s, sinks.double()[:, None]], 1) if sinks is not None else s
    weights = torch.softmax(logits, 1)[:, : len(keys)] if len(keys) else s
    lse = torch.logsumexp(s, 1) if len(keys) else torch.full((len(q),), torch.inf, dtype=torch.float64)
    return weights @ keys.double()[:, :width], lse


def picked(rows, entries, length):
    entries = entries[: len(entries) if length is None else int(length)].long()
    return rows[entries[(entries >= 0) & (entries < len(rows))]]


def ensure_right(q, out, lse, lists, sinks, scale=None):
    """`lists` are `(rows, indices, lengths)` of each cache."""
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    assert out.dtype == q.dtype and out.shape == (*q.shape[:3], 512)
    assert lse.dtype == torch.float32 and lse.shape == (q.shape[0], q.shape[2], q.shape[1])
    for b in range(q.shape[0]):
        for t in range(q.shape[1]):
            length = lambda x: None if x is None else x[b, t] if x.dim() == 2 else x[b]
            keys = torch.cat([picked(rows, indices[b, t], length(lengths)) for rows, indices, lengths in lists])
            want, want_lse = reference(q[b, t], keys, scale, sinks)
            # Probabilities have eight bits, and values may be large.
            largest = float(keys.abs().max()) if len(keys) else 0.0
            torch.testing.assert_close(out[b, t].double(), want, atol=max(2e-2, largest / 256), rtol=2e-2)
            torch.testing.assert_close(lse[b, :, t].double(), want_lse, atol=1e-3, rtol=1e-4)


def some_lists(shape, rows, seed):
    """Entries of which every seventh or so names no row."""
    entries = torch.randint(-rows // 7, rows + rows // 7, shape, generator=generator(seed), dtype=torch.int32)
    entries[..., ::31] = 2**31 - 1
    return entries


def queries(*shape, seed=0):
    return torch.randn(*shape, generator=generator(seed)).bfloat16()


def lengths_of(values):
    return torch.tensor(values, dtype=torch.int32)


@pytest.mark.parametrize("s_q, heads", [(1, 64), (2, 3), (8, 1)])
def test_the_decode_call_that_serving_engines_make(s_q, heads):
    near, far = Format(584, False, 3, 64, seed=1, gap=64), Format(584, False, 40, 2, seed=2, gap=560)
    q, sinks = queries(4, s_q, heads, 512), torch.linspace(-3, 3, heads)
    indices = some_lists((4, s_q, 300), len(near.rows), 3)[..., :128]
    extra = some_lists((4, s_q, 70), len(far.rows), 4)
    topk, extra_topk = lengths_of([128, 1, 0, 77]), lengths_of([70, 1, 0, 0])
    # SGLang pads with an entry that names no row, and a length of 1.
    indices[1, ..., 0], extra[1, ..., 0] = 0, -1
    given = torch.empty_like(q)
    out, lse = flash_mla_with_kvcache(
        q=q, k_cache=near.pages, block_table=None, cache_seqlens=None, head_dim_v=512,
        tile_scheduler_metadata=get_mla_metadata()[0], is_fp8_kvcache=True, indices=indices, topk_length=topk,
        softmax_scale=512**-0.5, attn_sink=sinks, extra_k_cache=far.pages, extra_indices_in_kvcache=extra,
        extra_topk_length=extra_topk, out=given,
    )  # fmt: skip
    assert out is given and not indices.is_contiguous()
    ensure_right(q, out, lse, [(near.rows, indices, topk), (far.rows, extra, extra_topk)], sinks)
    assert bool(lse[2].isposinf().all()) and not bool(out[2].any())


def test_lengths_of_tokens():
    cache = Format(584, False, 5, 16, seed=1)
    indices = some_lists((2, 3, 40), len(cache.rows), 5)
    topk = lengths_of([[40, 0, 7], [1, 2, 3]])
    apart = queries(2, 4, 4, 1024)[:, :3, :, :512]
    even, sinks = queries(2, 3, 4, 512), torch.zeros(4)
    wide = torch.empty(2, 5, 4, 512, dtype=torch.bfloat16)[:, :3]
    for q, out in ((even, None), (apart, None), (even, wide), (apart, torch.empty_like(even))):
        found = flash_mla_with_kvcache(
            q, cache.pages, None, None, 512, None, is_fp8_kvcache=True, indices=indices, topk_length=topk,
            attn_sink=sinks, out=out, softmax_scale=0.05,
        )  # fmt: skip
        assert out is None or found[0] is out
        ensure_right(q, *found, [(cache.rows, indices, topk)], sinks, 0.05)
    # One cache by request, one by token.
    extra, extra_topk = some_lists((2, 3, 9), len(cache.rows), 6), lengths_of([9, 0])
    found = flash_mla_with_kvcache(
        even, cache.pages, indices=indices, is_fp8_kvcache=True, topk_length=topk, extra_k_cache=cache.pages,
        extra_indices_in_kvcache=extra, extra_topk_length=extra_topk,
    )  # fmt: skip
    ensure_right(even, *found, [(cache.rows, indices, topk), (cache.rows, extra, extra_topk)], None)


@pytest.mark.parametrize("page", [1, 2, 7, 64, 256])
@pytest.mark.parametrize("row_bytes, inline", [(584, False), (656, False), (528, False), (528, True), (288, False), (288, True)])
def test_every_format_in_pages_of_any_size(row_bytes, inline, page):
    cache = Format(row_bytes, inline, 70 // page + 2, page, seed=7, gap=16)
    q = queries(2, 2, 5, cache.rows.shape[1])
    indices = some_lists((2, 2, 33), len(cache.rows), 8)
    for pages in (cache.pages, cache.pages.view(torch.float8_e4m3fn), cache.pages[:, :, 0]):
        found = flash_mla_with_kvcache(
            q, pages, None, None, 512, None, is_fp8_kvcache=True, indices=indices, use_legacy=not inline
        )
        ensure_right(q, *found, [(cache.rows, indices, None)], None)


def test_rows_of_16_bits_and_formats_beside_each_other():
    rows = queries(80, 512, seed=3)
    q, indices = queries(2, 1, 4, 512), some_lists((2, 1, 50), 80, 9)
    found = flash_mla_with_kvcache(q, rows.view(10, 8, 1, 512), indices=indices)
    ensure_right(q, *found, [(rows, indices, None)], None)
    fp8, fp4 = Format(528, True, 2, 40, seed=1), Format(288, True, 40, 2, seed=2)
    found = flash_mla_with_kvcache(
        q, fp8.pages, indices=indices, is_fp8_kvcache=True, use_legacy=False, extra_k_cache=fp4.pages,
        extra_indices_in_kvcache=indices,
    )  # fmt: skip
    ensure_right(q, *found, [(fp8.rows, indices, None), (fp4.rows, indices, None)], None)


@pytest.mark.parametrize("causal", [False, True])
def test_dense_decode(causal):
    q, pages = queries(3, 2, 6, 576), queries(9, 16, 1, 576, seed=1)
    table = torch.randperm(9, generator=generator(2)).view(3, 3).int()
    lengths = lengths_of([48, 17, 0])
    out, lse = flash_mla_with_kvcache(q, pages, table, lengths, 512, *get_mla_metadata(lengths, 12, 1), causal=causal)
    assert out.shape == (3, 2, 6, 512) and lse.shape == (3, 6, 2)
    for b in range(3):
        for t in range(2):
            end = max(int(lengths[b]) - (1 - t if causal else 0), 0)
            keys = pages[table[b].long()].reshape(-1, 576)[:end]
            want, want_lse = reference(q[b, t], keys, 576**-0.5, None)
            # Probabilities have eight bits, and values may be large.
            largest = float(keys.abs().max()) if len(keys) else 0.0
            torch.testing.assert_close(out[b, t].double(), want, atol=max(2e-2, largest / 256), rtol=2e-2)
            torch.testing.assert_close(lse[b, :, t].double(), want_lse, atol=1e-3, rtol=1e-4)


@pytest.mark.parametrize("dim", [512, 576])
@pytest.mark.parametrize("with_lengths", [False, True])
def test_sparse_prefill(dim, with_lengths):
    q, kv, sinks = queries(5, 6, dim), queries(90, 1, dim, seed=1), torch.linspace(-2, 2, 6)
    indices = some_lists((5, 1, 70), 90, 3)
    topk = lengths_of([70, 0, 1, 64, 30]) if with_lengths else None
    out, most, lse = flash_mla_sparse_fwd(q, kv, indices, 0.07, attn_sink=sinks, topk_length=topk)
    ensure_right(q[:, None], out[:, None], lse[:, :, None], [(kv[:, 0], indices, topk)], sinks, 0.07)
    assert most.dtype == torch.float32 and most.shape == lse.shape == (5, 6)
    for t in range(5):
        keys = picked(kv[:, 0], indices[t, 0], None if topk is None else topk[t])
        scores = q[t].double() @ keys.double().T * 0.07
        want = scores.amax(1) if len(keys) else torch.full((6,), -torch.inf, dtype=torch.float64)
        torch.testing.assert_close(most[t].double(), want, atol=1e-3, rtol=1e-4)
    given = torch.empty_like(out)
    again, none, _ = flash_mla_sparse_fwd(q, kv, indices, 0.07, 512, sinks, topk, out=given, need_max_logits=False)
    assert again is given and none is None and torch.equal(given, out)
    _, most2, lse2 = flash_mla_sparse_fwd(q, kv, indices, 0.07, topk_length=topk, return_log2_lse=True)
    torch.testing.assert_close((most2 * math.log(2), lse2 * math.log(2)), (most, lse))


def test_a_prefill_over_no_rows():
    out, most, lse = flash_mla_sparse_fwd(queries(2, 3, 512), queries(0, 1, 512), some_lists((2, 1, 4), 9, 1), 1.0)
    assert not bool(out.any()) and bool(most.isneginf().all()) and bool(lse.isposinf().all())


def test_sinks_from_none_to_overwhelming():
    cache, indices = Format(584, False, 2, 8, seed=1), some_lists((1, 1, 9), 16, 2)
    q = queries(1, 1, 6, 512)
    for value in (-torch.inf, -50.0, 50.0, 1e30, torch.inf):
        sinks = torch.full((6,), value)
        found = flash_mla_with_kvcache(q, cache.pages, indices=indices, is_fp8_kvcache=True, attn_sink=sinks)
        finite = sinks.clamp(-1e30, 1e30)
        ensure_right(q, *found, [(cache.rows, indices, None)], finite)


def test_what_is_not_supported_is_refused_by_name():
    cache, indices = Format(584, False, 2, 8, seed=1), some_lists((2, 1, 9), 16, 2)
    q, sink = queries(2, 1, 4, 512), torch.zeros(4)
    call = lambda **given: flash_mla_with_kvcache(q, cache.pages, **{"is_fp8_kvcache": True, "indices": indices, **given})
    for name, value in dict(causal=True, descale_q=sink, descale_k=sink, extra_topk_length=lengths_of([1, 1])).items():
        with pytest.raises(NotImplementedError, match=f"{name} is not supported"):
            call(**{name: value})
    for name, value in dict(attn_sink=sink, topk_length=lengths_of([1, 1]), is_fp8_kvcache=True).items():
        with pytest.raises(NotImplementedError, match=f"without indices: {name} is not supported"):
            flash_mla_with_kvcache(queries(2, 1, 4, 576), queries(3, 8, 1, 576), **{name: value})
    with pytest.raises(NotImplementedError, match="indexer_topk is not supported"):
        flash_mla_sparse_fwd(q[:, 0], queries(9, 1, 512), indices, 1.0, indexer_topk=512)
    with pytest.raises(ValueError, match="block_table and cache_seqlens are needed"):
        flash_mla_with_kvcache(queries(2, 1, 4, 576), queries(3, 8, 1, 576))
    with pytest.raises(ValueError, match="k_cache is torch.uint8, and is_fp8_kvcache is False"):
        call(is_fp8_kvcache=False)
    with pytest.raises(ValueError, match="extra_k_cache and extra_indices_in_kvcache are given together"):
        call(extra_k_cache=cache.pages)
    with pytest.raises(ValueError, match=r"attn_sink has shape \(3,\)"):
        call(attn_sink=sink[:3])
    with pytest.raises(TypeError, match="attn_sink is torch.int32: float32 is needed"):
        call(attn_sink=sink.int())
    with pytest.raises(TypeError, match="q is ndarray: a torch tensor is needed"):
        flash_mla_with_kvcache(sink.numpy(), cache.pages)
    with pytest.raises(ValueError, match=r"q has shape \(\)"):
        flash_mla_sparse_fwd(sink[0], queries(9, 1, 512), indices, 1.0)
    with pytest.raises(ValueError, match=r"topk_length has shape \(3,\): \(2,\) is needed"):
        call(topk_length=lengths_of([1, 1, 1]))
    with pytest.raises(ValueError, match=r"topk_length: entry 1 must lie in 0..=9"):
        call(topk_length=lengths_of([1, 10]))
    with pytest.raises(ValueError, match="k_cache has shape .* rows of 584, 656, 528, 288 bytes"):
        flash_mla_with_kvcache(q, cache.pages[..., :500], is_fp8_kvcache=True, indices=indices)
    with pytest.raises(ValueError, match="k_cache has strides .*: pages must be contiguous"):
        flash_mla_with_kvcache(q, torch.zeros(2, 8, 2, 584, dtype=torch.uint8)[:, :, :1], is_fp8_kvcache=True, indices=indices)
    with pytest.raises(ValueError, match="k_cache: must have q's dim"):
        flash_mla_with_kvcache(queries(2, 1, 4, 576), cache.pages, is_fp8_kvcache=True, indices=indices)
    with pytest.raises(ValueError, match="out is torch.float16|out is f16"):
        call(out=torch.empty(2, 1, 4, 512).half())
    with pytest.raises(NotImplementedError, match="forward pass only"):
        flash_mla_with_kvcache(q.requires_grad_(), cache.pages, is_fp8_kvcache=True, indices=indices)


# What the callers of FlashMLA 9241ae3, vLLM 0.32 and SGLang 0.5.23 name.
KEYWORDS = {
    "flash_mla_with_kvcache": (
        "q k_cache block_table cache_seqlens head_dim_v tile_scheduler_metadata num_splits softmax_scale causal "
        "is_fp8_kvcache indices attn_sink extra_k_cache extra_indices_in_kvcache topk_length extra_topk_length"
    ),
    "flash_mla_sparse_fwd": "q kv indices sm_scale d_v attn_sink topk_length indexer_topk",
}


def test_positions_and_names_are_those_of_flash_mla():
    for name, keywords in KEYWORDS.items():
        parameters = inspect.signature(getattr(flash_mla, name)).parameters
        positional = [key for key, p in parameters.items() if p.kind is p.POSITIONAL_OR_KEYWORD]
        assert positional == keywords.split() and "out" in parameters
    meta, none = get_mla_metadata(1, 2, num_heads=3)
    assert none is None and isinstance(meta, flash_mla.FlashMLASchedMeta) and not meta.have_initialized


def test_support_is_said_in_the_planners_words():
    cache, indices = Format(584, False, 2, 8, seed=1), some_lists((2, 1, 9), 16, 2)
    q = queries(2, 1, 8, 512)
    assert dsv4.supports(q, cache.pages, indices, device="sm_90a") is None
    assert dsv4.supports(q, cache.pages, indices) is None
    fp4 = Format(288, False, 2, 8, seed=1)
    for device in ("cpu", "sm_90a", "sm_100a", "sm_103a"):
        assert dsv4.supports(q, fp4.pages, indices, device=device) is None
    odd = Format(584, False, 2, 8, seed=1, gap=1)
    assert "bytes between pages is not supported" in dsv4.supports(q, odd.pages, indices, device="sm_90a")
    with pytest.raises(ValueError, match="window_lists has shape"):
        dsv4.supports(q, cache.pages, indices[:1], device="sm_90a")
    with pytest.raises(RuntimeError, match="no device is called `sm_75`: cpu, sm_80, sm_86, sm_89, sm_90a"):
        dsv4.supports(q, cache.pages, indices, device="sm_75")


def test_support_of_attention():
    x = torch.zeros(1, 4, 2, 64)
    assert sixwarp.supports(x, x, x) is None
    assert sixwarp.supports(x.bfloat16(), x.bfloat16(), x.bfloat16(), device="sm_90a") is None
    for device in ("sm_90a", "sm_100a", "sm_103a", "sim-sm90"):
        assert sixwarp.supports(x, x, x, device=device) is None
        reason = sixwarp.supports(*[x.double()] * 3, device=device)
        assert reason is not None and reason.startswith("dtype f64 is not supported")
    wide = torch.zeros(1, 4, 2, 520).half()
    assert "dim 520 is not supported" in sixwarp.supports(wide, wide, wide, device="sm_90a", causal=True)
    with pytest.raises(ValueError, match="k: must have q's dim"):
        sixwarp.supports(x, wide.float(), wide.float(), device="sm_90a")


@pytest.mark.parametrize("row_bytes", [584, 656, 528, 288])
def test_sparse_prefill_reads_packed_pages_in_place(row_bytes):
    cache = Format(row_bytes, False, 3, 20, seed=4)
    indices = some_lists((6, 1, 30), 60, 5)
    q = queries(6, 1, 4, 576 if row_bytes == 656 else 512)
    lengths = torch.tensor([30, 0, 1, 7, 30, 12], dtype=torch.int32)
    out, most, lse = flash_mla.flash_mla_sparse_fwd(
        q[:, 0], cache.pages, indices, 0.05, topk_length=lengths, need_max_logits=False
    )
    wanted, wanted_lse = flash_mla_with_kvcache(
        q, cache.pages, None, None, 512, None, softmax_scale=0.05, is_fp8_kvcache=True, indices=indices, topk_length=lengths
    )
    assert most is None and torch.equal(out, wanted[:, 0]) and torch.equal(lse, wanted_lse[..., 0])
    with pytest.raises(NotImplementedError, match="max_logits of packed rows"):
        flash_mla.flash_mla_sparse_fwd(q[:, 0], cache.pages, indices, 0.05)

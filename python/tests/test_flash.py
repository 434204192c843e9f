"""flash-attn's functions: caches that grow or refuse to, keywords of other versions, packed forms, the log-sum-exp."""

import math

import pytest

torch = pytest.importorskip("torch")

import sixwarp.torch as ours
from sixwarp.torch import _kvcache

DEVICES = ["cpu"] + (["cuda"] if torch.cuda.is_available() else [])
DIM = 32


@pytest.fixture(params=DEVICES)
def device(request):
    return request.param


def some(*shape, device="cpu"):
    x = torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)))
    return x.to(device, torch.float32 if device == "cpu" else torch.bfloat16)


def ints(values, device="cpu"):
    return torch.tensor(values, dtype=torch.int32, device=device)


def reference(q, k, v, causal=False, window=(-1, -1), sinks=None, slopes=None):
    """One sequence, `[tokens, heads, dim]`: the output and the log-sum-exp without sinks, in f64."""
    q, k, v = (x.double().transpose(0, 1) for x in (q, k, v))
    k, v = (x.repeat_interleave(q.shape[0] // x.shape[0], 0) for x in (k, v))
    scores = q @ k.transpose(1, 2) / math.sqrt(q.shape[-1])
    row = torch.arange(q.shape[1], device=q.device)[:, None] + k.shape[1] - q.shape[1]
    apart = torch.arange(k.shape[1], device=q.device) - row
    if slopes is not None:
        scores = scores - slopes.double()[:, None, None] * apart.abs()
    left, right = window[0], 0 if causal else window[1]
    seen = torch.ones_like(apart, dtype=torch.bool)
    seen &= apart >= -left if left >= 0 else seen
    seen &= apart <= right if right >= 0 else seen
    scores = scores.masked_fill(~seen, float("-inf"))
    lse = scores.logsumexp(-1)
    total = lse if sinks is None else torch.logaddexp(lse, sinks.double()[:, None])
    weights = (scores - total[..., None]).exp().nan_to_num(0)
    return (weights @ v).transpose(0, 1), lse


def close(got, want):
    tolerance = 2e-5 if got.dtype == torch.float32 else 2e-2
    torch.testing.assert_close(got.double(), want, atol=tolerance, rtol=tolerance)


class Grown:
    """A cache of three sequences of 12 rows, in pages of 4 or not, and two new rows for each."""

    lengths = [4, 9, 0]

    def __init__(self, device, paged=False, rows=2):
        self.q = some(3, 2, 4, DIM, device=device)
        self.k, self.v = some(3, 12, 2, DIM, device=device), some(3, 12, 2, DIM, device=device) + 1
        self.new_k, self.new_v = some(3, rows, 2, DIM, device=device) * 2, some(3, rows, 2, DIM, device=device) * 3
        self.named = {"cache_seqlens": ints(self.lengths, device), "causal": True}
        self.caches = [self.k.clone(), self.v.clone()]
        if paged:
            order = torch.tensor([5, 1, 4, 0, 8, 3, 2, 7, 6], device=device)
            self.named["block_table"] = order.int().reshape(3, 3)
            self.caches = [torch.empty_like(x.view(9, 4, 2, DIM)) for x in self.caches]
            for cache, x in zip(self.caches, (self.k, self.v)):
                cache[order] = x.view(9, 4, 2, DIM)

    def run(self, **changed):
        return ours.flash_attn_with_kvcache(
            self.q, *self.caches, self.new_k, self.new_v, **{**self.named, **changed}
        )

    def wanted(self, b, first=0):
        """Keys and values of a sequence when its rows were appended."""
        n = self.lengths[b]
        return (torch.cat([old[b, first:n], new[b]]) for old, new in ((self.k, self.new_k), (self.v, self.new_v)))

    def refuses(self, match, error=ValueError, **changed):
        """The call raises, and the cache is what it was."""
        before = [x.clone() for x in self.caches]
        with pytest.raises(error, match=match):
            self.run(**changed)
        assert all(map(torch.equal, self.caches, before)), "the cache was written before the call was refused"


@pytest.mark.parametrize("paged", [False, True])
def test_rows_are_appended_where_the_lengths_say(device, paged):
    grown = Grown(device, paged)
    out, lse = grown.run(return_softmax_lse=True)
    for b in range(3):
        want, want_lse = reference(grown.q[b], *grown.wanted(b), causal=True)
        close(out[b], want)
        close(lse[b], want_lse)


@pytest.mark.parametrize("paged", [False, True])
@pytest.mark.parametrize(
    "lengths, match",
    [
        ([4, 11, 0], "sequence 1 goes to row 12, and the cache has rows 0 to 11"),
        ([4, 12, 0], "sequence 1 goes to row 12"),
        ([4, 9, -1], "sequence 2 goes to row -1"),
        ([-5, 9, 0], "sequence 0 goes to row -5"),
        ([2**31 - 1, 0, 0], "sequence 0 goes to row 2147483647"),
    ],
)
def test_rows_that_do_not_fit_are_refused_before_any_is_written(paged, lengths, match):
    Grown("cpu", paged).refuses(match, cache_seqlens=ints(lengths))


@pytest.mark.parametrize("length, match", [(11, "goes to row 12"), (-1, "is -1: from 0 to the 12"), (13, "is 13")])
def test_one_length_for_all_is_checked_too(length, match):
    Grown("cpu").refuses(match, cache_seqlens=length)


@pytest.mark.parametrize("page", [-1, 9, 2**31 - 1])
def test_a_page_that_is_none_is_refused_before_any_row_is_written(page):
    grown = Grown("cpu", paged=True)
    table = grown.named["block_table"].clone()
    table[1, 2] = page
    grown.refuses(rf"block_table\[1, 2\] is {page}, and a new row goes there: pages are 0 to 8", block_table=table)


def test_unused_entries_of_a_table_may_be_anything():
    grown = Grown("cpu", paged=True)
    table = grown.named["block_table"].clone()
    table[0, 2], table[2, 1:] = -1, 77
    close(grown.run(block_table=table)[2], reference(grown.q[2], *grown.wanted(2), causal=True)[0])


@pytest.mark.parametrize(
    "changed, error, match",
    [
        ({"cache_seqlens": None}, ValueError, "need cache_seqlens"),
        ({"cache_seqlens": torch.tensor([4.0, 9.0, 0.0])}, TypeError, "cache_seqlens must hold int32"),
        ({"cache_seqlens": ints([4, 9])}, ValueError, r"cache_seqlens must have shape \(3,\)"),
        ({"block_table": ints([[0], [1]])}, ValueError, r"block_table must have shape \(3, 1\)"),
        ({"block_table": ints([[0], [1], [2]]), "cache_batch_idx": ints([0, 1, 2])}, ValueError, "one is enough"),
        ({"cache_batch_idx": ints([0, 1, 3])}, ValueError, r"cache_batch_idx\[2, 0\] is 3"),
        ({"cache_leftpad": ints([5, 12, 0])}, ValueError, "cache_leftpad is"),
        ({"softcap": float("nan")}, ValueError, None),
        ({"softmax_scale": float("nan")}, ValueError, None),
        ({"alibi_slopes": torch.ones(3)}, ValueError, "alibi_slopes has shape"),
        ({"alibi_slopes": torch.ones(4), "cache_leftpad": ints([0, 0, 0])}, NotImplementedError, "together with cache_leftpad"),
        ({"s_aux": torch.ones(3)}, ValueError, "sinks"),
        ({"out": torch.empty(3, 2, 4, DIM + 1)}, ValueError, "out"),
        ({"rotary_cos": torch.ones(16, 8)}, ValueError, "given together"),
        ({"rotary_cos": torch.ones(5, 8), "rotary_sin": torch.ones(5, 8)}, ValueError, "position 5, and rotary_cos"),
        ({"cu_seqlens_k_new": ints([0, 2, 4, 6])}, ValueError, "k must have shape"),
    ],
)
def test_whatever_is_wrong_nothing_is_written(changed, error, match):
    Grown("cpu").refuses(match, error, **changed)


def test_new_rows_like_the_cache_only():
    grown = Grown("cpu")
    grown.new_k = grown.new_k[:, :, :1]
    grown.refuses("k must have shape")
    grown = Grown("cpu")
    grown.new_v = grown.new_v.half()
    grown.refuses("v is torch.float16 on cpu and v_cache torch.float32")
    grown = Grown("cpu")
    grown.new_v = None
    grown.refuses("k and v are given together")
    grown = Grown("cpu")
    grown.new_v.requires_grad_()
    grown.refuses("forward pass only", NotImplementedError)


@pytest.mark.parametrize("paged", [False, True])
@pytest.mark.parametrize("lengths", [[4, 11, -1], [12, 11, 0], [-2, -1, 77], [-2, 12, 77]])
def test_the_write_itself_leaves_out_what_has_no_place(device, paged, lengths):
    """What keeps a GPU's memory whole, where nothing is read back: on the CPU too, without its checks."""
    grown = Grown(device, paged)
    cache = _kvcache.Cache(*grown.caches, grown.named.get("block_table"), "block_table", 3)
    rows = _kvcache.NewRows.__new__(_kvcache.NewRows)
    rows.cache, rows._check = cache, lambda *_: None
    rows.sequence, rows.number = _kvcache.rows_of(grown.new_k, 3, None)
    places = rows._places(cache.positions(ints(lengths, device), rows.sequence, rows.number))
    _kvcache.write(cache.k, grown.new_k.flatten(0, 1), places)
    want = grown.k.clone()
    for b, n in enumerate(lengths):
        for i in range(2):
            if 0 <= n + i < 12:
                want[b, n + i] = grown.new_k[b, i]
    got = cache.k if cache.table is None else cache.k[cache.table.long()].view_as(want)
    assert torch.equal(got, want)


def test_the_write_itself_leaves_out_pages_that_are_none(device):
    grown = Grown(device, paged=True)
    cache, rows = grown.caches[0], grown.new_k.flatten(0, 1)
    before = cache.clone()
    valid = torch.tensor([False, True, False, True, True, False], device=device)
    place = torch.arange(6, device=device)
    _kvcache.write(cache, rows, _kvcache.Places(place, place % 4, valid))
    for i in range(6):
        want = rows[i] if valid[i] else before[i, i % 4]
        assert torch.equal(cache[i, i % 4], want)
        before[i, i % 4] = want
    assert torch.equal(cache, before)


def test_sequences_by_cache_batch_idx(device):
    grown = Grown(device)
    order = [2, 0, 1]
    caches = [torch.empty_like(x) for x in grown.caches]
    for cache, x in zip(caches, grown.caches):
        cache[order] = x
    grown.caches = caches
    out = grown.run(cache_batch_idx=ints(order, device))
    for b in range(3):
        close(out[b], reference(grown.q[b], *grown.wanted(b), causal=True)[0])


def test_a_cache_may_have_more_sequences(device):
    grown = Grown(device)
    grown.caches = [torch.cat([x, x]) for x in grown.caches]
    close(grown.run()[1], reference(grown.q[1], *grown.wanted(1), causal=True)[0])


def test_left_padding_is_not_seen(device):
    grown = Grown(device)
    leftpad = [1, 7, 0]
    out = grown.run(cache_leftpad=ints(leftpad, device), window_size=(3, 0))
    for b in range(3):
        close(out[b], reference(grown.q[b], *grown.wanted(b, leftpad[b]), causal=True, window=(3, 0))[0])


def test_left_padding_without_lengths_or_pages(device):
    q, k, v = some(2, 1, 4, DIM, device=device), some(2, 6, 2, DIM, device=device), some(2, 6, 2, DIM, device=device)
    out = ours.flash_attn_with_kvcache(q, k, v, cache_leftpad=ints([0, 5], device))
    close(out[1], reference(q[1], k[1, 5:], v[1, 5:])[0])
    with pytest.raises(NotImplementedError, match="together with block_table"):
        table = ints([[0], [1]], device)
        ours.flash_attn_with_kvcache(q, k, v, cache_leftpad=ints([0, 1], device), block_table=table)


def test_packed_queries_and_packed_new_rows(device):
    grown = Grown(device)
    offsets, queries = [0, 3, 3, 4], [0, 1, 3, 6]
    grown.new_k, grown.new_v = some(6, 2, DIM, device=device) * 2, some(6, 2, DIM, device=device) * 3
    grown.q = some(7, 4, DIM, device=device)
    out = grown.run(
        cu_seqlens_k_new=ints(offsets, device), cu_seqlens_q=ints(queries, device), max_seqlen_q=3
    )
    for b, n in enumerate(grown.lengths):
        new, rows = slice(*offsets[b : b + 2]), slice(*queries[b : b + 2])
        k, v = (torch.cat([x[b, :n], y[new]]) for x, y in ((grown.k, grown.new_k), (grown.v, grown.new_v)))
        close(out[rows], reference(grown.q[rows], k, v, causal=True)[0])
    assert torch.equal(grown.caches[0][1], grown.k[1]), "a sequence without new rows was written"


def test_offsets_of_new_rows_are_checked():
    for offsets in ([0, 3, 2, 4], [1, 2, 3, 4], [0, 2, 4, 7]):
        grown = Grown("cpu")
        grown.new_k, grown.new_v = some(6, 2, DIM), some(6, 2, DIM)
        grown.refuses("cu_seqlens_k_new must rise from 0 to at most 6", cu_seqlens_k_new=ints(offsets))


def turned(x, cos, sin, at, interleaved):
    """Rotary embedding of one row `[heads, dim]`, by complex numbers."""
    half = cos.shape[1]
    a, b = (x[:, : 2 * half : 2], x[:, 1 : 2 * half : 2]) if interleaved else (x[:, :half], x[:, half : 2 * half])
    z = torch.complex(a.double(), b.double()) * torch.complex(cos[at].double(), sin[at].double())
    result = x.double().clone()
    parts = (slice(0, 2 * half, 2), slice(1, 2 * half, 2)) if interleaved else (slice(half), slice(half, 2 * half))
    result[:, parts[0]], result[:, parts[1]] = z.real, z.imag
    return result


@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("starts", [None, [3, 0, 7]])
def test_rotary_embeddings(device, interleaved, causal, starts):
    grown = Grown(device)
    angles = torch.rand(16, 8, generator=torch.Generator().manual_seed(1), dtype=torch.float64).to(device) * 6
    cos, sin = angles.cos().to(grown.q.dtype), angles.sin().to(grown.q.dtype)
    named = {} if starts is None else {"rotary_seqlens": ints(starts, device)}
    out = grown.run(rotary_cos=cos, rotary_sin=sin, rotary_interleaved=interleaved, causal=causal, **named)
    for b, n in enumerate(grown.lengths):
        start = n if starts is None else starts[b]
        q, new = (
            torch.stack([turned(x[b, i], cos, sin, start + i * moves, interleaved) for i in range(2)])
            for x, moves in ((grown.q, causal), (grown.new_k, True))
        )
        close(grown.caches[0][b, n : n + 2], new)
        k, v = torch.cat([grown.k[b, :n].double(), new]), torch.cat([grown.v[b, :n], grown.new_v[b]])
        close(out[b], reference(q, k, v, causal=causal)[0])


def test_rotary_embeddings_need_new_rows():
    q, k = some(1, 1, 2, DIM), some(1, 4, 2, DIM)
    table = torch.ones(4, 8)
    with pytest.raises(ValueError, match="needs new rows"):
        ours.flash_attn_with_kvcache(q, k, k, rotary_cos=table, rotary_sin=table, cache_seqlens=2)


SLOPES = torch.tensor([[0.5, 0.25, 0.125, 2.0], [0.1, 0.0, 1.0, 0.3], [0.0, 0.0, 0.0, 9.0]])


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("of_batch", [False, True])
def test_alibi_slopes(device, causal, of_batch):
    slopes = SLOPES.to(device) if of_batch else SLOPES[0].to(device)
    of = lambda b: slopes[b] if of_batch else slopes
    for paged in (False, True):
        grown = Grown(device, paged)
        out = grown.run(alibi_slopes=slopes, causal=causal)
        for b in range(3):
            close(out[b], reference(grown.q[b], *grown.wanted(b), causal=causal, slopes=of(b))[0])
    out = ours.flash_attn_func(grown.q, grown.k, grown.v, causal=causal, alibi_slopes=slopes)
    for b in range(3):
        close(out[b], reference(grown.q[b], grown.k[b], grown.v[b], causal=causal, slopes=of(b))[0])


def test_alibi_slopes_of_packed_sequences_are_refused():
    x, ends = some(7, 2, DIM), ints([0, 3, 7])
    with pytest.raises(NotImplementedError, match="flash_attn_varlen_func: alibi_slopes is not supported"):
        ours.flash_attn_varlen_func(x, x, x, ends, ends, 4, 4, alibi_slopes=torch.ones(2))


FUNCTIONS = {
    "flash_attn_func": lambda x, ends, **named: ours.flash_attn_func(x[None], x[None], x[None], **named),
    "flash_attn_varlen_func": lambda x, ends, **named: ours.flash_attn_varlen_func(x, x, x, ends, ends, 7, 7, **named),
    "flash_attn_with_kvcache": lambda x, ends, **named: ours.flash_attn_with_kvcache(x[None], x[None], x[None], **named),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_keywords_of_other_versions(name):
    x, ends, call = some(7, 2, DIM), ints([0, 3, 7]), FUNCTIONS[name]
    plain = call(x, ends)
    hints = dict(num_splits=3, pack_gqa=True, sm_margin=2, scheduler_metadata=torch.ones(1), fa_version=3)
    neutral = dict(q_descale=None, attention_chunk=0, cp_world_size=1, cp_rank=0, qv=None, dropout_p=0)
    assert torch.equal(call(x, ends, **hints, **neutral, window_size=None), plain)
    out = torch.empty_like(plain)
    assert call(x, ends, out=out) is out and torch.equal(out, plain)
    for keyword, value in (
        ("q_descale", torch.ones(1)), ("qv", x),
        ("attention_chunk", 4), ("cp_world_size", 2), ("dropout_p", 0.1),
        ("seqused_q", ends),
    ):  # fmt: skip
        with pytest.raises(NotImplementedError, match=f"{name}: {keyword} is not supported, and it is"):
            call(x, ends, **{keyword: value})
    with pytest.raises(TypeError, match=rf"{name}\(\) got an unexpected keyword argument 'soft_cap'"):
        call(x, ends, soft_cap=1.0)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_sinks_count_in_the_log_sum_exp(name):
    x, ends, sinks = some(7, 2, DIM), ints([0, 7, 7]), torch.tensor([0.5, 3.0])
    out, lse = FUNCTIONS[name](x, ends, s_aux=sinks.bfloat16(), return_softmax_lse=True)
    want, want_lse = reference(x, x, x, sinks=sinks)
    close(out.view_as(want), want)
    close(lse.view_as(want_lse), torch.logaddexp(want_lse, sinks.double()[:, None]))


def test_rows_without_keys(device):
    """flash-attn: out 0 and lse +inf."""
    q, k = some(1, 3, 2, DIM, device=device), some(1, 1, 2, DIM, device=device)
    out, lse, _ = ours.flash_attn_func(q, k, k, causal=True, return_attn_probs=True)
    assert not out[:, :2].any() and (lse[..., :2] == float("inf")).all() and lse[..., 2].isfinite().all()
    out, lse = ours.flash_attn_with_kvcache(q, k, k, cache_seqlens=0, return_softmax_lse=True)
    assert not out.any() and (lse == float("inf")).all()
    ends, none = ints([0, 3], device), ints([0, 0], device)
    out, lse = ours.flash_attn_varlen_func(q[0], k[0], k[0], ends, none, 3, 1, return_softmax_lse=True)
    assert not out.any() and (lse == float("inf")).all()


def test_packed_forms_are_the_plain_ones(device):
    qkv, ends = some(2, 7, 3, 4, DIM, device=device), ints([0, 3, 7], device)
    q, k, v = qkv.unbind(2)
    rows = (x[0] for x in (q, k, v))
    options = dict(causal=True, window_size=(2, 0), softcap=30.0)
    plain = ours.flash_attn_func(q, k, v, **options)
    packed = ours.flash_attn_varlen_func(*rows, ends, ends, 4, 4, **options)
    assert torch.equal(ours.flash_attn_qkvpacked_func(qkv, 0.0, None, **options), plain)
    assert torch.equal(ours.flash_attn_kvpacked_func(q, qkv[:, :, 1:], **options), plain)
    assert torch.equal(ours.flash_attn_qkvpacked_func(qkv.flatten(2, 3), num_heads_q=4, **options), plain)
    assert torch.equal(ours.flash_attn_varlen_qkvpacked_func(qkv[0], ends, 4, **options), packed)
    pair = ours.flash_attn_varlen_kvpacked_func(q[0], qkv[0, :, 1:], ends, ends, 4, 4, 0.0, **options)
    assert torch.equal(pair, packed)


def test_packed_forms_name_a_wrong_shape():
    with pytest.raises(ValueError, match=r"qkv has shape \(1, 5, 2, 4, 32\): \[batch, tokens, 3, heads, dim\]"):
        ours.flash_attn_qkvpacked_func(some(1, 5, 2, 4, DIM))
    with pytest.raises(ValueError, match="kv has shape"):
        ours.flash_attn_varlen_kvpacked_func(some(5, 4, DIM), some(5, 3, 4, DIM), ints([0, 5]), ints([0, 5]), 5, 5)
    with pytest.raises(ValueError, match="6 query heads"):
        ours.flash_attn_qkvpacked_func(some(1, 5, 9, DIM), num_heads_q=6)


def test_keys_of_vllm(device):
    """Its varlen function is called by name: window as a list, lengths without offsets, pages, an output to fill."""
    grown = Grown(device, paged=True)
    out = torch.empty(6, 4, DIM, device=device, dtype=grown.q.dtype)
    ours.flash_attn_varlen_func(
        q=grown.q.flatten(0, 1), k=grown.caches[0], v=grown.caches[1], out=out, cu_seqlens_q=ints([0, 2, 4, 6], device),
        max_seqlen_q=2, seqused_k=ints([12, 9, 2], device), max_seqlen_k=12, softmax_scale=DIM**-0.5, causal=True,
        alibi_slopes=None, window_size=[5, 0], block_table=grown.named["block_table"], softcap=0,
        scheduler_metadata=None, fa_version=3, q_descale=None, k_descale=None, v_descale=None, num_splits=0, s_aux=None,
    )  # fmt: skip
    for b, n in enumerate((12, 9, 2)):
        want, _ = reference(grown.q[b], grown.k[b, :n], grown.v[b, :n], causal=True, window=(5, 0))
        close(out[2 * b : 2 * b + 2], want)
    with pytest.raises(ValueError, match="cu_seqlens_k or seqused_k"):
        ours.flash_attn_varlen_func(out, out, out, ints([0, 6], device))

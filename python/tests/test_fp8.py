"""Keys and values of eight bits, with factors: through torch, the functions of flash-attn, and their refusals."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import sixwarp
from sixwarp import torch as ours

FP8 = torch.float8_e4m3fn
HEADS, KV_HEADS, DIM = 4, 2, 32


def random(*shape, dtype=torch.bfloat16, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def inputs(batch=2, queries=3, keys=11):
    q = random(batch, queries, HEADS, DIM)
    k, v = (random(batch, keys, KV_HEADS, DIM, dtype=FP8, seed=n) for n in (1, 2))
    return q, k, v


def expected(q, k, v, k_factor, v_factor, **options):
    """The same of keys and values in float64, whose products with factors are exact enough."""
    wide = lambda x, factor: x.double() * factor.double().view(*factor.shape[:-1], 1, -1, 1)
    return sixwarp.attention(q.double(), wide(k, k_factor), wide(v, v_factor), **options)


FACTORS = {
    "tensor": lambda n: torch.tensor(0.5 + n),
    "one": lambda n: torch.tensor([0.7 + n]),
    "heads": lambda n: torch.tensor([0.25, 3.0 + n]),
    "sequences": lambda n: torch.tensor([[0.25, 3.0], [1.5 + n, 0.1]]),
    "expanded": lambda n: torch.tensor(1.25 + n).expand(2, KV_HEADS),
    "of half a precision": lambda n: torch.tensor([0.5, 2.0 + n]).bfloat16(),
}


@pytest.mark.parametrize("kind", FACTORS)
def test_factors_of_every_shape(kind):
    q, k, v = inputs()
    k_factor, v_factor = FACTORS[kind](0), FACTORS[kind](1)
    out = sixwarp.attention(q, k, v, k_descale=k_factor, v_descale=v_factor, causal=True)
    want = expected(q, k, v, *(x.float().expand(2, KV_HEADS) for x in (k_factor, v_factor)), causal=True)
    torch.testing.assert_close(out.double(), want, atol=2e-2, rtol=2e-2)
    assert out.dtype is q.dtype
    # The quick way, by the same tensors; and torch's operator.
    assert torch.equal(sixwarp.attention(q, k, v, k_descale=k_factor, v_descale=v_factor, causal=True), out)
    assert torch.equal(ours.attention(q, k, v, k_descale=k_factor, v_descale=v_factor, causal=True), out)


def test_factors_are_read_anew_by_every_call():
    q, k, v = inputs()
    factor = torch.ones(KV_HEADS)
    plan = sixwarp.plan(q, k, v, v_descale=factor)
    first = plan(q, k, v, v_descale=factor)
    assert torch.equal(first, sixwarp.attention(q, k, v)), "without factors they are 1"
    factor.fill_(2)
    assert torch.equal(plan(q, k, v, v_descale=factor), 2 * first)
    assert torch.equal(sixwarp.attention(q, k, v, v_descale=factor), 2 * first)


def test_a_nan_is_nan_to_those_who_see_it():
    q, k, v = inputs(batch=1, queries=11)
    v.view(torch.uint8)[0, 7, 1, 3] = 0x7F
    out = sixwarp.attention(q, k, v, causal=True)
    seen = torch.zeros_like(out, dtype=torch.bool)
    seen[0, 7:, HEADS // KV_HEADS :, 3] = True
    assert torch.equal(out.isnan(), seen)


def test_functions_of_flash_attn():
    q, k, v = inputs()
    factors = dict(k_descale=torch.tensor([[0.5, 2.0], [1.0, 0.25]]), v_descale=torch.ones(1).expand(2, KV_HEADS))
    want = sixwarp.attention(q, k, v, causal=True, **factors)
    assert torch.equal(ours.flash_attn_func(q, k, v, causal=True, **factors), want)
    ends = torch.tensor([0, 3, 6], dtype=torch.int32)
    key_ends = torch.tensor([0, 11, 22], dtype=torch.int32)
    rows = (x.flatten(0, 1) for x in (q, k, v))
    packed = ours.flash_attn_varlen_func(*rows, ends, key_ends, 3, 11, causal=True, **factors)
    assert torch.equal(packed.view_as(want), want)
    # The last row of each sequence is new.
    cache = [x.clone() for x in (k, v)]
    new = [x[:, 10:].clone() for x in (k, v)]
    for x in cache:
        x.view(torch.uint8)[:, 10:] = 0
    lengths = torch.tensor([10, 10], dtype=torch.int32)
    out = ours.flash_attn_with_kvcache(q, *cache, *new, cache_seqlens=lengths, causal=True, **factors)
    assert torch.equal(out, want)
    assert all(torch.equal(a.view(torch.uint8), b.view(torch.uint8)) for a, b in zip(cache, (k, v)))


def test_pages_with_a_head_between_keys_and_values():
    """vLLM's cache has keys and values side by side, so that values begin at a multiple of 8 bytes alone."""
    pages = random(5, 16, KV_HEADS, 80, dtype=FP8, seed=3)
    k, v = pages.split(40, -1)
    q = random(2, 1, HEADS, 40)
    table, used = torch.tensor([[3, 1], [0, 4]], dtype=torch.int32), torch.tensor([20, 31], dtype=torch.int32)
    out = sixwarp.attention(q, k, v, page_table=table, seqused_k=used, k_descale=torch.tensor(0.5))
    for b, n in enumerate(used.tolist()):
        rows = [x[table[b].long()].flatten(0, 1)[None, :n].double() for x in (k, v)]
        want = sixwarp.attention(q[b : b + 1].double(), rows[0] * 0.5, rows[1])
        torch.testing.assert_close(out[b : b + 1].double(), want, atol=2e-2, rtol=2e-2)


def test_numpy_arrays():
    ml_dtypes = pytest.importorskip("ml_dtypes")
    q, k, v = inputs()
    narrow = [x.view(torch.uint8).numpy().view(ml_dtypes.float8_e4m3fn) for x in (k, v)]
    factor = np.array([0.5, 2.0], np.float32)
    out = sixwarp.attention(q.float().numpy(), *narrow, k_descale=factor)
    want = sixwarp.attention(q.float(), k, v, k_descale=torch.from_numpy(factor))
    np.testing.assert_array_equal(out, want.numpy())


def test_gpus():
    q, k, v = inputs()
    for device in ("sm_80", "sm_86", "sm_89", "sm_90a", "sm_100a", "sm_120"):
        assert sixwarp.supports(q, k, v, device=device, k_descale=torch.ones(1)) is None
        reason = sixwarp.supports(q.float(), k, v, device=device)
        assert "dtype f32" in reason or "e4m3 keys beside queries of f32" in reason


@pytest.mark.parametrize(
    "change, kind, message",
    [
        (dict(k_descale=torch.ones(3)), ValueError, r"k_descale has shape \(3,\): one factor, \(2,\) or \(2, 2\) is needed"),
        (dict(v_descale=torch.ones(2, 2, 1)), ValueError, "v_descale has shape"),
        (dict(k_descale=torch.ones(2, dtype=torch.int32)), TypeError, "k_descale is torch.int32"),
        (dict(k=random(2, 11, KV_HEADS, DIM)), ValueError, "v: must have k's dtype"),
        (dict(q=random(2, 3, HEADS, DIM, dtype=FP8)), TypeError, "q is e4m3: float32, float16, bfloat16 or"),
        (dict(k=random(2, 11, KV_HEADS, DIM, dtype=torch.float8_e5m2)), TypeError, "k is torch.float8_e5m2: .* float8_e4m3fn"),
    ],
    ids=str,
)
def test_mistakes_are_named(change, kind, message):
    q, k, v = inputs()
    given = {"q": q, "k": k, "v": v, **change}
    with pytest.raises(kind, match=message):
        sixwarp.attention(given.pop("q"), given.pop("k"), given.pop("v"), **given)


def test_factors_need_keys_of_eight_bits():
    q = random(1, 3, HEADS, DIM)
    with pytest.raises(ValueError, match="k_descale: needs e4m3 keys and values"):
        sixwarp.attention(q, q, q, k_descale=torch.ones(1))

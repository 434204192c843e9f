"""Mask tensors: numpy arrays against the definition, torch's own samples and shapes against torch, and errors."""

import itertools
import sys
import types
import unittest

import numpy as np
import pytest

import sixwarp

RNG = np.random.default_rng(5)
BATCH, HEADS, QUERIES, KEYS, DIM = 2, 4, 5, 7, 16


def rows(tokens, heads=HEADS, layout="bhsd"):
    x = RNG.standard_normal((BATCH, heads, tokens, DIM), np.float32)
    return np.ascontiguousarray(x.swapaxes(1, 2)) if layout == "bshd" else x


def by_definition(q, k, v, mask, softcap=None):
    """softmax(q·k / sqrt(dim), capped, plus `mask`) · v; a row that sees no key is 0."""
    k, v = (np.repeat(x, q.shape[1] // x.shape[1], 1) for x in (k, v))
    s = q.astype(np.float64) @ k.swapaxes(2, 3) / np.sqrt(DIM)
    if softcap is not None:
        s = softcap * np.tanh(s / softcap)
    mask = np.where(mask, 0.0, -np.inf) if mask.dtype == bool else mask.astype(np.float64)
    s = s + mask
    top = s.max(-1, keepdims=True)
    p = np.exp(s - np.where(np.isinf(top), 0, top))
    total = p.sum(-1, keepdims=True)
    return np.divide(p @ v, total, out=np.zeros((*p.shape[:3], DIM)), where=total > 0)


def shapes():
    """Every way to broadcast to `[batch, heads, queries, keys]`."""
    full = (BATCH, HEADS, QUERIES, KEYS)
    for ones in itertools.product((False, True), repeat=4):
        yield tuple(1 if one else extent for one, extent in zip(ones, full))
    yield from ((QUERIES, KEYS), (HEADS, QUERIES, KEYS), (KEYS,), ())


@pytest.mark.parametrize("shape", list(shapes()), ids=str)
@pytest.mark.parametrize("layout", ["bhsd", "bshd"])
def test_masks_of_every_shape(shape, layout):
    q, k, v = rows(QUERIES), rows(KEYS, 2), rows(KEYS, 2)
    given = (q, k, v) if layout == "bhsd" else tuple(x.swapaxes(1, 2) for x in (q, k, v))
    floats = np.asarray(RNG.standard_normal(shape), np.float32)
    floats = np.where(RNG.random(shape) < 0.3, np.float32(-np.inf), floats)
    for mask in (floats, floats.astype(np.float16), floats.astype(np.float64), np.asarray(np.isfinite(floats))):
        out = sixwarp.attention(*given, layout=layout, attn_mask=mask, softcap=3.0)
        out = out if layout == "bhsd" else out.swapaxes(1, 2)
        np.testing.assert_allclose(out, by_definition(q, k, v, mask, 3.0), atol=2e-5)


def test_masks_of_any_strides():
    q, k, v = rows(QUERIES), rows(KEYS, 2), rows(KEYS, 2)
    memory = RNG.standard_normal((2 * KEYS, HEADS, BATCH, 3 * QUERIES)).astype(np.float32)
    mask = memory[::2, :, :, 1::3].transpose(2, 1, 3, 0)
    want = by_definition(q, k, v, mask)
    np.testing.assert_allclose(sixwarp.attention(q, k, v, layout="bhsd", attn_mask=mask), want, atol=2e-5)
    row = np.broadcast_to(memory[0, 0, 0, 0], (BATCH, HEADS, QUERIES, KEYS))
    want = by_definition(q, k, v, row)
    np.testing.assert_allclose(sixwarp.attention(q, k, v, layout="bhsd", attn_mask=row), want, atol=2e-5)
    with pytest.raises(ValueError, match="attn_mask has strides .* negative"):
        sixwarp.attention(q, k, v, layout="bhsd", attn_mask=mask[..., ::-1])


def test_rows_without_keys_are_zero_and_the_lowest_number_hides_nothing():
    q, k, v = rows(3), rows(KEYS), rows(KEYS)
    mask = np.zeros((3, KEYS), np.float32)
    mask[0], mask[1] = -np.inf, np.finfo(np.float32).min
    out, lse = sixwarp.attention(q, k, v, layout="bhsd", attn_mask=mask, return_lse=True)
    assert (out[:, :, 0] == 0).all() and (lse[:, :, 0] == -np.inf).all()
    np.testing.assert_allclose(out[:, :, 1], v.mean(2), atol=1e-5)
    assert np.isfinite(lse[:, :, 1:]).all()


def test_what_a_mask_hides_is_never_seen():
    q, k, v = rows(3), rows(KEYS), rows(KEYS)
    mask = np.ones(KEYS, bool)
    mask[2] = False
    want = sixwarp.attention(q, k, v, layout="bhsd", attn_mask=mask)
    k[:, :, 2] = np.nan
    np.testing.assert_array_equal(sixwarp.attention(q, k, v, layout="bhsd", attn_mask=mask), want)
    bias = np.where(mask, np.float32(0), np.float32(-np.inf))
    np.testing.assert_array_equal(sixwarp.attention(q, k, v, layout="bhsd", attn_mask=bias), want)


def test_a_planned_mask_is_named():
    q, k, v = rows(3), rows(KEYS), rows(KEYS)
    mask = RNG.random((BATCH, 1, 3, KEYS)) < 0.5
    plan = sixwarp.plan(q, k, v, layout="bhsd", attn_mask=mask)
    for given in (mask, ~mask):
        want = sixwarp.attention(q, k, v, layout="bhsd", attn_mask=given)
        np.testing.assert_array_equal(plan(q, k, v, attn_mask=given), want)
    with pytest.raises(ValueError, match="attn_mask is missing"):
        plan(q, k, v)
    for wrong in (mask[:1], mask.astype(np.uint8), mask.astype(np.float32), mask.swapaxes(2, 3)):
        with pytest.raises(ValueError, match="attn_mask has .* the plan was made for"):
            plan(q, k, v, attn_mask=wrong)
    with pytest.raises(ValueError, match="attn_mask is given"):
        sixwarp.plan(q, k, v, layout="bhsd")(q, k, v, attn_mask=mask)


def test_masks_that_are_refused():
    q, k, v = rows(3), rows(KEYS), rows(KEYS)

    def refused(error, match, mask, **options):
        with pytest.raises(error, match=match):
            sixwarp.attention(q, k, v, layout="bhsd", attn_mask=mask, **options)

    refused(TypeError, "attn_mask is i32: bool", np.ones((3, KEYS), np.int32))
    refused(TypeError, "attn_mask is u8: bool", np.ones((3, KEYS), np.uint8))
    refused(ValueError, "attn_mask has shape .* at most", np.ones((1, 1, 1, 3, KEYS), bool))
    refused(ValueError, "attn_mask: its extent of keys must be 1 or 7", np.ones((3, KEYS + 1), bool))
    refused(ValueError, "attn_mask: its extent of queries must be 1 or 3", np.ones((2, KEYS), bool))
    refused(ValueError, "attn_mask: its extent of query heads must be 1 or 4", np.ones((2, 3, KEYS), bool))
    refused(ValueError, "attn_mask: its extent of batch must be 1 or 2", np.ones((3, 1, 3, KEYS), bool))
    refused(TypeError, "attn_mask is .*list", [[True] * KEYS] * 3)
    packed = [np.ascontiguousarray(x[0].swapaxes(0, 1)) for x in (q, k, v)]
    ends = [np.array([0, n], np.int32) for n in (3, KEYS)]
    with pytest.raises(ValueError, match="attn_mask: .* not packed"):
        sixwarp.attention(*packed, cu_seqlens_q=ends[0], cu_seqlens_k=ends[1], attn_mask=np.ones((3, KEYS), bool))


def test_double_precision_and_empty_batches():
    q, k, v = (x.astype(np.float64) for x in (rows(3), rows(KEYS), rows(KEYS)))
    mask = RNG.standard_normal((3, KEYS))
    out = sixwarp.attention(q, k, v, layout="bhsd", attn_mask=mask)
    assert out.dtype == np.float64
    np.testing.assert_allclose(out, by_definition(q, k, v, mask), atol=1e-14)
    out, lse = sixwarp.attention(q[:0], k[:0], v[:0], layout="bhsd", attn_mask=mask, return_lse=True)
    assert out.shape == (0, HEADS, 3, DIM) and lse.shape == (0, HEADS, 3)


torch = pytest.importorskip("torch")

import sixwarp.torch as ours

THEIRS = torch.nn.functional.scaled_dot_product_attention
DTYPES = [torch.float64, torch.float32, torch.float16, torch.bfloat16]


def op_info():
    """torch's own description of the function, with its samples."""
    # It imports a package for tests of printed output, which are not run here.
    if "expecttest" not in sys.modules:
        stub = types.ModuleType("expecttest")
        stub.TestCase = unittest.TestCase
        sys.modules["expecttest"] = stub
    from torch.testing._internal.common_methods_invocations import op_db

    return next(op for op in op_db if op.name == "nn.functional.scaled_dot_product_attention")


def near(got, want):
    tolerance = {torch.float64: 1e-12, torch.float32: 2e-5, torch.float16: 5e-3, torch.bfloat16: 4e-2}[want.dtype]
    torch.testing.assert_close(got, want, atol=tolerance, rtol=tolerance)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_torchs_samples(dtype):
    samples = list(op_info().sample_inputs("cpu", dtype, requires_grad=False))
    assert any("attn_mask" in sample.kwargs for sample in samples)
    for sample in samples:
        arguments = (sample.input, *sample.args)
        if sample.kwargs.get("dropout_p"):
            with pytest.raises(NotImplementedError, match="dropout"):
                ours.sdpa(*arguments, **sample.kwargs)
        else:
            near(ours.sdpa(*arguments, **sample.kwargs), THEIRS(*arguments, **sample.kwargs))


# Shapes of query, key and value, and options.
SHAPES = [
    ((3, 8), (5, 8), (5, 8), {}),
    ((4, 3, 8), (2, 4, 5, 8), (5, 8), {}),
    ((2, 4, 3, 8), (2, 1, 5, 8), (2, 1, 5, 16), {}),
    ((2, 1, 3, 8), (2, 4, 5, 8), (1, 4, 5, 8), {}),
    ((2, 4, 3, 8), (2, 2, 5, 8), (2, 2, 5, 8), {"enable_gqa": True}),
    ((2, 4, 3, 8), (2, 2, 5, 8), (2, 1, 5, 8), {"enable_gqa": True}),
    ((2, 8, 3, 8), (8, 5, 8), (4, 5, 8), {"enable_gqa": True}),
    ((2, 3, 4, 3, 8), (2, 1, 4, 5, 8), (1, 3, 4, 5, 8), {}),
    ((0, 4, 3, 8), (0, 4, 5, 8), (0, 4, 5, 8), {}),
    ((2, 0, 3, 8), (2, 0, 5, 8), (2, 0, 5, 8), {}),
    ((2, 4, 0, 8), (2, 4, 5, 8), (2, 4, 5, 8), {}),
    ((2, 4, 3, 8), (2, 4, 0, 8), (2, 4, 0, 8), {}),
    ((2, 4, 3, 8), (2, 4, 5, 8), (2, 4, 5, 0), {}),
]


@pytest.mark.parametrize("q, k, v, options", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16], ids=str)
def test_batches_heads_and_masks_broadcast_as_torchs(q, k, v, options, dtype):
    generator = torch.Generator().manual_seed(3)
    make = lambda shape: torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype)
    q, k, v = make(q), make(k), make(v)
    want = THEIRS(q, k, v, **options)
    near(ours.sdpa(q, k, v, **options), want)
    near(ours.sdpa(q, k, v, is_causal=True, **options), THEIRS(q, k, v, is_causal=True, **options))
    outer = want.shape[:-2]
    full = (*outer, q.shape[-2], k.shape[-2])
    for shape in (full, full[-2:], (*outer[-1:], 1, full[-1]), (*[1] * len(outer), *full[-2:])):
        mask = make(shape)
        for mask in (mask, mask > -0.5):
            near(ours.sdpa(q, k, v, mask, **options), THEIRS(q, k, v, mask, **options))


def test_the_quick_way_takes_masks_by_name_and_type():
    generator = torch.Generator().manual_seed(4)
    q, k, v = (torch.randn(2, 4, n, 32, generator=generator) for n in (3, 6, 6))
    for mask in (torch.randn(3, 6), torch.rand(3, 6) < 0.7, torch.randn(2, 4, 6, 3).transpose(2, 3)):
        want = THEIRS(q, k, v, mask)
        for _ in range(3):
            near(sixwarp.attention(q, k, v, layout="bhsd", attn_mask=mask), want)
        with pytest.raises(TypeError, match="attn_mask is"):
            sixwarp.attention(q, k, v, layout="bhsd", attn_mask=mask.contiguous().view(torch.uint8))
    plain = sixwarp.attention(q, k, v, layout="bhsd")
    near(plain, THEIRS(q, k, v))


def test_a_mask_that_wants_a_gradient_is_refused():
    q, k, v = (torch.randn(1, 2, n, 16) for n in (3, 6, 6))
    mask = torch.randn(3, 6, requires_grad=True)
    for call in (ours.sdpa, lambda q, k, v, mask: sixwarp.attention(q, k, v, layout="bhsd", attn_mask=mask)):
        with pytest.raises(NotImplementedError, match="forward pass"):
            call(q, k, v, mask)
        with torch.no_grad():
            near(call(q, k, v, mask), THEIRS(q, k, v, mask))
    with pytest.raises(NotImplementedError, match="forward pass"):
        sixwarp.plan(q, k, v, layout="bhsd", attn_mask=mask.detach())(q, k, v, attn_mask=mask)


def test_jax_arrays():
    jax = pytest.importorskip("jax")
    make = lambda n: jax.random.normal(jax.random.key(n), (1, 2, n, 16))
    q, k, v = make(3), make(6), make(6)
    mask = jax.random.normal(jax.random.key(9), (3, 6)) > -0.5
    out = sixwarp.attention(q, k, v, layout="bhsd", attn_mask=mask)
    want = THEIRS(*(torch.from_numpy(np.array(x)) for x in (q, k, v, mask)))
    near(torch.from_numpy(np.array(out)), want)

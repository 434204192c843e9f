"""numpy arrays on the CPU: the table, and errors."""

import numpy as np
import pytest

import engines
import sixwarp
import table

CASES = [case for case in table.load() if table.is_plain(case)]


def numpy_dtype(case):
    """numpy has no bfloat16 of its own: those cases run in float16 here, and as they are with torch."""
    case = {**case, "dtype": "f16" if case.get("dtype", "bf16") == "bf16" else case["dtype"]}
    if "attn_mask" in case:
        case["attn_mask"] = case["attn_mask"].replace("bf16", "f32")
    return case


def convert(x, dtype):
    if dtype == "e4m3":
        return x.astype(pytest.importorskip("ml_dtypes").float8_e4m3fn)
    types = {"f64": np.float64, "f32": np.float32, "f16": np.float16, "i32": np.int32, "bool": np.bool_}
    return x.astype(types[dtype])


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_the_table(case):
    engines.run(numpy_dtype(case), convert, np.asarray)


def arrays(queries=2, keys=3, dim=16):
    rng = np.random.default_rng(0)
    return [rng.standard_normal((1, n, 2, dim), np.float32) for n in (queries, keys, keys)]


def test_out_is_written_and_returned():
    q, k, v = arrays()
    out = np.full_like(q, np.nan)
    assert sixwarp.attention(q, k, v, out=out) is out
    np.testing.assert_array_equal(out, sixwarp.attention(q, k, v))


def test_a_plan_runs_again_on_other_memory():
    q, k, v = arrays()
    plan = sixwarp.plan(q, k, v, causal=True, return_lse=True)
    for scale in (1.0, 2.0):
        out, lse = plan(q * np.float32(scale), k, v)
        want, want_lse = sixwarp.attention(q * np.float32(scale), k, v, causal=True, return_lse=True)
        np.testing.assert_array_equal(out, want)
        np.testing.assert_array_equal(lse, want_lse)
    with pytest.raises(ValueError, match="sinks is given, and the plan takes q, k, v, out, lse"):
        plan(q, k, v, sinks=np.zeros(2, np.float32))


def test_lengths_are_read_anew_by_every_call():
    q, k, v = (x[0] for x in arrays(queries=6, keys=6))
    for lengths in ([1, 5], [4, 2]):
        cu = np.cumsum([0, *lengths]).astype(np.int32)
        out = sixwarp.attention(q, k, v, cu_seqlens_q=cu, cu_seqlens_k=cu)
        parts = [sixwarp.attention(*(x[None, a:b] for x in (q, k, v))) for a, b in zip(cu, cu[1:])]
        np.testing.assert_allclose(out, np.concatenate([p[0] for p in parts]), atol=1e-6)


def test_merging_parts_gives_the_whole_with_the_sink_once():
    q, k, v = arrays(queries=4, keys=9)
    sinks = np.array([0.5, -1.0], np.float32)
    parts = [
        sixwarp.attention(q, k[:, a:b], v[:, a:b], return_lse=True) for a, b in ((0, 2), (2, 7), (7, 9))
    ]
    outs, lses = map(list, zip(*parts))
    empty = np.full_like(outs[0], np.nan), np.full_like(lses[0], np.inf)
    out, lse = sixwarp.merge([*outs, empty[0]], [*lses, empty[1]], sinks=sinks)
    want, want_lse = sixwarp.attention(q, k, v, sinks=sinks, return_lse=True)
    np.testing.assert_allclose(out, want, atol=1e-6)
    np.testing.assert_allclose(lse, want_lse, atol=1e-5)


@pytest.mark.parametrize(
    ("change", "kind", "message"),
    [
        (dict(q=[[1.0]]), TypeError, "q is builtins.list, which is not a tensor sixwarp reads"),
        (dict(q=np.ones((1, 2, 2, 16), np.int64)), TypeError, "q is int64"),
        (dict(q=np.ones((2, 16), np.float32)), ValueError, "q has shape"),
        (dict(q=np.ones((1, 2, 2, 8), np.float32)), ValueError, "must have q's dim"),
        (dict(q=np.ones((1, 2, 3, 16), np.float32)), ValueError, "KV heads must divide query heads"),
        (dict(layout="sbhd"), ValueError, "layout is one of bshd, bhsd"),
        (dict(window=(-1, 0)), ValueError, "a side is None"),
        (dict(softcap=-1.0), ValueError, "softcap: must be finite and positive"),
        (dict(sinks=np.zeros(3, np.float32)), ValueError, "sinks has shape (3,): (2,) is needed"),
        (dict(seqused_k=np.array([4], np.int32)), ValueError, "seqused_k"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_mistakes_are_named(change, kind, message):
    q, k, v = arrays()
    given = {"q": q, "k": k, "v": v, **change}
    with pytest.raises(kind) as error:
        sixwarp.attention(given.pop("q"), given.pop("k"), given.pop("v"), **given)
    assert message in str(error.value)


def test_an_output_that_is_an_input_is_refused():
    q, k, v = arrays(queries=3)
    with pytest.raises(ValueError, match="out: must not share memory with q"):
        sixwarp.attention(q, k, v, out=q)

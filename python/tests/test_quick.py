"""The quick way in: it gives what the long way gives, and steps aside where it must."""

import gc
import sys
import threading
import weakref

import pytest

torch = pytest.importorskip("torch")

import sixwarp
from sixwarp import _attention, _quick
from sixwarp._parameters import PARAMETERS, TENSORS

pytestmark = pytest.mark.skipif(
    not hasattr(torch.Tensor, "__dlpack_c_exchange_api__"), reason="this torch lends no tensors through DLPack"
)


def tensors(queries=3, keys=7, heads=4, kv_heads=2, dim=32, batch=2, dtype=torch.float32):
    generator = torch.Generator().manual_seed(0)
    make = lambda n, h: torch.randn((batch, n, h, dim), generator=generator).to(dtype)
    return make(queries, heads), make(keys, kv_heads), make(keys, kv_heads)


def options(**given):
    return tuple(given.get(p.name, p.default) for p in PARAMETERS if p.read is not None)


NAMES = TENSORS[3:]


def quick(q, k, v, **given):
    """The quick way alone: None where it does not know the call."""
    rest = [given.pop(name, None) for name in NAMES]
    return _quick.attention(q, k, v, *rest, None, *options(**given))


def long(q, k, v, **given):
    rest = [given.pop(name, None) for name in NAMES]
    return _attention.long_way(_attention.Tensors(q, k, v, *rest), _attention.checked(*options(**given)), None)


def i32(*values):
    return torch.tensor(values, dtype=torch.int32)


@pytest.mark.parametrize(
    "given",
    [
        dict(),
        dict(causal=True, return_lse=True),
        dict(window=(3, 0), softcap=20.0, scale=0.3),
        dict(sinks=torch.tensor([0.5, -1.0, 3.0, float("-inf")]), seqused_k=i32(3, 0), return_lse=True),
        dict(attn_mask=torch.arange(21).reshape(3, 7) % 4 > 0),
        dict(attn_mask=torch.linspace(-3, 3, 84).reshape(1, 4, 7, 3).transpose(2, 3), return_lse=True),
    ],
    ids=["plain", "causal", "window", "sinks", "mask", "bias"],
)
def test_a_known_call_is_what_the_long_way_gives(given):
    q, k, v = tensors(dim=40)
    want = long(q, k, v, **given)
    others = [torch.randn_like(x) for x in (q, k, v)]
    for inputs in ((q, k, v), others):
        got, want = quick(*inputs, **given), long(*inputs, **given)
        assert got is not None
        torch.testing.assert_close(got, want, atol=0, rtol=0)


def test_packed_and_paged_calls_are_known():
    q, k, v = tensors(queries=6, keys=6, batch=1)
    cu = i32(0, 2, 6)
    packed = dict(cu_seqlens_q=cu, cu_seqlens_k=cu, max_seqlen_q=4, max_seqlen_k=4)
    want = sixwarp.attention(q[0], k[0], v[0], **packed)
    assert torch.equal(quick(q[0], k[0], v[0], **packed), want)
    # Without a bound the longest sequence is read from the offsets on the CPU, anew in every call.
    unbounded = dict(cu_seqlens_q=cu, cu_seqlens_k=cu)
    sixwarp.attention(q[0], k[0], v[0], **unbounded)
    assert quick(q[0], k[0], v[0], **unbounded) is None
    pages = dict(page_table=i32(1, 0).reshape(1, 2), seqused_k=i32(5))
    kp, vp = k[0].reshape(2, 3, 2, 32), v[0].reshape(2, 3, 2, 32)
    want = sixwarp.attention(q, kp, vp, **pages)
    assert torch.equal(quick(q, kp, vp, **pages), want)


def test_calls_that_differ_in_anything_are_not_known():
    q, k, v = tensors(dim=24)
    sixwarp.attention(q, k, v, scale=0.5, window=(2, 1))
    known = dict(scale=0.5, window=(2, 1))
    assert quick(q, k, v, **known) is not None
    for changed in (dict(scale=0.25), dict(window=(2, 0)), dict(causal=True), dict(layout="bhsd"), dict(split=64)):
        assert quick(q, k, v, **{**known, **changed}) is None, changed
    wide = torch.zeros(2, 7, 2, 30)
    for inputs in (
        (q[:1], k[:1], v[:1]), (q, k[:, :6], v[:, :6]), (q, wide[..., :24], v), (q.half(), k.half(), v.half()),
        (q, k, k), (q, k, v.numpy()), (q, k, None),
    ):  # fmt: skip
        assert quick(*inputs, **known) is None
    assert quick(q, k, v, **known, seqused_k=i32(1, 1)) is None
    mask = torch.ones(3, 7, dtype=torch.bool)
    assert quick(q, k, v, **known, attn_mask=mask) is None
    sixwarp.attention(q, k, v, **known, attn_mask=mask)
    assert quick(q, k, v, **known, attn_mask=mask) is not None
    for other in (mask.to(torch.uint8), mask.float(), mask[:1], mask.expand(2, 1, 3, 7), mask.T.contiguous().T, None):
        assert quick(q, k, v, **known, attn_mask=other) is None or other is None
    assert quick(q, k, v, **known, out=torch.empty(2, 3, 4, 24, dtype=torch.float16)) is None


def test_a_window_given_as_a_list_is_not_kept_by_reference():
    q, k, v = tensors()
    window = [2, 0]
    first = sixwarp.attention(q, k, v, window=window)
    window[0] = 0
    second = sixwarp.attention(q, k, v, window=window)
    torch.testing.assert_close(second, long(q, k, v, window=(0, 0)), atol=0, rtol=0)
    assert not torch.equal(first, second)


def test_outputs_are_written_and_returned():
    q, k, v = tensors()
    want = sixwarp.attention(q, k, v)
    out = torch.full_like(q, float("nan"))
    assert sixwarp.attention(q, k, v, out=out) is out
    assert torch.equal(out, want)
    # An output in strides of its own is another call.
    room = torch.zeros(2, 3, 4, 48)
    strided = room[..., :32]
    for _ in range(2):
        strided.fill_(float("nan"))
        assert sixwarp.attention(q, k, v, out=strided) is strided
        assert torch.equal(strided, want) and not room[..., 32:].any()


def test_gradients_are_refused_by_every_way():
    q, k, v = tensors()
    plan = sixwarp.plan(q, k, v)
    for _ in range(2):
        want = sixwarp.attention(q, k, v), plan(q, k, v)
    learned = torch.nn.Parameter(q)
    for call in (sixwarp.attention, plan):
        with pytest.raises(NotImplementedError, match="forward pass only"):
            call(learned, k, v)
        with torch.no_grad():
            assert torch.equal(call(learned, k, v), want[0])


def test_a_plan_takes_what_it_was_made_for():
    q, k, v = tensors()
    plan = sixwarp.plan(q, k, v, causal=True, return_lse=True)
    want = sixwarp.attention(q, k, v, causal=True, return_lse=True)
    for _ in range(3):
        torch.testing.assert_close(plan(q, k, v), want, atol=0, rtol=0)
    out, lse = torch.empty_like(want[0]), torch.empty_like(want[1])
    got = plan(q, k, v, out=out, lse=lse)
    assert got[0] is out and got[1] is lse and torch.equal(out, want[0])
    for wrong in (
        dict(q=q[:1]), dict(k=k.transpose(1, 2)), dict(v=v.half()), dict(out=torch.empty(2, 3, 4, 31)),
        dict(sinks=torch.zeros(4)),
    ):  # fmt: skip
        with pytest.raises(ValueError, match="the plan"):
            plan(wrong.pop("q", q), wrong.pop("k", k), wrong.pop("v", v), **wrong)
    with pytest.raises(ValueError, match="values that are the keys"):
        sixwarp.plan(q, k, k)(q, k, v)


def test_no_reference_is_lost_or_kept():
    q, k, v = tensors()
    plan = sixwarp.plan(q, k, v)
    for call in (sixwarp.attention, plan):
        call(q, k, v), call(q, k, v, out=torch.empty_like(q))
        counts = [sys.getrefcount(x) for x in (q, k, v, None, False)]
        for _ in range(100):
            result = weakref.ref(call(q, k, v))
            assert result() is None
        after = [sys.getrefcount(x) for x in (q, k, v, None, False)]
        assert all(abs(a - b) < 20 for a, b in zip(counts, after)), (counts, after)
    watched = weakref.ref(plan._bound.plan)
    del plan, call
    gc.collect()
    assert watched() is None, "a plan's function keeps it"


def test_threads_share_what_is_known():
    q, k, v = tensors(keys=64)
    want, wrong = sixwarp.attention(q, k, v), []

    def work():
        for _ in range(50):
            if not torch.equal(sixwarp.attention(q, k, v), want):
                wrong.append(True)

    threads = [threading.Thread(target=work) for _ in range(4)]
    [thread.start() for thread in threads], [thread.join() for thread in threads]
    assert not wrong


def test_what_begins_between_two_vectors_is_copied_with_its_strides():
    """What a GPU is given, on the CPU."""
    import contextlib

    from sixwarp._plan import aligned
    from sixwarp._tensor import torch_adapter

    room = torch.arange(4096, dtype=torch.float32).to(torch.bfloat16)
    whole = room[:2048].view(2, 8, 4, 32)
    views = [
        room[1:1025].view(1, 8, 4, 32), room[3:].as_strided((2, 4, 2, 32), (1024, 64, 32, 1)),
        room[7:39].expand(2, 5, 3, 32),
    ]  # fmt: skip
    assert whole.data_ptr() % 16 == 0
    used = []
    streams = lambda: used.append(True) or contextlib.nullcontext()
    given = {"q": whole, "k": None, "sinks": room[1:3].float()}
    assert aligned(given, torch_adapter(), streams) is given and not used
    for view in views:
        for name in ("q", "k", "v", "segment 1 k"):
            got = aligned({**given, name: view}, torch_adapter(), streams)
            copy = got.pop(name)
            assert all(got[other] is given[other] for other in got) and used.pop()
            assert copy.data_ptr() % 16 == 0
            assert torch.equal(copy.as_strided(view.shape, view.stride()), view)

"""There are no derivatives: whoever asks for one is told. And torch is told what was written."""

import pytest

torch = pytest.importorskip("torch")

import torch.autograd.forward_ad as forward_ad

import sixwarp
import sixwarp.torch as ours
from sixwarp import dsv4

NONES, REST = (None,) * 8, ("bshd", False, *[None] * 8)


def operator(q, k, v, sinks=None):
    return torch.ops.sixwarp.attention.default(q, k, v, sinks, *NONES[1:], *REST)[0]


def tensors():
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(1, 3, 2, 16, generator=generator) for _ in range(3)] + [torch.randn(2, generator=generator)]


def planned(*given, sinks):
    plan = sixwarp.plan(*(x.detach() for x in given), sinks=sinks.detach())
    for _ in range(2):
        plan(*(x.detach() for x in given), sinks=sinks.detach())
    return plan(*given, sinks=sinks)


def sdpa(q, k, v, sinks):
    return ours.sdpa(q, k + sinks.sum() * 0, v)


CALLS = {
    "attention": sixwarp.attention,
    "plan": planned,
    "torch.attention": ours.attention,
    "operator": operator,
    "sdpa": sdpa,
}


@pytest.mark.parametrize("name", CALLS)
def test_gradients_are_refused(name):
    call, good = CALLS[name], tensors()
    want = call(*good[:3], sinks=good[3])
    for at in range(4):
        given = [x.clone().requires_grad_(i == at) for i, x in enumerate(good)]
        with pytest.raises(NotImplementedError, match="forward pass only"):
            call(*given[:3], sinks=given[3])
        with torch.no_grad():
            assert torch.equal(call(*given[:3], sinks=given[3]), want)


@pytest.mark.parametrize("name", CALLS)
def test_tangents_are_refused(name):
    call, good = CALLS[name], tensors()
    want = call(*good[:3], sinks=good[3])
    for at in range(4):

        def of(x):
            given = [x if i == at else y for i, y in enumerate(good)]
            return call(*given[:3], sinks=given[3])

        with pytest.raises(NotImplementedError, match="forward-mode|transform of torch.func"):
            torch.func.jvp(of, (good[at],), (torch.ones_like(good[at]),))
        with forward_ad.dual_level(), pytest.raises(NotImplementedError, match="forward-mode"):
            of(forward_ad.make_dual(good[at], torch.ones_like(good[at])))
    if name != "operator":
        with forward_ad.dual_level():
            assert torch.equal(call(*good[:3], sinks=good[3]), want), "nothing here has a tangent"


def test_an_output_that_is_learned_is_refused():
    q, k, v, _ = tensors()
    plan, out = sixwarp.plan(q, k, v), torch.zeros_like(q, requires_grad=True)
    for call in (sixwarp.attention, plan):
        for _ in range(2):
            call(q, k, v, out=torch.zeros_like(q))
        with pytest.raises(NotImplementedError, match="forward pass only"):
            call(q, k, v, out=out)
        assert not out.any()


def test_outputs_are_counted_as_written():
    q, k, v, _ = tensors()
    plan = sixwarp.plan(q, k, v, return_lse=True)
    out, lse = torch.empty_like(q), torch.empty(1, 2, 3)
    versions = lambda: (out._version, lse._version)
    for _ in range(3):
        before = versions()
        plan(q, k, v, out=out, lse=lse)
        assert versions() == (before[0] + 1, before[1] + 1)
        sixwarp.attention(q, k, v, out=out)
        assert out._version == before[0] + 2
        assert q._version == 0
    # What backward needs and was written since is an error of torch's.
    weight = torch.ones_like(out, requires_grad=True)
    product = (weight * out).sum()
    with torch.no_grad():
        sixwarp.attention(q, k, v, out=out)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        product.backward()


def test_inference_tensors_have_no_version_and_are_written():
    q, k, v, _ = tensors()
    want = sixwarp.attention(q, k, v)
    with torch.inference_mode():
        out = torch.zeros_like(q)
    for _ in range(3):
        out_again = sixwarp.attention(q, k, v, out=out)
        assert out_again is out and torch.equal(out.clone(), want)


def test_other_functions_refuse_gradients_too():
    q, k, v, sinks = tensors()
    parts = [sixwarp.attention(q, k, v, return_lse=True) for _ in range(2)]
    outs, lses = map(list, zip(*parts))
    learned = lambda both: [both[0].clone().requires_grad_(), both[1]]
    for given in ((learned(outs), lses), (outs, learned(lses))):
        with pytest.raises(NotImplementedError, match="forward pass only"):
            sixwarp.merge(*given)
    with pytest.raises(NotImplementedError, match="forward pass only"):
        sixwarp.merge(outs, lses, sinks=sinks.requires_grad_())
    rows = torch.zeros(3, 512, requires_grad=True)
    with pytest.raises(NotImplementedError, match="forward pass only"):
        dsv4.prefill(torch.zeros(3, 2, 512), rows)
    with pytest.raises(NotImplementedError, match="forward pass only"):
        dsv4.pack_rows(torch.zeros(3, 512, dtype=torch.bfloat16, requires_grad=True))


@pytest.mark.filterwarnings("ignore:There is a performance drop")
def test_a_transform_that_only_repeats_is_followed():
    q, k, v, _ = tensors()
    many = torch.randn(4, 3, 2, 16)
    got = torch.vmap(lambda x: ours.attention(x, k[0], v[0]))(many)
    want = torch.stack([ours.attention(x, k[0], v[0]) for x in many])
    assert torch.equal(got, want)

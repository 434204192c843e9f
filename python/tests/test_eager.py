"""Drop-ins in eager mode call the library directly: with torch's results, and seen by whoever watches torch."""

import pytest

torch = pytest.importorskip("torch")

from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

import sixwarp.torch as ours
from sixwarp.torch import _attention, _op, _sdpa

theirs = torch.nn.functional.scaled_dot_product_attention
needs_exchange = pytest.mark.skipif(
    not hasattr(torch.Tensor, "__dlpack_c_exchange_api__"), reason="this torch lends no tensors through DLPack"
)


def tensors(*shapes):
    return [torch.randn(shape) for shape in shapes]


SQUARE = ((2, 4, 5, 16),) * 3
SDPA = {
    "plain": (SQUARE, {}),
    "causal": (SQUARE, dict(is_causal=True)),
    "causal, more keys": (((2, 4, 3, 16), *[(2, 4, 7, 16)] * 2), dict(is_causal=True)),
    "causal, fewer keys": (((2, 4, 7, 16), *[(2, 4, 3, 16)] * 2), dict(is_causal=True)),
    "scale": (SQUARE, dict(scale=0.5)),
    "fewer KV heads": (((2, 4, 5, 16), *[(2, 2, 5, 16)] * 2), dict(enable_gqa=True)),
    "other heads of values": (((2, 4, 5, 16), (2, 2, 5, 16), (2, 1, 5, 16)), dict(enable_gqa=True)),
    "keys of one batch": (((2, 4, 5, 16), *[(1, 4, 5, 16)] * 2), {}),
    "queries of one head": (((2, 1, 5, 16), *[(2, 4, 5, 16)] * 2), {}),
    "keys without a batch": (((2, 4, 5, 16), *[(4, 5, 16)] * 2), {}),
    "no batch": (((4, 5, 16),) * 3, {}),
    "no heads": (((5, 16),) * 3, dict(is_causal=True)),
    "two batches": (((2, 3, 4, 5, 16),) * 3, {}),
    "narrow values": (((2, 4, 5, 16), (2, 4, 5, 16), (2, 4, 5, 8)), {}),
    "mask": (SQUARE, dict(attn_mask=torch.arange(25).reshape(5, 5) % 3 > 0)),
    "bias": (SQUARE, dict(attn_mask=torch.linspace(-2, 2, 50).reshape(2, 1, 5, 5))),
}


@pytest.mark.parametrize("name", SDPA)
def test_a_known_sdpa_is_torchs(name):
    shapes, options = SDPA[name]
    for _ in range(3):
        q, k, v = tensors(*shapes)
        torch.testing.assert_close(ours.sdpa(q, k, v, **options), theirs(q, k, v, **options), atol=1e-5, rtol=1e-5)
    # Other strides are another call.
    q, k, v = (x.transpose(-1, -2).contiguous().transpose(-1, -2).contiguous() for x in (q, k, v))
    wide = torch.randn(*k.shape[:-1], 2 * k.shape[-1])[..., : k.shape[-1]]
    torch.testing.assert_close(ours.sdpa(q, wide, v, **options), theirs(q, wide, v, **options), atol=1e-5, rtol=1e-5)


@needs_exchange
def test_a_known_call_runs_no_python(monkeypatch):
    def unexpected(*_):
        raise AssertionError("the long way is taken")

    q, k, v = tensors(*[(2, 4, 9, 16)] * 3)
    calls = [
        lambda: ours.sdpa(q, k, v),
        lambda: ours.sdpa(q, k, v, is_causal=True),
        lambda: ours.sdpa(q, k[:1, :, :4], v[:1, :, :4], is_causal=True),
        lambda: ours.sdpa(q, k, v, torch.ones(9, 9, dtype=torch.bool)),
        lambda: ours.attention(q, k, v, causal=True),
        lambda: ours.flash_attn_func(q, k, v, causal=True, window_size=(2, 0), softcap=5.0),
    ]
    want = [call() for call in calls]
    monkeypatch.setattr(_sdpa, "_result_shape", unexpected)
    monkeypatch.setattr(_attention, "are_plain", unexpected)
    for call, result in zip(calls, want):
        assert torch.equal(call(), result)


@needs_exchange
def test_a_known_call_by_name_does_not_enter_the_dispatcher(monkeypatch):
    def unexpected(*_):
        raise AssertionError("the dispatcher was entered")

    def calls(q, k, v, mask):
        for operator in (torch.ops.sixwarp.attention, torch.ops.sixwarp.attention.default):
            yield operator(q, k, v, *REST)
            yield operator(q, k, v, *[None] * 5, mask, None, None, "bshd", True, 3, 0, 20.0, 0.25, *[None] * 4)

    q, k, v = tensors(*[(2, 9, 4, 16)] * 3)
    mask = torch.ones(9, 9, dtype=torch.bool)
    want = list(calls(q, k, v, mask))
    monkeypatch.setattr(_op, "compute", unexpected)
    monkeypatch.setattr(_op._quick, "attention", unexpected)
    for got, expected in zip(calls(q, k, v, mask), want):
        assert torch.equal(got[0], expected[0]) and torch.equal(got[1], expected[1])
    # Whatever is unlike an earlier call comes to the dispatcher.
    operator, learned = torch.ops.sixwarp.attention.default, q.clone().requires_grad_()
    for given in ((q, k, v[:, :, :, :8]), (q, k[:, :5], v[:, :5]), (learned, k, v), (q, k, k)):
        with pytest.raises(AssertionError, match="dispatcher"):
            operator(*given, *REST)


def test_the_operators_arguments_are_torchs_to_judge():
    q, k, v = tensors(*[(1, 3, 2, 16)] * 3)
    schema = torch.ops.sixwarp.attention.default._schema
    named = dict(zip([argument.name for argument in schema.arguments][3:], REST))
    for operator in (torch.ops.sixwarp.attention, torch.ops.sixwarp.attention.default):
        want = [operator(q, k, v, *REST) for _ in range(2)][0]
        assert torch.equal(operator(q, k, v, **named)[0], want[0])
        for wrong in ((q, k), (q, k, v, *REST, 1), (q, k, "v", *REST), (q, k, v, *REST[:-1], 80)):
            with pytest.raises(RuntimeError, match="sixwarp::attention"):
                operator(*wrong)


def test_a_script_calls_the_operator():
    q, k, v = tensors(*[(1, 3, 2, 16)] * 3)
    want = torch.ops.sixwarp.attention(q, k, v, *REST)[0]
    assert torch.equal(torch.jit.script(scripted)(q, k, v), want)


def scripted(q, k, v):
    return torch.ops.sixwarp.attention(
        q, k, v, None, None, None, None, None, None, None, None, "bshd", False,
        None, None, None, None, None, None, None, None,
    )[0]  # fmt: skip


def test_a_known_call_lets_nothing_pass_that_is_refused():
    q, k, v = tensors((2, 4, 5, 16), (2, 2, 5, 16), (2, 2, 5, 16))
    for _ in range(2):
        ours.sdpa(q, k, v, enable_gqa=True)
        ours.sdpa(q, k, v, is_causal=True, enable_gqa=True)
        ours.flash_attn_func(*(x.transpose(1, 2) for x in (q, k, v)))
    with pytest.raises(ValueError, match="enable_gqa=True"):
        ours.sdpa(q, k, v)
    with pytest.raises(NotImplementedError, match="dropout_p is 0.5"):
        ours.sdpa(q, k, v, dropout_p=0.5, enable_gqa=True)
    with pytest.raises(ValueError, match="attn_mask and is_causal"):
        ours.sdpa(q, k, v, torch.ones(5, 5, dtype=torch.bool), is_causal=True, enable_gqa=True)
    with pytest.raises(NotImplementedError, match="forward pass only"):
        ours.sdpa(q.requires_grad_(), k, v, enable_gqa=True)
    with pytest.raises(NotImplementedError, match="dropout_p is not supported"):
        ours.flash_attn_func(*(x.detach().transpose(1, 2) for x in (q, k, v)), dropout_p=0.5)


class Seen(TorchDispatchMode):
    """Which operators ran."""

    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.names.append(str(function))
        return function(*args, **(kwargs or {}))


class SeenFunctions(TorchFunctionMode):
    """Which functions of torch were called."""

    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_function__(self, function, types, args=(), kwargs=None):
        self.names.append(str(function))
        return function(*args, **(kwargs or {}))


REST = (*[None] * 8, "bshd", False, *[None] * 8)
FUNCTIONS = {
    "the operator": lambda q, k, v: torch.ops.sixwarp.attention(q, k, v, *REST)[0],
    "its overload": lambda q, k, v: torch.ops.sixwarp.attention.default(q, k, v, *REST)[0],
    "attention": ours.attention,
    "sdpa": ours.sdpa,
    "flash_attn_func": ours.flash_attn_func,
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_who_watches_sees_the_operator(name):
    call, (q, k, v) = FUNCTIONS[name], tensors(*[(1, 3, 3, 16)] * 3)
    want = [call(q, k, v) for _ in range(3)][0]
    with Seen() as seen:
        assert torch.equal(call(q, k, v), want)
    assert "sixwarp.attention.default" in seen.names
    if "operator" in name or "overload" in name:
        with SeenFunctions() as seen:
            call(q, k, v)
        assert any("sixwarp" in name for name in seen.names), seen.names
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        call(q, k, v)
    assert "sixwarp::attention" in [event.key for event in profile.key_averages()]


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::torch.jit.TracerWarning")
@pytest.mark.parametrize("name", FUNCTIONS)
def test_what_is_traced_is_not_a_constant(name):
    from torch.fx.experimental.proxy_tensor import make_fx

    call, (q, k, v) = FUNCTIONS[name], tensors(*[(1, 3, 3, 16)] * 3)
    call(q, k, v), call(q, k, v)
    others = tensors(*[(1, 3, 3, 16)] * 3)
    want = call(*others)
    three = lambda q, k, v: call(q, k, v)
    compiled = torch.compile(three, fullgraph=True, backend="aot_eager")
    for traced in (make_fx(three)(q, k, v), torch.jit.trace(three, (q, k, v), check_trace=False), compiled):
        traced(q, k, v)
        assert torch.equal(traced(*others), want)


def test_tensors_that_are_more_than_memory_go_through_torch():
    q, k, v = tensors(*[(1, 3, 3, 16)] * 3)
    for call in FUNCTIONS.values():
        want = [call(q, k, v) for _ in range(2)][0]
        assert call(*(x.to("meta") for x in (q, k, v))).shape == want.shape
        tagged = [x.as_subclass(Tagged) for x in (q, k, v)]
        assert torch.equal(call(*tagged).as_subclass(torch.Tensor), want)


class Tagged(torch.Tensor):
    """A subclass with torch's own operations."""

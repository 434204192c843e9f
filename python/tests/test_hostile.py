"""Every tensor of every call, spoiled in every way: refused by name, or right; and nothing else is touched."""

import mmap
import re

import numpy as np
import pytest

import hostile
import sixwarp

torch = pytest.importorskip("torch")

import sixwarp.torch as ours
from sixwarp import dsv4

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

REFUSALS = (TypeError, ValueError, NotImplementedError)
LIBRARIES = {
    "numpy": (hostile.numpy_make, hostile.NUMPY),
    "torch": (hostile.torch_make, hostile.torch_ways()),
}
FLOATS = ("q", "k", "v", "out", "lse")


def same(a, b):
    return np.array_equal(np.asarray(a), np.asarray(b))


def attention(tensors, options):
    """`attention` as a function of its tensors; it takes no `lse`."""
    return lambda given: sixwarp.attention(
        **{name: x for name, x in given.items() if name != "lse"}, **options, return_lse=True
    )


def planned(warm):
    def make(tensors, options):
        plan = sixwarp.plan(**{k: x for k, x in tensors.items() if k != "lse"}, **options, return_lse=True)
        if warm:
            plan(**tensors), plan(**tensors)
        return lambda given: plan(**given)

    return make


WAYS = {"attention": attention, "plan": planned(False), "known plan": planned(True)}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("library", LIBRARIES)
def test_spoiled_tensors_are_refused_or_right(library, way):
    make, spoils = LIBRARIES[library]
    for name, tensors, options in hostile.calls(make):
        want = sixwarp.attention(**tensors, **options, return_lse=True)
        results, around = hostile.outputs(make, tensors)
        whole = {**tensors, **results}
        call = WAYS[way](whole, options)
        call(whole), call(whole)
        for spoiled in whole:
            if spoiled == "lse" and way == "attention":
                continue
            for how, spoil, wrong in spoils:
                if spoiled == "attn_mask" and how in hostile.OTHER_MASKS:
                    continue
                where = f"{name} {library} {way}: {spoiled} {how}"
                check(call, whole, spoiled, spoil, wrong, want, around, where)


def check(call, whole, spoiled, spoil, wrong, want, around, where):
    try:
        bad = spoil(whole[spoiled])
    except (RuntimeError, TypeError, NotImplementedError):
        return  # this kind of tensor cannot be spoiled so
    if wrong is None:
        # Another type, of numbers that it holds as well: of lengths and tables, or of sinks and masks.
        integers = "int" in str(bad.dtype)
        wrong = integers if spoiled in ("sinks", "attn_mask") else spoiled in FLOATS or not integers
    for tensor in around:
        tensor[...] = 7
    try:
        out, lse = call({**whole, spoiled: bad})
    except REFUSALS as refusal:
        # Of two tensors that contradict each other, either may be named.
        assert re.search(rf"\b({'|'.join(whole)})\b", str(refusal)), f"{where}: {refusal}"
        assert all(same(x, np.full(x.shape, 7, np.float32)) for x in around), f"{where}: written, then refused"
        return
    assert not wrong, f"{where}: accepted"
    assert spoiled not in ("out", "lse") or getattr(getattr(bad, "flags", None), "writeable", True), where
    assert same(out, want[0]) and same(lse, want[1]), f"{where}: another result"
    for tensor in around:
        guard = [tensor[: hostile.GUARD], tensor[-hostile.GUARD :]]
        assert all(same(x, np.full(hostile.GUARD, 7, np.float32)) for x in guard), f"{where}: written beside"


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_plan_takes_its_tensors_by_name(library):
    make, _ = LIBRARIES[library]
    for _, tensors, options in hostile.calls(make):
        results, around = hostile.outputs(make, tensors)
        optional = [name for name in tensors if name not in "qkv"]
        plan = sixwarp.plan(**tensors, **options)
        for _ in range(2):
            want = plan(**tensors)
            for left_out in optional:
                rest = {name: x for name, x in tensors.items() if name != left_out}
                with pytest.raises(ValueError, match=f"{left_out} is missing"):
                    plan(**rest)
                for instead in ("sinks", "cu_seqlens_q", "cu_seqlens_k", "seqused_k", "page_table", "attn_mask", "lse"):
                    if instead not in tensors:
                        with pytest.raises(ValueError, match=f"{left_out} is missing|{instead} is given"):
                            plan(**rest, **{instead: tensors[left_out]})
            with pytest.raises(ValueError, match="lse is given"):
                plan(**tensors, lse=results["lse"])
            assert same(plan(**tensors), want)


@pytest.mark.parametrize("library", LIBRARIES)
def test_outputs_lie_apart_from_inputs_and_from_each_other(library):
    make, _ = LIBRARIES[library]
    q = make(np.ones((1, 4, 2, 8)), "f32")
    plan = sixwarp.plan(q, q * 2, q * 3, return_lse=True)
    k, v, out = q * 2, q * 3, q * 0
    for _ in range(2):
        plan(q, k, v, out=out)
        for at, name in ((q, "q"), (k, "k"), (v, "v")):
            with pytest.raises(ValueError, match=f"out: must not share memory with {name}"):
                plan(q, k, v, out=at)
            with pytest.raises(ValueError, match=f"lse: must not share memory with {name}"):
                plan(q, k, v, out=out, lse=at.reshape(-1)[:8].reshape(1, 2, 4))
        with pytest.raises(ValueError, match="must not share memory"):
            plan(q, k, v, out=out, lse=out.reshape(-1)[56:].reshape(1, 2, 4))
        with pytest.raises(ValueError, match="out"):
            sixwarp.attention(q, k, v, out=out[:, :1] + 0 if library == "numpy" else out[:, :1].expand(1, 4, 2, 8))


def test_what_is_read_only_is_not_written(tmp_path):
    q = np.ones((1, 2, 2, 16), np.float32)
    plan = sixwarp.plan(q, q, q, return_lse=True)
    text = bytes(q.nbytes)
    path = tmp_path / "out"
    path.write_bytes(text)
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        memories = [np.frombuffer(text, np.float32), np.memmap(path, np.float32, "r"), np.frombuffer(mapped, np.float32)]
        for memory in memories:
            out = memory.reshape(q.shape)
            for call in (sixwarp.attention, plan):
                with pytest.raises(ValueError, match="out: must be writable, but it is read-only"):
                    call(q, q, q, out=out)
            with pytest.raises(ValueError, match="lse: must be writable"):
                plan(q, q, q, lse=memory[:4].reshape(1, 2, 2))
            del out
        del memories, memory
    assert text == bytes(q.nbytes) == path.read_bytes()


def test_storage_may_go_between_two_calls():
    tensors = lambda: [torch.randn(2, 3, 4, 16) for _ in range(4)]
    names = ("q", "k", "v", "out")
    for left in (0, 64):
        q, k, v, out = tensors()
        plan = sixwarp.plan(q, k, v)
        for call in (sixwarp.attention, plan):
            for _ in range(3):
                call(q, k, v, out=out)
            for at, name in enumerate(names):
                given = [q, k, v, out]
                given[at] = hostile.emptied(given[at], left)
                with pytest.raises(ValueError, match=f"{name}: must hold 1536 bytes, but it is {left}"):
                    call(*given[:3], out=given[3])


def test_the_meta_device_is_not_the_cpu():
    q = torch.randn(1, 2, 2, 16)
    plan = sixwarp.plan(q, q.clone(), q.clone())
    for call in (sixwarp.attention, plan):
        for _ in range(2):
            call(q, q.clone(), q.clone())
        with pytest.raises(TypeError, match="k is on meta: tensors on the CPU and on CUDA devices are read"):
            call(q, q.to("meta"), q.clone())


def test_workspaces_are_checked():
    for make, _ in LIBRARIES.values():
        q = make(np.ones((1, 2, 2, 8)), "f32")
        plan = sixwarp.plan(q, q, q)
        want = plan(q, q, q)
        for wrong in (make(np.ones(4), "f32"), make(np.ones((4, 4)), "u8")[:, :2]):
            with pytest.raises(ValueError, match="workspace has shape"):
                plan(q, q, q, workspace=wrong)
        with pytest.raises(TypeError, match="workspace is builtins.int"):
            plan(q, q, q, workspace=5)
        assert same(plan(q, q, q, workspace=make(np.ones(16), "u8")), want)


@pytest.mark.parametrize("library", LIBRARIES)
def test_tensors_of_two_libraries_are_not_mixed(library):
    make, other = hostile.numpy_make, hostile.torch_make
    if library == "torch":
        make, other = other, make
    for (_, tensors, options), (_, others, _) in zip(hostile.calls(make), hostile.calls(other)):
        plan = sixwarp.plan(**tensors, **options)
        for name in tensors:
            for call in (lambda **given: sixwarp.attention(**given, **options), plan):
                with pytest.raises(TypeError, match="one library"):
                    call(**{**tensors, name: others[name]})
                if name in "qkv":
                    with pytest.raises(TypeError, match=f"{name} is None"):
                        call(**{**tensors, name: None})
        with pytest.raises(TypeError, match="another library"):
            plan(**others)


def test_integers_are_not_cut_to_32_bits():
    for library, (make, _) in LIBRARIES.items():
        long = (lambda x: np.array(x, np.int64)) if library == "numpy" else torch.tensor
        q = make(np.ones((1, 3, 2, 16)), "f32")
        for value in (2**32 + 2, -(2**31) - 1):
            with pytest.raises(ValueError, match=f"seqused_k holds {value}: 32-bit integers are needed"):
                sixwarp.attention(q, q, q, seqused_k=long([value]))
            with pytest.raises(ValueError, match=f"cu_seqlens_q holds {value}"):
                sixwarp.attention(q[0], q[0], q[0], cu_seqlens_q=long([0, value]), cu_seqlens_k=long([0, 3]))
        assert same(sixwarp.attention(q, q, q, seqused_k=long([2])), sixwarp.attention(q, q[:, :2], q[:, :2]))
        for wrong in (long([2]) * 1.5, long([2]) > 0):
            with pytest.raises(TypeError, match="seqused_k is .*: int32 is needed"):
                sixwarp.attention(q, q, q, seqused_k=wrong)
        with pytest.raises(TypeError, match="sinks is .*int64: float32 is needed"):
            sixwarp.attention(q, q, q, sinks=long([2, 3]))
        for offsets in (long(3), long([[0, 3]]), long([0])):
            with pytest.raises(ValueError, match="cu_seqlens_q has shape"):
                sixwarp.attention(q[0], q[0], q[0], cu_seqlens_q=offsets, cu_seqlens_k=long([0, 3]))


NUMBERS = [np.float32(0.5), np.float64(0.5), np.float16(0.5), torch.tensor(0.5), np.array(0.5)]


@pytest.mark.parametrize("way", ["attention", "plan"])
def test_numbers_of_every_kind_are_read(way):
    q = np.random.default_rng(0).standard_normal((1, 4, 2, 16)).astype(np.float32)
    call = lambda **options: (sixwarp.attention if way == "attention" else plan_and_call)(q, q, q, **options)
    want = call(scale=0.5, softcap=0.5)
    for number in NUMBERS:
        assert same(call(scale=number, softcap=number), want)
    one = call(scale=1.0, window=(1, 2))
    for whole in (np.int64(1), np.uint8(1), torch.tensor(1), True):
        assert same(call(scale=whole, window=[whole, np.int32(2)]), one)
    for wrong in (float("nan"), float("inf"), np.float32("nan"), -np.inf):
        with pytest.raises(ValueError, match="scale is .*: a finite number is needed"):
            call(scale=wrong)
    for wrong in ("0.5", 1j, [0.5], object()):
        with pytest.raises(TypeError, match="scale is .*: a number is needed"):
            call(scale=wrong)
    with pytest.raises(ValueError, match="scale: must be finite"):
        call(scale=1e300)
    for wrong in ((1.5, 0), ("1", 0), (-1, 0)):
        with pytest.raises(ValueError, match="window is .*: a side is None"):
            call(window=wrong)
    for wrong in (3, (1,), (1, 2, 3)):
        with pytest.raises(TypeError, match="window is .*: .left, right. is needed"):
            call(window=wrong)


def plan_and_call(q, k, v, **options):
    return sixwarp.plan(q, k, v, **options)(q, k, v)


def test_counts_are_integers_of_at_least_so_much():
    q = np.ones((3, 2, 16), np.float32)
    cu = np.array([0, 3], np.int32)
    call = lambda **options: sixwarp.attention(q, q, q, cu_seqlens_q=cu, cu_seqlens_k=cu, **options)
    for name, least in (("max_seqlen_q", 0), ("max_seqlen_k", 0), ("split", 1)):
        assert same(call(**{name: np.int64(64)}), call())
        with pytest.raises(TypeError, match=f"{name} is 3.9: an integer is needed"):
            call(**{name: 3.9})
        with pytest.raises(ValueError, match=f"{name} is {least - 1}: at least {least} is needed"):
            call(**{name: least - 1})


def test_an_arch_is_the_name_of_a_generation_that_the_device_runs():
    q = np.ones((1, 3, 2, 16), np.float32)
    for call in (sixwarp.attention, sixwarp.plan, sixwarp.supports):
        with pytest.raises(TypeError, match="arch is 80: the name of a GPU generation, such as 'sm_80', is needed"):
            call(q, q, q, arch=80)
        with pytest.raises(ValueError, match="arch: must be one of sm_80, .*, but it is `sm_75`"):
            call(q, q, q, arch="sm_75")
    reason = "arch sm_80 is not supported: cpu runs no kernels"
    for call in (sixwarp.attention, plan_and_call, ours.attention):
        x = torch.from_numpy(q)
        with pytest.raises(sixwarp.Unsupported, match=reason):
            call(x, x, x, arch="sm80")
    assert sixwarp.supports(q, q, q, arch="sm80") == reason


def test_a_device_is_asked_about_the_kernels_of_another_generation():
    q = np.ones((1, 3, 2, 16), np.float32)
    lists, pages = np.zeros((1, 128), np.int32), np.zeros((2, 64, 512), np.float32)
    decoded = lambda **options: dsv4.supports(np.zeros((1, 8, 512), np.float32), pages, lists, **options)
    for asked in (lambda **options: sixwarp.supports(q, q, q, **options), decoded):
        assert asked(device="sm_90a", arch="sm80") is None
        reason = asked(device="sm_90a", arch="sm_100a")
        assert reason == (
            "arch sm_100a is not supported: an sm_90a GPU does not run its kernels (nearest that works: sm_90a)"
        )
    rows = np.zeros((8, 512), np.float32)
    for call in (lambda: decoded(arch="sm_75"), lambda: dsv4.prefill(rows[:, None], rows, arch="sm_75")):
        with pytest.raises(ValueError, match="^arch: must be one of .*, but it is `sm_75`"):
            call()


def test_a_number_that_changes_is_read_anew():
    q = torch.randn(1, 4, 2, 16)
    scale = torch.tensor(0.5)
    for value in (0.5, 2.0, 0.5):
        scale.fill_(value)
        assert same(sixwarp.attention(q, q, q, scale=scale), sixwarp.attention(q, q, q, scale=value))


def test_messages_speak_of_the_call_and_not_of_rules_by_number():
    q = np.ones((1, 2, 2, 16), np.float32)
    for wrong in (dict(k=q[..., :8]), dict(k=q[:, :, :0]), dict(softcap=-1.0), dict(seqused_k=np.array([9], np.int32))):
        given = {"k": q, "v": q, **wrong}
        with pytest.raises(ValueError) as error:
            sixwarp.attention(q, given.pop("k"), given.pop("v"), **given)
        assert "rule" not in str(error.value), error.value
    with pytest.raises(ValueError, match=r"k has strides of \(.*-4\) bytes: negative ones are not read"):
        sixwarp.attention(q, q[..., ::-1], q)


def parts(make):
    """Two parts of a result, and sinks."""
    rng = np.random.default_rng(1)
    floats = lambda *shape: make(rng.standard_normal(shape), "f32")
    return [floats(2, 3, 4, 16) for _ in range(2)], [floats(2, 4, 3) for _ in range(2)], floats(4)


@pytest.mark.parametrize("library", LIBRARIES)
def test_spoiled_parts_are_not_merged(library):
    make, spoils = LIBRARIES[library]
    outs, lses, sinks = parts(make)
    want = sixwarp.merge(outs, lses, sinks=sinks)
    tensors = {"outs[0]": outs[0], "outs[1]": outs[1], "lses[0]": lses[0], "lses[1]": lses[1], "sinks": sinks}
    for name in tensors:
        for how, spoil, wrong in spoils:
            try:
                bad = spoil(tensors[name])
            except (RuntimeError, TypeError, NotImplementedError):
                continue
            given = {**tensors, name: bad}
            if wrong is None:
                # One output of another type than the other is wrong, and so are integers.
                wrong = name.startswith("outs") or "int" in str(bad.dtype)
            try:
                got = sixwarp.merge(
                    [given["outs[0]"], given["outs[1]"]], [given["lses[0]"], given["lses[1]"]], sinks=given["sinks"]
                )
            except REFUSALS as refusal:
                assert re.search(r"outputs differ|outs\[|lses\[|sinks", str(refusal)), refusal
                continue
            assert not wrong, f"{library}: {name} {how} is merged"
            assert same(got[0], want[0]) and same(got[1], want[1]), f"{library}: {name} {how}"


@pytest.mark.parametrize("library", LIBRARIES)
def test_parts_come_as_they_come(library):
    make, _ = LIBRARIES[library]
    outs, lses, sinks = parts(make)
    want = sixwarp.merge(outs, lses)
    stack = np.stack if library == "numpy" else torch.stack
    for given in ((tuple(outs), tuple(lses)), (iter(outs), iter(lses)), (stack(outs), stack(lses))):
        assert all(map(same, sixwarp.merge(*given), want))
    repeated = np.broadcast_to if library == "numpy" else torch.broadcast_to
    one = [repeated(out[:1], out.shape) for out in outs], [repeated(lse[:1], lse.shape) for lse in lses]
    wide = sixwarp.merge(*one)
    assert same(wide[0][0], want[0][0]) and same(wide[0][1], want[0][0]), "outputs that repeat are merged one by one"
    for wrong in ((outs, lses[:1]), ([], [])):
        with pytest.raises(ValueError, match="as many of both"):
            sixwarp.merge(*wrong)
    with pytest.raises(TypeError, match=r"outs\[1\] is None"):
        sixwarp.merge([outs[0], None], lses)
    with pytest.raises(ValueError, match="layout is one of"):
        sixwarp.merge(outs, lses, layout="shbd")


class Foreign:
    """An array of a library that only DLPack carries."""

    def __init__(self, x):
        self.x = x

    def __dlpack__(self, **options):
        return self.x.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.x.__dlpack_device__()


def test_what_dlpack_carries_is_looked_at_too():
    q = np.random.default_rng(0).standard_normal((1, 3, 2, 16)).astype(np.float32)
    want = sixwarp.attention(q, q, q)
    assert same(sixwarp.attention(*(Foreign(q) for _ in range(3))), want)
    turned = np.ascontiguousarray(q.swapaxes(1, 2)).swapaxes(1, 2)
    assert same(sixwarp.attention(Foreign(turned), Foreign(q), Foreign(turned)), want)
    for wrong, message in (
        (q[..., ::-1], "k has strides"), (q.astype(np.int32), "k is i32"), (q[..., :8], "k: must have q's dim"),
        (np.asfortranarray(q), "k has a last stride"),
    ):  # fmt: skip
        with pytest.raises((ValueError, TypeError), match=message):
            sixwarp.attention(Foreign(q), Foreign(wrong), Foreign(q))


def test_the_type_of_a_plan_can_be_written_down():
    assert sixwarp.PlannedAttention[torch.Tensor, torch.Tensor] is not None


def test_a_traced_call_is_a_call():
    q = torch.randn(1, 3, 2, 16)
    layer = torch.compile(lambda x: sixwarp.attention(x * 2, x, x) + 1, backend="eager")
    for _ in range(3):
        assert torch.equal(layer(q), sixwarp.attention(q * 2, q, q) + 1)
    with pytest.raises(TypeError, match="q is torch.fx.proxy.Proxy, which is not a tensor"):
        torch.fx.symbolic_trace(lambda x: sixwarp.attention(x, x, x))


@pytest.mark.parametrize("device", ["cpu"] + ["cuda"] * torch.cuda.is_available())
def test_each_device_refuses(device):
    """The few mistakes that a device could not survive, there; known to the quick way and not."""
    make = lambda *shape: torch.randn(shape).to(device, torch.bfloat16)
    q, k, v = make(2, 1, 8, 64), make(2, 300, 2, 64), make(2, 300, 2, 64)
    used = torch.tensor([300, 7], dtype=torch.int32, device=device)
    out, lse = torch.zeros_like(q), torch.zeros(2, 8, 1, device=device)
    plan = sixwarp.plan(q, k, v, seqused_k=used, return_lse=True)
    room = torch.zeros(plan.workspace_bytes + 512, dtype=torch.uint8, device=device)
    good = dict(q=q, k=k, v=v, seqused_k=used, out=out, lse=lse, workspace=room)
    for _ in range(3):
        want = [x.clone() for x in plan(**good)]
        for wrong in (
            dict(lse=lse[:1]), dict(lse=lse.to(torch.float64)), dict(lse=hostile.emptied(lse)),
            dict(out=q), dict(out=hostile.emptied(out, 64)), dict(out=out.float()), dict(k=hostile.emptied(k, 4096)),
            dict(seqused_k=used[:1]), dict(seqused_k=used.long()), dict(seqused_k=None), dict(q=torch._neg_view(q)),
            dict(lse=out.view(torch.uint8).reshape(-1)[:64].view(torch.float32).reshape(2, 8, 1)),
            dict(workspace=room.float()), dict(k=k.cpu() if device == "cuda" else k.to("meta")),
        ):  # fmt: skip
            with pytest.raises((ValueError, TypeError)):
                plan(**{**good, **wrong})
        assert all(torch.equal(x, y) for x, y in zip(plan(**good), want))
    if plan.workspace_bytes:
        for short in (room[: plan.workspace_bytes - 1], room[1:], out.view(torch.uint8).reshape(-1)):
            with pytest.raises(ValueError, match="workspace"):
                plan(**{**good, "workspace": short})
    longs = sixwarp.attention(q, k, v, seqused_k=used.long(), return_lse=True)
    assert all(torch.equal(x, y) for x, y in zip(longs, want))

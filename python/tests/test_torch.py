"""torch tensors: the table on every device there is, the operator, and the drop-in functions."""

import subprocess
import sys

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import engines
import sixwarp
import sixwarp.torch as ours
import table

CASES = [case for case in table.load() if table.is_plain(case)]
DEVICES = ["cpu"] + (["cuda"] if torch.cuda.is_available() else [])
TYPES = {
    "f64": torch.float64,
    "f32": torch.float32,
    "f16": torch.float16,
    "bf16": torch.bfloat16,
    "i32": torch.int32,
    "bool": torch.bool,
    "e4m3": torch.float8_e4m3fn,
}


@pytest.fixture(params=DEVICES)
def device(request):
    return request.param


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_the_table(case, device):
    def convert(x, dtype):
        return torch.from_numpy(np.ascontiguousarray(x)).to(device, TYPES[dtype])

    try:
        engines.run(case, convert, lambda x: x.float().cpu().numpy())
    except sixwarp.Unsupported as why:
        assert device != "cpu", f"the CPU declines nothing: {why}"
        pytest.skip(str(why))


def tensors(device, queries=5, keys=12, heads=4, kv_heads=2, dim=64, batch=2):
    generator = torch.Generator().manual_seed(1)
    dtype = torch.float32 if device == "cpu" else torch.bfloat16
    shape = lambda n, h: (batch, n, h, dim)
    make = lambda n, h: torch.randn(shape(n, h), generator=generator).to(device, dtype)
    return make(queries, heads), make(keys, kv_heads), make(keys, kv_heads)


def close(a, b):
    tolerance = 2e-5 if b.dtype == torch.float32 else 2e-2
    torch.testing.assert_close(a, b, atol=tolerance, rtol=tolerance)


def test_the_operator_is_well_formed(device):
    q, k, v = tensors(device)
    lengths = torch.tensor([3, 12], dtype=torch.int32, device=device)
    sinks = torch.randn(4, device=device)
    mask = torch.rand(5, 12, device=device) < 0.8
    plain = (q, k, v, *[None] * 8, "bshd", True, *[None] * 8)
    full = (q, k, v, sinks, None, None, lengths, None, mask, None, None, "bshd", False, 7, 0, 30.0, 0.1, *[None] * 4)
    for arguments in (plain, full):
        torch.library.opcheck(torch.ops.sixwarp.attention.default, arguments)


def test_it_compiles_without_breaks(device):
    q, k, v = tensors(device)

    @torch.compile(fullgraph=True, backend="aot_eager")
    def layer(q, k, v):
        out, lse = ours.attention(q * 2, k, v, causal=True, return_lse=True)
        return out + 1, lse

    out, lse = layer(q, k, v)
    want, want_lse = sixwarp.attention(q * 2, k, v, causal=True, return_lse=True)
    close(out, want + 1)
    close(lse, want_lse)


def test_gradients_are_refused():
    q, k, v = tensors("cpu")
    with pytest.raises(NotImplementedError, match="forward pass only"):
        ours.attention(q.requires_grad_(), k, v)


@pytest.mark.parametrize("queries", [5, 12, 20])
@pytest.mark.parametrize("causal", [False, True])
def test_sdpa_is_torchs(device, queries, causal):
    q, k, v = (x.transpose(1, 2) for x in tensors(device, queries=queries))
    theirs = torch.nn.functional.scaled_dot_product_attention
    close(
        ours.sdpa(q, k, v, is_causal=causal, enable_gqa=True),
        theirs(q, k, v, is_causal=causal, enable_gqa=True),
    )


def test_sdpa_says_what_it_does_not_do():
    q, k, v = (x.transpose(1, 2) for x in tensors("cpu"))
    with pytest.raises(NotImplementedError, match="dropout"):
        ours.sdpa(q, k, v, dropout_p=0.1, enable_gqa=True)
    with pytest.raises(ValueError, match="attn_mask and is_causal"):
        ours.sdpa(q, k, v, attn_mask=torch.zeros(5, 12), is_causal=True, enable_gqa=True)
    with pytest.raises(ValueError, match="enable_gqa"):
        ours.sdpa(q, k, v)


def test_flash_attn_func_window_and_lse(device):
    q, k, v = tensors(device)
    out, lse, none = ours.flash_attn_func(q, k, v, causal=True, window_size=(3, -1), return_attn_probs=True)
    want, want_lse = sixwarp.attention(q, k, v, window=(3, 0), return_lse=True)
    close(out, want)
    close(lse, want_lse)
    assert none is None


def test_flash_attn_varlen_is_each_sequence_alone(device):
    q, k, v = tensors(device, queries=16, keys=16, batch=1)
    cu_q, cu_k = [0, 3, 3, 16], [0, 7, 9, 16]
    as_tensor = lambda x: torch.tensor(x, dtype=torch.int32, device=device)
    out = ours.flash_attn_varlen_func(
        q[0], k[0], v[0], as_tensor(cu_q), as_tensor(cu_k), 13, 7, causal=True
    )
    for (a, b), (c, d) in zip(zip(cu_q, cu_q[1:]), zip(cu_k, cu_k[1:])):
        if b > a:
            close(out[a:b], sixwarp.attention(q[:, a:b], k[:, c:d], v[:, c:d], causal=True)[0])


@pytest.mark.parametrize("paged", [False, True])
def test_a_cache_grows_and_is_read(device, paged):
    q, k, v = tensors(device, queries=2, keys=12)
    new_k, new_v = k[:, :2] * 2, v[:, :2] * 3
    lengths = torch.tensor([4, 9], dtype=torch.int32, device=device)
    caches, block_table = [k.clone(), v.clone()], None
    if paged:
        order = torch.tensor([5, 1, 4, 0, 3, 2], device=device)
        block_table = torch.empty(6, dtype=torch.int32, device=device)
        pages = [x.reshape(6, 4, *x.shape[2:]) for x in caches]
        caches = [torch.empty_like(x) for x in pages]
        for cache, page in zip(caches, pages):
            cache[order] = page
        block_table = order.to(torch.int32).reshape(2, 3)
    out = ours.flash_attn_with_kvcache(
        q, *caches, new_k, new_v, cache_seqlens=lengths, block_table=block_table, causal=True
    )
    for b, n in enumerate((4, 9)):
        keys = torch.cat([k[b : b + 1, :n], new_k[b : b + 1]], 1)
        values = torch.cat([v[b : b + 1, :n], new_v[b : b + 1]], 1)
        close(out[b : b + 1], sixwarp.attention(q[b : b + 1], keys, values, causal=True))


def test_devices_are_not_mixed():
    if "cuda" not in DEVICES:
        pytest.skip("there is no GPU")
    q, k, v = tensors("cpu")
    with pytest.raises(ValueError, match="k is on GPU 0 and q on the CPU"):
        sixwarp.attention(q, k.cuda(), v)
    with pytest.raises(TypeError, match="k is ndarray"):
        sixwarp.attention(q, k.numpy(), v)


def test_a_gpu_merge_is_the_cpu_merge(device):
    q, k, v = tensors(device, keys=12)
    parts = [sixwarp.attention(q, k[:, a:b], v[:, a:b], return_lse=True) for a, b in ((0, 5), (5, 12))]
    sinks = torch.tensor([0.0, 1.0, float("-inf"), 50.0], device=device)
    out, lse = sixwarp.merge(*zip(*parts), sinks=sinks)
    want, want_lse = sixwarp.attention(q, k, v, sinks=sinks, return_lse=True)
    close(out, want)
    close(lse, want_lse)


@pytest.mark.parametrize("layout", ["bshd", "bhsd"])
@pytest.mark.parametrize("count", [1, 3, 70])
def test_any_number_of_parts_merges_anywhere(device, layout, count):
    """Parts without keys, rows without parts, sinks from none to all; on a GPU, more parts than one kernel takes."""
    generator = torch.Generator().manual_seed(3)
    shape = (2, 4, 3, 16) if layout == "bhsd" else (2, 3, 4, 16)
    outs = [torch.randn(shape, generator=generator) for _ in range(count)]
    lses = [torch.randn((2, 4, 3), generator=generator) for _ in range(count)]
    for n, (out, lse) in enumerate(zip(outs, lses)):
        lse[0, :2] = (float("-inf"), float("inf"), float("nan"))[n % 3]
        (out[0, :, :2] if layout == "bshd" else out[0, :2]).fill_(float("nan"))
    for sinks in (None, torch.tensor([1.0, float("-inf"), float("inf"), 1e30])):
        arrays = [[x.numpy() for x in tensors] for tensors in (outs, lses)]
        want = sixwarp.merge(*arrays, sinks=None if sinks is None else sinks.numpy(), layout=layout)
        logits = None if sinks is None else sinks.to(device)
        wide = [torch.cat([x, x], -1)[..., :16] for x in outs]
        swapped = [x.transpose(1, 2).contiguous().transpose(1, 2) for x in outs]
        for given in (outs, wide, swapped, [*wide[:1], *swapped[1:]]):
            there, sums = [[x.to(device) for x in tensors] for tensors in (given, lses)]
            got = sixwarp.merge(there, sums, sinks=logits, layout=layout)
            for x, y in zip(got, want):
                torch.testing.assert_close(x.cpu(), torch.from_numpy(y), atol=1e-5, rtol=1e-5)
            assert not got[0].isnan().any() and got[1][0, :2].isneginf().all()


def test_groups_of_parts_have_strides_of_their_own(device, monkeypatch):
    outs, lses = [torch.randn(1, 5, 4, 16) for _ in range(7)], [torch.randn(1, 4, 5) for _ in range(7)]
    apart = [torch.cat([x, x], -1)[..., :16] for x in outs[:1]]
    swapped = [x.transpose(1, 2).contiguous().transpose(1, 2) for x in outs[1:]]
    whole, grouped = [[x.to(device) for x in tensors] for tensors in (outs, [*apart, *swapped])]
    sums = [x.to(device) for x in lses]
    want = sixwarp.merge(whole, sums)
    monkeypatch.setattr(sys.modules["sixwarp._merge"], "_most", lambda device: 3)
    for x, y in zip(sixwarp.merge(grouped, sums), want):
        torch.testing.assert_close(x, y, atol=1e-5, rtol=1e-5)


def test_what_cannot_be_merged_is_named(device):
    out, lse = torch.zeros(1, 2, 3, 8, device=device), torch.zeros(1, 3, 2, device=device)
    with pytest.raises(ValueError, match="at least one"):
        sixwarp.merge([], [])
    with pytest.raises(ValueError, match=r"lses\[0\] has shape"):
        sixwarp.merge([out], [lse.transpose(1, 2)])
    with pytest.raises(ValueError, match="outputs differ"):
        sixwarp.merge([out, out[:, :1]], [lse, lse[..., :1]])


def test_a_torch_without_cuda_says_so():
    """The libraries that stand for NVIDIA's (`install_torch.py`) answer, however they are asked."""
    if "cuda" in DEVICES:
        pytest.skip("there is a GPU")
    questions = (
        "torch.cuda.is_current_stream_capturing()", "torch.cuda.current_stream()", "torch.zeros(1, device='cuda')",
        "torch.cuda.cudart().cudaGetErrorString(torch.cuda.cudart().cudaError(35))", "torch.cuda.nccl.version()",
        "torch.cuda.synchronize()", "torch.cuda.CUDAGraph()", "torch.cuda.memory_stats()",
    )  # fmt: skip
    script = "import torch\nfor question in %r:\n try: eval(question)\n except Exception as error: print(error)"
    result = subprocess.run([sys.executable, "-c", script % (questions,)], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr

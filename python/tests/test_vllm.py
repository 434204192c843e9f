"""The plug-in for vLLM, with recorded interfaces in vLLM's place: classes are driven as vLLM drives them."""

import importlib
import subprocess
import sys
from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch")

import sixwarp
from sixwarp import dsv4
from serving import paged
from serving.paged import Batch, cache, random

HEADS, KV_HEADS, DIM, PAGE = 6, 2, 32, 16
MIXED = dict(queries=[1, 1, 21, 3], keys=[40, 17, 21, 60])
SCALE = 0.2


@pytest.fixture(autouse=True, scope="module")
def engine():
    undo = paged.without_engines()
    yield
    undo()


def made(**options):
    """A layer and its metadata builder, as vLLM makes them."""
    from vllm.v1.attention.backend import CommonAttentionMetadata

    backend = sixwarp.vllm.SixwarpBackend
    given = dict(num_kv_heads=KV_HEADS, alibi_slopes=None, sliding_window=None, kv_cache_dtype="auto")
    impl = backend.get_impl_cls()(HEADS, DIM, SCALE, **{**given, **options})
    impl.process_weights_after_loading(torch.bfloat16)
    builder = backend.get_builder_cls()(None, ["layer"], None, torch.device("cpu"))
    return impl, lambda batch, **changed: builder.build(0, batch.common(CommonAttentionMetadata, **changed)), builder


def step(impl, metadata, batch, kv, new_rows=True):
    """A step of one layer: new rows are written, then attended to; returns queries and output."""
    q, k, v = (random((batch.tokens, heads, DIM), seed=5 + n) for n, heads in enumerate((HEADS, KV_HEADS, KV_HEADS)))
    if new_rows:
        impl.do_kv_cache_update(None, k, v, kv, metadata.slot_mapping)
    out = torch.full((batch.tokens, HEADS, DIM), 7.0, dtype=q.dtype)
    assert impl.forward(None, q, k, v, kv, metadata, out) is out
    return q, out, k, v


def ensure_right(batch, q, out, kv, **options):
    keys, values = kv.transpose(1, 2).split(DIM, -1)
    real = sum(batch.queries)
    want = batch.expected(q[:real], keys, values, scale=SCALE, **options)
    torch.testing.assert_close(out[:real].double(), want, atol=2e-2, rtol=2e-2)
    assert bool((out[real:] == 7).all()), "padding is left alone"


@pytest.mark.parametrize("order", paged.ORDERS)
@pytest.mark.parametrize("page", [16, 48])
def test_a_mixed_batch_over_a_cache_in_any_order_of_memory(order, page):
    impl, build, _ = made()
    batch = Batch(**MIXED, page=page, pad_requests=2, pad_tokens=5)
    kv = cache(order, batch.blocks, KV_HEADS, page, DIM)
    before = kv.clone()
    metadata = build(batch)
    q, out, k, v = step(impl, metadata, batch, kv)
    ensure_right(batch, q, out, kv)
    rows = kv.transpose(1, 2).reshape(-1, KV_HEADS, 2 * DIM)
    real = batch.slots[batch.slots >= 0]
    assert torch.equal(rows[real], torch.cat([k, v], -1)[: len(real)]), "new rows are where their slots say"
    untouched = torch.ones(len(rows), dtype=torch.bool)
    untouched[real] = False
    assert torch.equal(rows[untouched], before.transpose(1, 2).reshape(-1, KV_HEADS, 2 * DIM)[untouched])


@pytest.mark.parametrize(
    "options, oracle",
    [
        (dict(sliding_window=7), dict(window=7)),
        (dict(sliding_window=1), dict(window=1)),
        (dict(logits_soft_cap=3.0), dict(softcap=3.0)),
        (dict(logits_soft_cap=0.0), {}),
        (dict(sinks=torch.linspace(-2, 3, HEADS).bfloat16()), dict(sinks=torch.linspace(-2, 3, HEADS).bfloat16())),
        (
            dict(sliding_window=20, logits_soft_cap=5.0, sinks=torch.zeros(HEADS)),
            dict(window=20, softcap=5.0, sinks=torch.zeros(HEADS)),
        ),
    ],
    ids=str,
)
def test_windows_soft_caps_and_sinks(options, oracle):
    impl, build, _ = made(**options)
    batch = Batch(**MIXED, page=PAGE, pad_tokens=3)
    kv = cache("LBHNC", batch.blocks, KV_HEADS, PAGE, DIM)
    q, out, _, _ = step(impl, build(batch), batch, kv)
    ensure_right(batch, q, out, kv, **oracle)


@pytest.mark.parametrize("name", ["fp8", "fp8_e4m3"])
@pytest.mark.parametrize("scales", [(0.5, 2.0), (1.0, 1.0)], ids=str)
def test_a_cache_of_8_bits(name, scales):
    impl, build, _ = made(kv_cache_dtype=name)
    layer = SimpleNamespace(_k_scale=torch.tensor(scales[0]), _v_scale=torch.tensor(scales[1]))
    batch = Batch(**MIXED, page=PAGE, pad_tokens=3)
    # vLLM keeps such a cache as bytes.
    kv = cache("LBNHC", batch.blocks, KV_HEADS, PAGE, DIM).to(torch.float8_e4m3fn).view(torch.uint8)
    metadata = build(batch)
    q, k, v = (random((batch.tokens, heads, DIM), seed=5 + n) for n, heads in enumerate((HEADS, KV_HEADS, KV_HEADS)))
    impl.do_kv_cache_update(layer, k, v, kv, metadata.slot_mapping)
    out = torch.full((batch.tokens, HEADS, DIM), 7.0, dtype=q.dtype)
    impl.forward(layer, q, k, v, kv, metadata, out)
    numbers = kv.view(torch.float8_e4m3fn).float()
    numbers[..., :DIM] *= scales[0]
    numbers[..., DIM:] *= scales[1]
    ensure_right(batch, q, out, numbers)
    rows = numbers.transpose(1, 2).reshape(-1, KV_HEADS, 2 * DIM)
    new = torch.cat([k, v], -1)[: sum(batch.queries)].float()
    torch.testing.assert_close(rows[batch.slots[batch.slots >= 0]], new, atol=2e-2, rtol=7e-2)


def test_decodes_and_an_output_of_two_dimensions():
    impl, build, _ = made()
    batch = Batch([1, 1, 1], [1, 16, 33], PAGE)
    kv = cache("BLNHC", batch.blocks, KV_HEADS, PAGE, DIM)
    q, out, k, v = step(impl, build(batch), batch, kv)
    ensure_right(batch, q, out, kv)
    flat = torch.zeros(batch.tokens, HEADS * DIM, dtype=q.dtype)
    impl.forward(None, q, k, v, kv, build(batch), flat)
    assert torch.equal(flat.view_as(out), out)


def test_sinks_are_those_that_are_loaded_last():
    sinks = torch.nn.Parameter(torch.zeros(HEADS).bfloat16(), requires_grad=False)
    impl, build, _ = made(sinks=sinks)
    batch = Batch(**MIXED, page=PAGE)
    kv = cache("LBHNC", batch.blocks, KV_HEADS, PAGE, DIM)
    sinks.data.fill_(4)
    impl.process_weights_after_loading(torch.bfloat16)
    q, out, _, _ = step(impl, build(batch), batch, kv)
    ensure_right(batch, q, out, kv, sinks=torch.full((HEADS,), 4.0))


def test_metadata_are_vllms_own_buffers():
    from vllm.v1.attention.backend import AttentionCGSupport, CommonAttentionMetadata

    impl, build, builder = made()
    batch = Batch(**MIXED, page=PAGE)
    metadata = build(batch)
    mine = metadata.batch
    assert (mine.offsets, mine.lengths, mine.table) == (batch.offsets, batch.lengths, batch.table)
    assert mine.longest == 32, "rounded up from 21"
    assert builder._cudagraph_support is AttentionCGSupport.ALWAYS
    # Other lengths, in the same buffers: what a replayed graph sees.
    kv = cache("LBHNC", batch.blocks, KV_HEADS, PAGE, DIM)
    batch.lengths -= 5
    batch.keys = [n - 5 for n in batch.keys]
    batch.queries, short = [1, 1, 16, 3], torch.tensor([0, 1, 2, 18, 21], dtype=torch.int32)
    batch.offsets.copy_(short)
    q, out, _, _ = step(impl, metadata, batch, kv, new_rows=False)
    out[21:] = 7
    ensure_right(batch, q, out, kv)
    other = torch.zeros_like(batch.table)
    assert builder.update_block_table(metadata, other, batch.slots).batch.table is other
    captured = builder.build_for_cudagraph_capture(batch.common(CommonAttentionMetadata))
    assert bool((batch.lengths == 1).all()) and captured.batch.lengths is batch.lengths
    builder.update_draft_decode_metadata(metadata)


def test_what_is_refused_when_metadata_are_built():
    _, build, _ = made()
    batch = Batch(**MIXED, page=PAGE)
    with pytest.raises(NotImplementedError, match="`causal` differs between the requests"):
        build(batch, causal=torch.ones(4, dtype=torch.bool))
    with pytest.raises(ValueError, match="page table are torch.int32 with strides .*: contiguous int32 is needed"):
        build(batch, block_table_tensor=batch.table[:, :2])
    with pytest.raises(ValueError, match="lengths are torch.int64"):
        build(batch, seq_lens=batch.lengths.long())


def test_what_is_refused_when_layers_are_made_or_run():
    with pytest.raises(NotImplementedError, match="alibi_slopes is not supported"):
        made(alibi_slopes=[1.0])
    with pytest.raises(NotImplementedError, match="attn_type is not supported, and it is 'encoder_only'"):
        made(attn_type="encoder_only")
    impl, build, _ = made()
    batch = Batch(**MIXED, page=PAGE)
    x = torch.zeros(batch.tokens, HEADS, DIM)
    with pytest.raises(NotImplementedError, match="a quantised output is not supported"):
        impl.forward(None, x, x, x, None, build(batch), x, output_scale=x)
    assert not bool(impl.forward(None, x, x, x, None, None, torch.ones_like(x)).any()), "the profiling run is zeros"


def reasons(**changed):
    given = dict(
        head_size=128, dtype=torch.bfloat16, kv_cache_dtype="auto", block_size=16, use_mla=False, has_sink=True,
        use_sparse=False, use_mm_prefix=False, use_per_head_quant_scales=False, device_capability=(9, 0),
        attn_type="decoder", has_sliding_window=True, use_batch_invariant=True,
    )  # fmt: skip
    return sixwarp.vllm.SixwarpBackend.validate_configuration(**{**given, **changed})


def test_configurations_are_refused_with_a_reason():
    for given in ({}, dict(kv_cache_dtype="bfloat16"), dict(head_size=256, device_capability=(10, 3)), dict(block_size=None)):
        assert reasons(**given) == []
    wide = dict(head_size=512, device_capability=(10, 0))
    assert reasons(head_size=512) == [] and reasons(**wide, use_batch_invariant=False) == []
    assert "not batch-invariant" in reasons(**wide)[-1]
    assert "no kernels for compute capability 7.5" in reasons(device_capability=(7, 5))[0]
    older = dict(device_capability=(8, 9))
    assert reasons(**older, use_batch_invariant=False) == [] and "needs Hopper or Blackwell" in reasons(**older)[-1]
    for name in ("fp8", "fp8_e4m3"):
        assert reasons(kv_cache_dtype=name, use_batch_invariant=False) == []
        assert "kernels that read fp8 caches are not batch-invariant" in reasons(kv_cache_dtype=name)[-1]
    assert reasons(kv_cache_dtype="fp8_e5m2")[0] == "KV cache not supported"
    assert "the KV cache is float16 and queries are torch.bfloat16" in reasons(kv_cache_dtype="float16")[-1]
    assert "dim 520 is not supported" in reasons(head_size=520)[0]
    assert reasons(dtype=torch.float32) == ["dtype not supported"]


def test_every_gpu_since_ampere_has_kernels():
    from sixwarp._serving import generation

    found = [generation(x) for x in ((7, 5), (8, 0), (8, 7), (8, 6), (8, 9), (9, 0), (10, 0), (10, 3), (11, 0), (12, 1), (13, 0))]
    assert found == [None, *"sm_80 sm_80 sm_86 sm_89 sm_90a sm_100a sm_103a sm_80 sm_120 sm_89".split()]
    given = torch.zeros(1, 2, 1, 64).bfloat16()
    assert {sixwarp.supports(given, given, given, device=name) for name in found if name} == {None}


def test_batch_invariance_never_cuts_a_sequence(monkeypatch):
    from vllm import envs

    assert made()[0].layer.split is None
    monkeypatch.setattr(envs, "VLLM_BATCH_INVARIANT", True)
    impl, build, _ = made()
    assert impl.layer.split == 1 << 30
    batch = Batch(**MIXED, page=PAGE)
    kv = cache("LBHNC", batch.blocks, KV_HEADS, PAGE, DIM)
    q, out, _, _ = step(impl, build(batch), batch, kv)
    ensure_right(batch, q, out, kv)


def test_registering_twice_is_registering_once():
    from vllm.v1.attention.backends.registry import AttentionBackendEnum

    for _ in range(2):
        sixwarp.vllm.register()
    registered = AttentionBackendEnum.__members__["SIXWARP"]
    assert registered.path == "sixwarp.vllm.SixwarpBackend"
    assert sixwarp.vllm.SixwarpBackend.get_name() == registered.name == sixwarp.vllm.NAME
    assert not sixwarp.vllm.SixwarpBackend.forward_includes_kv_cache_update


def test_an_engine_of_another_version_starts_without_the_plug_in(monkeypatch, caplog):
    monkeypatch.setitem(sys.modules, "vllm.v1.attention.backends.registry", SimpleNamespace())
    sixwarp.vllm.register()
    assert "made for vllm 0.32 and does not fit vllm" in caplog.text and "ImportError" in caplog.text


ALONE = """
import sys
class Refuse:
    def find_spec(self, name, path, target=None):
        assert name.split(".")[0] not in ("vllm", "sglang"), f"{name} is imported"
sys.meta_path.insert(0, Refuse())
import sixwarp, sixwarp.vllm, sixwarp.sglang, sixwarp.vllm._after_import
"""


def test_importing_the_plug_ins_imports_no_engine():
    subprocess.run([sys.executable, "-c", ALONE], check=True)


# DeepSeek-V4.

WINDOW_PAGE, TOKENS = 64, 9
DECODES = 4


class Layer:
    """Attributes of a DeepSeek-V4 layer, and its caches."""

    def __init__(self, kind, ratio, heads, block=256):
        self.layer = SimpleNamespace() if kind is object else object.__new__(kind)
        page = block // max(ratio, 1)
        self.window = random((5 * WINDOW_PAGE, 512), seed=1)
        self.compressed = random((6 * page, 512), seed=2)
        self.sinks = torch.linspace(-1, 2, heads)
        made = dict(
            compress_ratio=ratio, prefix="own", scale=512**-0.5, attn_sink=self.sinks,
            kv_cache=engine_view(self.compressed, page), compressed_cache_prefix="own" if ratio else None,
            swa_cache_layer=SimpleNamespace(prefix="window", kv_cache=engine_view(self.window, WINDOW_PAGE)),
        )  # fmt: skip
        self.layer.__dict__.update(made, _compressed_kv_cache=lambda: made["kv_cache"])


def engine_view(rows, page):
    """Packed pages `[pages, rows, 584]` whose distance is a multiple of 576 bytes, as vLLM has them."""
    return dsv4.pack_rows(rows, page)[:, : page * 584].unflatten(1, (page, 584))


def lists(count, width, rows, seed):
    """Lists of rows with -1 behind their ends, and their lengths; the third token is padding."""
    generator = torch.Generator().manual_seed(seed)
    found = torch.randint(rows, (count, width), generator=generator, dtype=torch.int32)
    lengths = torch.randint(1, width + 1, (count,), generator=generator, dtype=torch.int32)
    return found.masked_fill(torch.arange(width) >= lengths[:, None], -1), lengths


def unpacked(rows, page):
    return dsv4.unpack_rows(dsv4.pack_rows(rows, page), len(rows), page)


# The model, its ratios, and the tokens of a block.
SPARSE = [("deepseek_v4", ratio, 256) for ratio in (1, 4, 128)] + [("deepseek_v41", ratio, 64) for ratio in (0, 1, 2)]


@pytest.mark.parametrize("heads", [5, 16])
@pytest.mark.parametrize("model, ratio, block", SPARSE)
def test_deepseek_v4_layers(model, ratio, block, heads):
    from sixwarp.vllm import _dsv4
    from vllm import forward_context
    from vllm.v1.attention.backends.mla.sparse_swa import DeepseekSparseSWAMetadata

    of_model = lambda name: importlib.import_module(f"vllm.models.{model}.{name}")
    kind, base = _dsv4.layer_class(f"vllm.models.{model}"), of_model("nvidia.flashmla").DeepseekV4FlashMLAAttention
    assert issubclass(kind, base) and kind.get_padded_num_q_heads(heads) == heads
    held = Layer(kind, ratio, heads, block)
    alone = ratio == 0 or (ratio == 1 and model == "deepseek_v4")
    window, window_lengths = lists(TOKENS, 128, len(held.window), 3)
    valid = torch.ones(TOKENS, dtype=torch.bool)
    valid[2], window_lengths[2], window[2] = False, 0, -1
    page = block // max(ratio, 1)
    table = torch.tensor([[0, 3], [5, 1], [2, 4]], dtype=torch.int32)
    requests = torch.tensor([0, 1, 1, 0, 2, 2, 2, 2, 2], dtype=torch.int32)
    local, local_lengths = lists(TOKENS, 24, 2 * page, 4)
    if ratio == 128:
        local[:, 2:] = -1
        local_lengths = (local >= 0).sum(1)
    pages = table[requests.long()].gather(1, local.clamp(min=0).long() // page)
    places = torch.where(local >= 0, pages * page + local % page, -1).int()
    step = DeepseekSparseSWAMetadata(
        table, None, WINDOW_PAGE, is_valid_token=valid, token_to_req_indices=requests,
        decode_swa_indices=window[:DECODES, None], decode_swa_lens=window_lengths[:DECODES],
        prefill_swa_indices=window[DECODES:, None], prefill_swa_lens=window_lengths[DECODES:],
        num_decode_tokens=DECODES, num_prefill_tokens=TOKENS - DECODES,
    )  # fmt: skip
    own = of_model("sparse_mla").DeepseekV4FlashMLAMetadata(table, block)
    own.c128a_global_decode_topk_indices = places[:DECODES, None]
    own.c128a_decode_topk_lens, own.c128a_prefill_topk_indices = (local_lengths * valid)[:DECODES].int(), local[DECODES:]
    # Layers of all rows have no indexer.
    held.layer.topk_indices_buffer = local if ratio != 128 else torch.full_like(local, -1)
    forward_context.current = SimpleNamespace(attn_metadata={"window": step, "own": own})
    q = random((TOKENS + 2, heads, 512), seed=7)
    out = torch.full_like(q, 7)
    held.layer.forward_mqa(q, None, None, out)
    rows, compressed = unpacked(held.window, WINDOW_PAGE), unpacked(held.compressed, page)
    for token in range(TOKENS):
        keys = rows[window[token, : window_lengths[token]].long()]
        if not alone and valid[token]:
            keys = torch.cat([keys, compressed[places[token][places[token] >= 0].long()]])
        if not len(keys):
            assert not bool(out[token].any())
            continue
        want = paged.attention(q[token][None], keys[:, None], keys[:, None], 512**-0.5, sinks=held.sinks)
        torch.testing.assert_close(out[token].double(), want[0], atol=2e-2, rtol=2e-2)
    assert bool((out[TOKENS:] == 7).all()), "tokens behind the step are left alone"
    forward_context.current = SimpleNamespace(attn_metadata=None)
    held.layer.forward_mqa(q, None, None, out)
    assert not bool(out.any()), "the profiling run is zeros"


def test_deepseek_v4_layers_are_chosen_by_name_alone():
    sys.modules.pop("vllm.models.deepseek_v4.nvidia.model", None)
    sixwarp.vllm.register()
    assert "vllm.models.deepseek_v4.nvidia.model" not in sys.modules, "no model is imported before it is used"
    from vllm.models.deepseek_v4.nvidia import model
    from vllm.models.deepseek_v41.nvidia import model as newer

    assert newer.DeepseekV4FlashMLAAttention is not model.DeepseekV4FlashMLAAttention

    chosen = lambda module, name: module._select_dsv4_attn_cls(
        SimpleNamespace(attention_config=SimpleNamespace(backend=name and SimpleNamespace(name=name)))
    )
    sixwarp.vllm.register()
    for module in (model, newer):
        mine, theirs = chosen(module, "SIXWARP"), module.DeepseekV4FlashMLAAttention
        assert issubclass(mine, theirs) and mine.get_padded_num_q_heads(16) == 16
        for other in (None, "FLASHMLA_SPARSE_DSV4"):
            assert chosen(module, other) is theirs


def test_lists_that_would_be_copied_in_every_step_are_refused():
    from sixwarp.vllm._packed import Rows, attend

    held = Layer(object, 1, 3)
    q, found = random((4, 1, 3, 512)), torch.zeros(4, 1, 16)
    rows = lambda lists, lengths: (Rows(held.layer_view, lists, lengths),)
    held.layer_view, ones = engine_view(held.window, WINDOW_PAGE), torch.ones(4, dtype=torch.int32)
    for lists, lengths, name in ((found.long(), ones, "indices"), (found.int(), ones.long(), "topk_length")):
        with pytest.raises(ValueError, match=f"{name} would have to be copied in every step"):
            attend(q, rows(lists, lengths), held.sinks, 0.1, torch.empty_like(q))
    # Every slot is its own, also where two caches are one.
    both = rows(found.int(), ones) + rows(found.int() + 1, ones)
    out = torch.empty_like(q)
    for _ in range(2):
        attend(q, both, torch.nn.Parameter(held.sinks, requires_grad=False), 0.1, out)
    keys = unpacked(held.window, WINDOW_PAGE)[:2, None]
    want = paged.attention(q[1], keys, keys, 0.1, sinks=held.sinks, causal=False)
    torch.testing.assert_close(out[1].double(), want, atol=2e-2, rtol=2e-2)


def test_an_unknown_compression_is_refused():
    from sixwarp.vllm import _dsv4

    for model, ratio, known in ((_dsv4.V4, 2, r"\(0, 1, 4, 128\)"), (_dsv4.V41, 4, r"\(0, 1, 2\)")):
        held = Layer(_dsv4.layer_class(model), 4, 2)
        held.layer.compress_ratio = ratio
        for lists_of in (held.layer.decode_lists, held.layer.prefill_lists):
            with pytest.raises(ValueError, match=f"compress_ratio is {ratio}: one of {known} is needed"):
                lists_of(None, None, slice(0, 1))

"""The plug-in for SGLang, with recorded interfaces in SGLang's place: the backend is driven as SGLang drives it."""

import inspect
import sys
from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch")

import sixwarp
from sixwarp import dsv4
from serving import paged
from serving.paged import random

HEADS, KV_HEADS, DIM, SCALE, SLOTS = 4, 2, 32, 0.2, 480
# Tests on a GPU use what is here, too.
DEVICE = "cpu"


@pytest.fixture(autouse=True, scope="module")
def engine():
    undo = paged.without_engines()
    yield
    undo()


class Speculation(str):
    """SGLang's algorithm of speculative decoding, or none."""

    def __new__(cls, name):
        return super().__new__(cls, name or "")

    def is_none(self):
        return not self


class Pool:
    """Keys and values by slot."""

    def __init__(self, seed):
        self.keys, self.values = (random((SLOTS, KV_HEADS, DIM), seed=seed + n, device=DEVICE) for n in range(2))

    def get_key_buffer(self, layer_id):
        return self.keys

    def get_value_buffer(self, layer_id):
        return self.values

    def set_kv_buffer(self, layer, loc_info, cache_k, cache_v, k_scale=None, v_scale=None):
        assert k_scale is None and v_scale is None, "rows of the model's own type have no scales"
        self.keys[loc_info.loc], self.values[loc_info.loc] = cache_k, cache_v


class Pool8:
    """The same in 8 bits, as SGLang keeps them: what is written is divided by scales, in place, and rounded."""

    def __init__(self, seed):
        rows = (random((SLOTS, KV_HEADS, DIM), seed=seed + n, device=DEVICE) for n in range(2))
        self.keys, self.values = (x.to(torch.float8_e4m3fn) for x in rows)

    def get_key_buffer(self, layer_id):
        return self.keys

    def get_value_buffer(self, layer_id):
        return self.values

    def set_kv_buffer(self, layer, loc_info, cache_k, cache_v, k_scale=None, v_scale=None):
        for buffer, rows, scale in ((self.keys, cache_k, k_scale), (self.values, cache_v, v_scale)):
            rows = rows if scale is None else rows.div_(scale)
            buffer.view(torch.uint8)[loc_info.loc] = rows.to(torch.float8_e4m3fn).view(torch.uint8)


def hybrid():
    """A pool in which layer 0 has a window and slots of its own, in another order."""
    from sglang.srt.mem_cache.swa_memory_pool import SWAKVPool

    class Hybrid(SWAKVPool):
        swa_layer_nums, layers_mapping = 1, {0: (0, True), 1: (0, False)}

        def __init__(self):
            self.pools = Pool(1), Pool(2)
            pages = torch.randperm(SLOTS // 16, generator=torch.Generator().manual_seed(4))
            self.mapping = (pages[:, None] * 16 + torch.arange(16)).flatten().to(DEVICE)

        def pool(self, layer_id):
            return self.pools[self.layers_mapping[layer_id][1]]

        def get_key_buffer(self, layer_id):
            return self.pool(layer_id).keys

        def get_value_buffer(self, layer_id):
            return self.pool(layer_id).values

        def translate_loc_from_full_to_swa(self, kv_indices):
            return self.mapping[kv_indices.long()]

        def set_kv_buffer(self, layer, loc_info, cache_k, cache_v):
            where = loc_info.swa_loc if self.layers_mapping[layer.layer_id][1] else loc_info.loc
            pool = self.pool(layer.layer_id)
            pool.keys[where], pool.values[where] = cache_k, cache_v

    return Hybrid()


def runner(pool, page, **changed):
    """A model runner with three requests whose pages are scattered over the pool."""
    pages = torch.randperm(SLOTS // 16, generator=torch.Generator().manual_seed(9))[: 5 * 6].view(5, 6)
    slots = (pages[..., None] * 16 + torch.arange(16)).flatten(1).int().to(DEVICE)
    given = dict(
        token_to_kv_pool=pool, page_size=page, req_to_token_pool=SimpleNamespace(req_to_token=slots), use_mla_backend=False,
        spec_algorithm=Speculation(None), kv_cache_dtype=torch.bfloat16, dtype=torch.bfloat16,
        model_config=SimpleNamespace(is_encoder_decoder=False, head_dim=DIM), device=DEVICE,
    )  # fmt: skip
    return SimpleNamespace(**{**given, **changed})


def layer(**changed):
    given = dict(
        tp_q_head_num=HEADS, tp_k_head_num=KV_HEADS, qk_head_dim=DIM, v_head_dim=DIM, scaling=SCALE, layer_id=0,
        logit_cap=0.0, sliding_window_size=-1, is_cross_attention=False, attn_type=SimpleNamespace(value="decoder"),
        k_scale=None, v_scale=None,
    )  # fmt: skip
    return SimpleNamespace(**{**given, **changed})


def forward_batch(made, requests, keys, queries=None, pad=0):
    """A step: decodes, or `queries` new tokens of each request."""
    from sglang.srt.model_executor.forward_batch_info import ForwardBatch

    table = made.req_to_token_pool.req_to_token
    new = queries or [1] * len(keys)
    slots = [table[r, n - q : n] for r, n, q in zip(requests, keys, new)]
    slots += [table.new_zeros(1)] * pad
    lengths = torch.tensor(keys + [1] * pad)
    mode, indices = SimpleNamespace(is_decode_or_idle=lambda: queries is None), torch.tensor(requests + [0] * pad)
    return ForwardBatch(
        mode, len(keys) + pad, indices.to(DEVICE), lengths.to(DEVICE), torch.cat(slots).long(), seq_lens_cpu=lengths,
        extend_seq_lens=torch.tensor(new, device=DEVICE), extend_seq_lens_cpu=new,
    )  # fmt: skip


def run(backend, fb, queries, which, **named):
    """Attention of random tokens; decodes and extensions go their own way."""
    tokens = len(fb.out_cache_loc)
    q, k, v = (random((tokens, heads * DIM), seed=20 + n, device=DEVICE) for n, heads in enumerate((HEADS, KV_HEADS, KV_HEADS)))
    rows = [x.view(tokens, KV_HEADS, DIM) for x in (k, v)]
    forward = backend.forward_extend if queries else backend.forward_decode
    return q.view(tokens, HEADS, DIM), forward(q, *rows, which, fb, **named)


def ensure_right(made, pool, requests, keys, queries, q, out, which, translated=None, **oracle):
    at, table = 0, made.req_to_token_pool.req_to_token
    for r, n, count in zip(requests, keys, queries or [1] * len(keys)):
        slots = table[r, :n].long()
        slots = slots if translated is None else translated[slots]
        k, v = pool.get_key_buffer(which.layer_id)[slots], pool.get_value_buffer(which.layer_id)[slots]
        want = paged.attention(q[at : at + count], k, v, SCALE, **oracle)
        torch.testing.assert_close(out[at : at + count].double(), want.flatten(1), atol=2e-2, rtol=2e-2)
        at += count


REQUESTS, KEYS = [3, 0, 1], [40, 17, 90]
OPTIONS = [
    ({}, {}, {}),
    (dict(sliding_window_size=6), {}, dict(window=7)),
    (dict(logit_cap=3.0), {}, dict(softcap=3.0)),
    ({}, dict(sinks=torch.linspace(-1, 2, HEADS).bfloat16()), dict(sinks=torch.linspace(-1, 2, HEADS).bfloat16())),
]


@pytest.mark.parametrize("options, named, oracle", OPTIONS, ids=str)
@pytest.mark.parametrize("page", [1, 16])
@pytest.mark.parametrize("queries", [None, [5, 17, 1]], ids=["decode", "extend"])
def test_steps_that_run_eagerly(queries, page, options, named, oracle):
    pool = Pool(1)
    made = runner(pool, page)
    backend, which = sixwarp.sglang.create(made), layer(**options)
    fb = forward_batch(made, REQUESTS, KEYS, queries)
    backend.init_forward_metadata(fb)
    q, out = run(backend, fb, queries, which, **named)
    ensure_right(made, pool, REQUESTS, KEYS, queries, q, out, which, **oracle)


@pytest.mark.parametrize("scales", [(None, None), (0.5, 2.0)], ids=str)
@pytest.mark.parametrize("queries", [None, [5, 17, 1]], ids=["decode", "extend"])
def test_a_cache_of_8_bits(queries, scales):
    pool = Pool8(1)
    made = runner(pool, 16, kv_cache_dtype=torch.float8_e4m3fn)
    k_scale, v_scale = (None if x is None else torch.tensor(x, device=DEVICE) for x in scales)
    backend, which = sixwarp.sglang.create(made), layer(k_scale=k_scale, v_scale=v_scale)
    fb = forward_batch(made, REQUESTS, KEYS, queries)
    backend.init_forward_metadata(fb)
    q, out = run(backend, fb, queries, which)
    wide = SimpleNamespace(
        get_key_buffer=lambda n: pool.keys.float() * (scales[0] or 1), get_value_buffer=lambda n: pool.values.float() * (scales[1] or 1)
    )
    ensure_right(made, wide, REQUESTS, KEYS, queries, q, out, which)


@pytest.mark.parametrize("queries", [None, [5, 17, 1]], ids=["decode", "extend"])
def test_windows_with_a_pool_of_their_own(queries):
    pool = hybrid()
    made = runner(pool, 16)
    backend = sixwarp.sglang.create(made)
    fb = forward_batch(made, REQUESTS, KEYS, queries)
    backend.init_forward_metadata(fb)
    for which, translated, oracle in (
        (layer(sliding_window_size=9), pool.mapping, dict(window=10)),
        (layer(layer_id=1), None, {}),
    ):
        q, out = run(backend, fb, queries, which)
        ensure_right(made, pool, REQUESTS, KEYS, queries, q, out, which, translated, **oracle)


@pytest.mark.parametrize("kind", [lambda: Pool(1), hybrid], ids=["one pool", "two pools"])
def test_graphs_read_buffers_that_are_filled_before_a_replay(kind):
    pool = kind()
    made = runner(pool, 16)
    backend = sixwarp.sglang.create(made)
    backend.init_cuda_graph_state(8, 8)
    fill = backend.get_cuda_graph_seq_len_fill_value()
    backend.init_forward_metadata_out_graph(forward_batch(made, [0] * 5, [fill] * 5), in_capture=True)
    captured = backend.forward_metadata
    # A smaller batch, padded to five requests; the graph still reads what it was captured with.
    fb = forward_batch(made, REQUESTS, KEYS, pad=2)
    backend.init_forward_metadata_out_graph(fb)
    for mine, new in zip(captured.full, backend.forward_metadata.full):
        same = mine.data_ptr() == new.data_ptr() and mine.shape == new.shape if torch.is_tensor(mine) else mine == new
        assert same, "what graphs read does not move"
    backend.forward_metadata = captured
    for which, own in ((layer(sliding_window_size=9), True), (layer(layer_id=1), False)):
        translated = getattr(pool, "mapping", None) if own else None
        q, out = run(backend, fb, None, which)
        ensure_right(made, pool, REQUESTS, KEYS, None, q, out, which, translated, **(dict(window=10) if own else {}))
    with pytest.raises(NotImplementedError, match="are not captured"):
        backend.init_forward_metadata_out_graph(forward_batch(made, REQUESTS, KEYS, [5, 17, 1]), in_capture=True)


def test_what_is_refused():
    refused = [
        (dict(use_mla_backend=True), "models with MLA are not supported"),
        (dict(spec_algorithm=Speculation("EAGLE")), r"speculative decoding \(EAGLE\)"),
        (dict(kv_cache_dtype=torch.float8_e5m2), "the KV cache is torch.float8_e5m2 and the model torch.bfloat16"),
        (dict(model_config=SimpleNamespace(is_encoder_decoder=True)), "encoder-decoder models"),
    ]
    for changed, words in refused:
        with pytest.raises(NotImplementedError, match=words):
            sixwarp.sglang.create(runner(Pool(1), 16, **changed))
    made = runner(Pool(1), 16)
    backend, fb = sixwarp.sglang.create(made), forward_batch(made, REQUESTS, KEYS)
    backend.init_forward_metadata(fb)
    for which, named, words in (
        (layer(is_cross_attention=True), {}, "cross-attention"),
        (layer(attn_type=SimpleNamespace(value="encoder_only")), {}, "attention of type encoder_only"),
        (layer(), dict(k_rope=torch.zeros(1)), "attention with k_rope"),
    ):
        with pytest.raises(NotImplementedError, match=words):
            run(backend, fb, None, which, **named)
    run(backend, fb, None, layer(), return_lse=False, k_rope=None)


def test_registering(monkeypatch):
    from sglang.srt.arg_groups.choices import ATTENTION_BACKEND_CHOICES
    from sglang.srt.layers.attention.attention_registry import ATTENTION_BACKENDS
    from sglang.srt.plugins.hook_registry import HookRegistry, HookType

    monkeypatch.delenv(sixwarp.sglang.DSV4_VARIABLE, raising=False)
    for _ in range(2):
        sixwarp.sglang.register()
    assert ATTENTION_BACKEND_CHOICES.count("sixwarp") == 1 and ATTENTION_BACKENDS["sixwarp"] is sixwarp.sglang.create
    assert not HookRegistry._hooks, "DeepSeek-V4 is left alone unless it is asked for"
    monkeypatch.setenv(sixwarp.sglang.DSV4_VARIABLE, "1")
    for _ in range(2):
        sixwarp.sglang.register()
    found = {target.rpartition(".")[2]: hooks for target, hooks in HookRegistry._hooks.items()}
    assert {name: len(hooks) for name, hooks in found.items()} == {"flash_mla_with_kvcache": 1, "flash_mla_sparse_fwd": 1}
    assert all(hooks[0][0] is HookType.AROUND for hooks in found.values())


def test_an_engine_of_another_version_starts_without_the_plug_in(monkeypatch, caplog):
    monkeypatch.setitem(sys.modules, "sglang.srt.arg_groups.choices", SimpleNamespace())
    sixwarp.sglang.register()
    assert "made for sglang 0.5.23 and does not fit sglang" in caplog.text and "ImportError" in caplog.text


def test_deepseek_v4_is_taken_and_other_models_are_not():
    from sglang.kernels.ops.attention import flash_mla_interface as theirs
    from sixwarp.sglang import _dsv4

    for name in ("flash_mla_with_kvcache", "flash_mla_sparse_fwd"):
        own = list(inspect.signature(getattr(_dsv4, name)).parameters.values())[1:]
        wanted = inspect.signature(getattr(theirs, name)).parameters.values()
        assert [(x.name, x.kind, x.default) for x in own] == [(x.name, x.kind, x.default) for x in wanted], name
    rows = random((128, 512), seed=1)
    pages = dsv4.pack_rows(rows)[:, : 64 * 584].unflatten(1, (64, 1, 584))
    rows = dsv4.unpack_rows(dsv4.pack_rows(rows), 128)
    q, sinks = random((3, 1, 64, 512), seed=2), torch.linspace(-1, 1, 64)
    indices = torch.randint(128, (3, 1, 64), dtype=torch.int32)
    lengths, extra = torch.tensor([64, 5, 1], dtype=torch.int32), torch.full((3, 1, 64), -1, dtype=torch.int32)
    out, lse = _dsv4.flash_mla_with_kvcache(
        theirs.flash_mla_with_kvcache, q=q, k_cache=pages, block_table=None, cache_seqlens=None, head_dim_v=512,
        tile_scheduler_metadata=None, softmax_scale=512**-0.5, is_fp8_kvcache=True, indices=indices, attn_sink=sinks,
        topk_length=lengths, extra_k_cache=pages, extra_indices_in_kvcache=extra, extra_topk_length=torch.ones_like(lengths),
    )  # fmt: skip
    for n in range(3):
        keys = rows[indices[n, 0, : lengths[n]].long()][:, None]
        want = paged.attention(q[n], keys, keys, 512**-0.5, sinks=sinks, causal=False)
        torch.testing.assert_close(out[n].double(), want, atol=2e-2, rtol=2e-2)
    v32 = torch.zeros(2, 64, 1, 656, dtype=torch.uint8)
    assert _dsv4.flash_mla_with_kvcache(theirs.flash_mla_with_kvcache, q, v32, None, None, 512, None, indices=indices) == "theirs"
    assert _dsv4.flash_mla_with_kvcache(theirs.flash_mla_with_kvcache, q, pages, indices, lengths, 512, None) == "theirs"
    kv = random((50, 1, 512), seed=3)
    lists = torch.randint(50, (3, 1, 64), dtype=torch.int32)
    out, most, lse = _dsv4.flash_mla_sparse_fwd(theirs.flash_mla_sparse_fwd, q[:, 0], kv, lists, 0.05, 512, sinks, lengths)
    keys = kv[lists[1, 0, :5].long()]
    want = paged.attention(q[1], keys, keys, 0.05, sinks=sinks, causal=False)[0]
    torch.testing.assert_close(out[1].double(), want, atol=2e-2, rtol=2e-2)
    assert most is None and lse.shape == (3, 64)
    wide = torch.zeros(3, 64, 576).bfloat16()
    assert _dsv4.flash_mla_sparse_fwd(theirs.flash_mla_sparse_fwd, wide, wide[:, :1], lists, 0.05) == "theirs"

"""The plug-ins' classes on a GPU, driven with metadata made by hand: mixed and padded batches, eagerly and in graphs.

    PYTHONPATH=PACKAGE python -m pytest -q python/tests/test_serving_gpu.py

No engine is needed: recorded interfaces stand in for vLLM and SGLang.
"""

from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("there is no GPU", allow_module_level=True)

import sixwarp
from sixwarp import dsv4
from serving import paged
from serving.paged import Batch, attention, cache, random

GPU = dict(device="cuda")
HEADS, KV_HEADS, PAGE, REQUESTS, TOKENS = 16, 4, 16, 12, 320
# Batches that one graph replays: queries and keys of each request.
STEPS = [
    ([1] * 9, [1, 700, 33, 512, 16, 17, 1024, 90, 3]),
    ([1, 1, 1, 130, 77], [800, 33, 9, 130, 300]),
    ([300], [1000]),
    ([4] * 8, [4, 5, 64, 128, 400, 1024, 900, 77]),
    ([1] * 12, [1024] * 12),
]


@pytest.fixture(autouse=True, scope="module")
def engine():
    undo = paged.without_engines()
    with torch.inference_mode():
        yield
    undo()


class Buffers:
    """vLLM's persistent buffers, and a layer that reads them."""

    def __init__(self, dim, order, page=PAGE, dtype=torch.bfloat16, kind="auto", **options):
        from vllm.v1.attention.backend import CommonAttentionMetadata

        self.dim, self.page, self.dtype, self.width = dim, page, dtype, -(-1024 // page)
        self.blocks = REQUESTS * self.width + 2
        self.kv = cache(order, self.blocks, KV_HEADS, page, dim, dtype=dtype, **GPU)
        self.fp8, scales = kind == "fp8", (None, None)
        if self.fp8:
            # vLLM keeps such a cache as bytes.
            self.kv = self.kv.to(torch.float8_e4m3fn).view(torch.uint8)
            scales = tuple(torch.tensor(x, **GPU) for x in (0.5, 2.0))
        integers = lambda *shape: torch.zeros(shape, dtype=torch.int32, **GPU)
        self.offsets, self.lengths = integers(REQUESTS + 1), integers(REQUESTS)
        self.table, self.slots = integers(REQUESTS, self.width), torch.full((TOKENS,), -1, **GPU)
        self.q, self.k, self.v = (
            random((TOKENS, heads, dim), dtype, seed=n, **GPU) for n, heads in enumerate((HEADS, KV_HEADS, KV_HEADS))
        )
        self.out = torch.empty_like(self.q)
        backend = sixwarp.vllm.SixwarpBackend
        asked = (dim, dtype, kind, page, False, True, False, False, torch.cuda.get_device_capability())
        assert backend.supports_combination(*asked) is None
        window = options.pop("sliding_window", None)
        self.impl = backend.get_impl_cls()(HEADS, dim, dim**-0.5, KV_HEADS, None, window, kind, **options)
        self.impl.process_weights_after_loading(dtype)
        self.builder = backend.get_builder_cls()(None, ["layer"], None, torch.device("cuda"))
        self.common = CommonAttentionMetadata(
            self.offsets, None, self.lengths, REQUESTS, TOKENS, TOKENS, 1024, self.table, self.slots
        )
        self.layer = SimpleNamespace(_k_scale=scales[0], _v_scale=scales[1])

    def fill(self, queries, keys):
        """Puts a step into the buffers, padded; nothing is allocated that a graph would read."""
        batch = Batch(queries, keys, self.page, REQUESTS - len(keys), TOKENS - sum(queries), self.width)
        for mine, new in ((self.offsets, batch.offsets), (self.lengths, batch.lengths), (self.slots, batch.slots)):
            mine.copy_(new)
        self.table.copy_(batch.table)
        batch.table = self.table
        return batch

    def step(self, metadata):
        self.impl.do_kv_cache_update(self.layer, self.k, self.v, self.kv, metadata.slot_mapping)
        self.impl.forward(self.layer, self.q, self.k, self.v, self.kv, metadata, self.out)

    def ensure_right(self, batch, **oracle):
        numbers = self.kv.view(torch.float8_e4m3fn).float() if self.fp8 else self.kv
        keys, values = numbers.transpose(1, 2).split(self.dim, -1)
        if self.fp8:
            keys, values = keys * self.layer._k_scale, values * self.layer._v_scale
        want = batch.expected(self.q, keys, values, scale=self.dim**-0.5, **oracle)
        real = len(want)
        torch.testing.assert_close(self.out[:real].double(), want, atol=2e-2, rtol=2e-2)
        assert bool((self.out[real:] == 7).all()), "padding is left alone"


SINKS = torch.linspace(-2, 3, HEADS)
CASES = [
    (128, "LBHNC", 16, {}, {}),
    (128, "BLNHC", 64, {}, {}),
    (64, "LHBNC", 16, dict(sliding_window=128, sinks=SINKS), dict(window=128, sinks=SINKS)),
    (256, "BHLNC", 32, dict(sliding_window=200, logits_soft_cap=50.0), dict(window=200, softcap=50.0)),
    (96, "LBNHC", 48, {}, {}),
    (512, "BLHNC", 16, {}, {}),
]


@pytest.mark.parametrize("dim, order, page, options, oracle", CASES, ids=lambda x: str(x)[:24])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("kind", ["auto", "fp8"])
def test_a_graph_replays_with_other_lengths_and_tables(dim, order, page, options, oracle, dtype, kind):
    options, oracle = ({k: v.cuda() if torch.is_tensor(v) else v for k, v in x.items()} for x in (options, oracle))
    held = Buffers(dim, order, page, dtype, kind, **options)
    held.fill(*STEPS[0])
    metadata = held.builder.build_for_cudagraph_capture(held.common)
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        held.step(metadata)
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        held.step(metadata)
    for queries, keys in STEPS:
        batch = held.fill(queries, keys)
        held.out.fill_(7)
        graph.replay()
        held.ensure_right(batch, **oracle)
        # The same eagerly, from metadata that know the step's longest query.
        held.out.fill_(7)
        held.common.max_query_len = max(queries)
        held.step(held.builder.build(0, held.common))
        held.ensure_right(batch, **oracle)
        held.common.max_query_len = TOKENS


def test_a_sequences_bits_do_not_depend_on_the_batch(monkeypatch):
    from vllm import envs

    monkeypatch.setattr(envs, "VLLM_BATCH_INVARIANT", True)
    held = Buffers(128, "LBHNC")
    outputs = []
    for queries, keys in (([1, 1, 1], [800, 33, 500]), ([1] * 6, [800, 9, 1000, 64, 64, 3]), ([1, 200], [800, 300])):
        held.fill(queries, keys)
        # The first request has the same keys in each: its pages are the first ones.
        held.table[0] = torch.arange(held.width, device="cuda")
        held.common.max_query_len = max(queries)
        metadata = held.builder.build(0, held.common)
        held.impl.forward(held.layer, held.q, held.k, held.v, held.kv, metadata, held.out)
        outputs.append(held.out[0].clone())
    assert torch.equal(outputs[0], outputs[1]) and torch.equal(outputs[0], outputs[2])


@pytest.mark.parametrize("ratio, heads", [(1, 16), (4, 16), (4, 64), (128, 8)])
def test_a_deepseek_v4_layer_in_a_graph(ratio, heads):
    from sixwarp.vllm import _dsv4
    from vllm import forward_context
    from vllm.models.deepseek_v4.sparse_mla import DeepseekV4FlashMLAMetadata
    from vllm.v1.attention.backends.mla.sparse_swa import DeepseekSparseSWAMetadata

    page, tokens, decodes, width = 256 // max(ratio, 1), 9, 6, 128
    window, compressed = (random((6 * 64, 512), seed=1), random((8 * page, 512), seed=2))
    gpu_pages = lambda rows, page: dsv4.pack_rows(rows, page).cuda()[:, : page * 584].unflatten(1, (page, 584))
    layer = object.__new__(_dsv4.layer_class(_dsv4.V4))
    sinks = torch.linspace(-1, 2, heads, **GPU)
    layer.__dict__.update(
        compress_ratio=ratio, prefix="own", scale=512**-0.5, attn_sink=sinks, kv_cache=gpu_pages(compressed, page),
        swa_cache_layer=SimpleNamespace(prefix="window", kv_cache=gpu_pages(window, 64)),
        topk_indices_buffer=torch.zeros(tokens, width, dtype=torch.int32, **GPU),
    )  # fmt: skip
    integers = lambda *shape: torch.zeros(shape, dtype=torch.int32, **GPU)
    lists, lengths, places, counts = integers(tokens, 1, width), integers(tokens), integers(decodes, 1, width), integers(decodes)
    local, valid = layer.topk_indices_buffer, torch.ones(tokens, dtype=torch.bool, **GPU)
    table = torch.arange(8, dtype=torch.int32, **GPU).view(2, 4)
    requests = torch.tensor([0, 1, 0, 1, 0, 1, 1, 1, 1], dtype=torch.int32, **GPU)
    step = DeepseekSparseSWAMetadata(
        table, None, 64, valid, requests, lists[:decodes], lengths[:decodes], lists[decodes:], lengths[decodes:], decodes,
        tokens - decodes,
    )  # fmt: skip
    own = DeepseekV4FlashMLAMetadata(table, 256, places, counts, local[decodes:])
    forward_context.current = SimpleNamespace(attn_metadata={"window": step, "own": own})
    q = random((tokens, heads, 512), seed=5, **GPU)
    out = torch.empty_like(q)
    run = lambda: layer.forward_mqa(q, None, None, out)
    rows = [dsv4.unpack_rows(dsv4.pack_rows(x, p), len(x), p).cuda() for x, p in ((window, 64), (compressed, page))]

    def fill(seed):
        some = torch.Generator().manual_seed(seed)
        ends = torch.randint(1, width + 1, (tokens,), generator=some)
        behind = torch.arange(width) >= ends[:, None]
        lists.copy_(torch.randint(len(window), (tokens, width), generator=some).masked_fill(behind, -1)[:, None])
        few = torch.randint(1, min(4 * page, width) + 1, (tokens,), generator=some)
        chosen = torch.randint(4 * page, (tokens, width), generator=some).masked_fill(torch.arange(width) >= few[:, None], -1)
        local.copy_(chosen)
        lengths.copy_(ends)
        pages = table[requests.long()].gather(1, local.clamp(min=0).long() // page)
        found = torch.where(local >= 0, pages * page + local % page, -1)
        places.copy_(found[:decodes, None])
        counts.copy_(few[:decodes])
        # The third token is padding.
        valid[2], lengths[2], counts[2] = False, 0, 0
        return found

    fill(0)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        run()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        run()
    for seed in range(3):
        found = fill(seed)
        out.fill_(7)
        graph.replay()
        for token in range(tokens):
            keys = rows[0][lists[token, 0, : lengths[token]].long()]
            if ratio > 1 and valid[token]:
                keys = torch.cat([keys, rows[1][found[token][found[token] >= 0].long()]])
            if not len(keys):
                assert not bool(out[token].any())
                continue
            want = attention(q[token][None], keys[:, None], keys[:, None], 512**-0.5, sinks=sinks)[0]
            torch.testing.assert_close(out[token].double(), want, atol=2e-2, rtol=2e-2)


@pytest.mark.parametrize("page, kind", [(1, "one"), (16, "one"), (16, "two")], ids=str)
def test_sglangs_decodes_in_a_graph(page, kind, monkeypatch):
    import test_sglang as host

    monkeypatch.setattr(host, "DEVICE", "cuda")
    monkeypatch.setattr(host, "DIM", 64)
    pool = host.Pool(1) if kind == "one" else host.hybrid()
    made = host.runner(pool, page)
    backend = sixwarp.sglang.create(made)
    backend.init_cuda_graph_state(8, 8)
    layers = [(host.layer(sliding_window_size=9), True), (host.layer(layer_id=1), False)]
    fb = host.forward_batch(made, [0] * 5, [1] * 5)
    q, k, v = (random((5, heads * 64), seed=n, **GPU) for n, heads in enumerate((host.HEADS, host.KV_HEADS, host.KV_HEADS)))
    rows = [x.view(5, host.KV_HEADS, 64) for x in (k, v)]
    run = lambda: [backend.forward_decode(q, *rows, which, fb) for which, _ in layers]
    backend.init_forward_metadata_out_graph(fb, in_capture=True)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        run()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        outs = run()
    for requests, keys in (([3, 0, 1], [40, 17, 90]), ([2, 4, 1, 0, 3], [1, 96, 33, 64, 16])):
        new = host.forward_batch(made, requests, keys, pad=5 - len(keys))
        # SGLang copies these into the buffers that the graph reads.
        fb.out_cache_loc.copy_(new.out_cache_loc)
        backend.init_forward_metadata_out_graph(new)
        graph.replay()
        for out, (which, own) in zip(outs, layers):
            translated = getattr(pool, "mapping", None) if own else None
            oracle = dict(window=10) if own else {}
            host.ensure_right(made, pool, requests, keys, None, q.view(5, host.HEADS, 64), out, which, translated, **oracle)

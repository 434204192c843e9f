"""What a layer costs the host in the plug-in for vLLM, and what its decode costs a GPU.

    PYTHONPATH=python/src python benches/plugins.py            # on a GPU if there is one, else on the CPU

`forward` is the backend's whole call of one layer, eagerly, as vLLM makes it between piecewise graphs. The step is a
decode of one short request, so that the host's part is all there is. `new shape` is the first call with a number of
tokens that was not there before: it plans. On a GPU, `decode` is the time of 64 requests of 4096 keys in a graph.
"""

import pathlib
import statistics
import sys
import time

import torch

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "python/tests/serving"), str(ROOT / "benches")]

import paged

paged.without_engines()

import sixwarp.vllm

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
HEADS, KV_HEADS, DIM, PAGE = 32, 8, 128, 16


def layer(batch):
    """A layer of a Llama-like model and a step's call of it."""
    from vllm.v1.attention.backend import CommonAttentionMetadata

    backend = sixwarp.vllm.SixwarpBackend
    impl = backend.get_impl_cls()(HEADS, DIM, DIM**-0.5, KV_HEADS, None, None, "auto")
    builder = backend.get_builder_cls()(None, ["layer"], None, torch.device(DEVICE))
    metadata = builder.build(0, batch.common(CommonAttentionMetadata))
    kv = paged.cache("LBNHC", batch.blocks, KV_HEADS, PAGE, DIM, layers=1, layer=0, device=DEVICE)
    q = paged.random((batch.tokens, HEADS, DIM), device=DEVICE)
    out = torch.empty_like(q)
    return lambda: impl.forward(None, q, None, None, kv, metadata, out)


def without_offsets(batch):
    """The same decode, said to be one token of each request."""
    kv = paged.cache("LBNHC", batch.blocks, KV_HEADS, PAGE, DIM, layers=1, layer=0, device=DEVICE).transpose(1, 2)
    q = paged.random((batch.tokens, 1, HEADS, DIM), device=DEVICE)
    lengths = dict(seqused_k=batch.lengths, page_table=batch.table, causal=True)
    return lambda: sixwarp.attention(q, kv[..., :DIM], kv[..., DIM:], **lengths)


def microseconds(call, repeats):
    """The median of single calls."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        times.append(1e6 * (time.perf_counter() - start))
    return statistics.median(times)


def main():
    torch.set_num_threads(1)
    one = layer(paged.Batch([1], [1], PAGE, device=DEVICE))
    one()
    print(f"forward    {microseconds(one, 2000):8.1f} us")
    new = [layer(paged.Batch([n], [n], PAGE, device=DEVICE)) for n in range(33, 43)]
    first = [microseconds(call, 1) for call in new]
    again = [microseconds(call, 1) for call in new]
    print(f"new shape  {statistics.median(first):8.1f} us, then {statistics.median(again):.1f} us")
    if DEVICE == "cuda":
        from h200 import Replayed

        batch = paged.Batch([1] * 64, [4096] * 64, PAGE, device=DEVICE)
        decode, other = Replayed(layer(batch)), Replayed(without_offsets(batch))
        for _ in range(7):
            decode.replay()
            other.replay()
        plain = statistics.median(other.times)
        print(f"decode     {statistics.median(decode.times):8.1f} us, as `sixwarp.attention` without offsets {plain:.1f} us")


if __name__ == "__main__":
    with torch.inference_mode():
        main()

"""sixwarp beside FlashAttention 3 and FlashMLA on one GPU, in one process.

    pip install fa3-fwd sgl-flash-mla          # or builds of one's own: flash_attn_interface, flash_mla
    PYTHONPATH=python/src python benches/peers.py --json peers.json
    python benches/peers.py --only decode --rounds 5

Three suites: `dense` (16,384 tokens, hidden 2,048, beside FlashAttention 3 and torch's cuDNN), `decode` (DeepSeek-V4,
rows by lists, fp8 and bf16, beside FlashMLA's fp8 kernel) and `prefill` (4,096 tokens by lists of bf16 rows, and
from fp8 pages, beside FlashMLA's kernel for bf16 rows). A suite whose peer is not installed says so. Calls are captured
in CUDA graphs and replayed in turn; times are medians of one call. Results are compared.
"""

import argparse
import datetime
import functools
import importlib
import inspect
import json
import math
import sys

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

import sixwarp
from dsv4 import LAYERS, WINDOW_PAGE, pack, segment
from h200 import DEVICE, Replayed, interleaved
from sixwarp import dsv4

SCALE = dsv4.DIM**-0.5
CLOSE = dict(atol=2e-2, rtol=2e-2)


def installed(*names):
    """The first of these modules that is installed, or None."""
    for name in names:
        try:
            return importlib.import_module(name)
        except ImportError:
            continue
    return None


FA3 = installed("flash_attn_interface", "fa3_fwd_interface")
MLA = installed("flash_mla")


def hopper(function):
    """A function of FlashMLA; SGLang's wheel has the kernels for Hopper behind a keyword."""
    legacy = "use_legacy" in inspect.signature(function).parameters
    return functools.partial(function, use_legacy=True) if legacy else function


def times(calls, rounds):
    """Microseconds of each call, by name, after their first results were compared with the first one's."""
    results = {name: call() for name, call in calls.items()}
    first = next(iter(results.values())).flatten()
    for result in results.values():
        torch.testing.assert_close(result.flatten(), first, **CLOSE)
    sides = {name: Replayed(call) for name, call in calls.items()}
    interleaved(list(sides.values()), rounds)
    return {name: side.median() for name, side in sides.items()}


def out_of(result):
    return result[0] if isinstance(result, tuple) else result


def dense_rows():
    for dim in (64, 128, 256):
        for causal in (False, True):
            for length in (1024, 4096, 16384):
                yield f"d{dim} {'causal' if causal else 'full'} {length}", (dim, causal, length)


def dense(row, rounds):
    dim, causal, length = row
    shape = (16384 // length, length, 2048 // dim, dim)
    q, k, v = (torch.randn(shape, device=DEVICE, dtype=torch.bfloat16) for _ in range(3))
    turned = [x.transpose(1, 2) for x in (q, k, v)]

    def cudnn():
        with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
            out = torch.nn.functional.scaled_dot_product_attention(*turned, is_causal=causal)
        return out.transpose(1, 2)

    calls = {
        "ours": lambda: sixwarp.attention(q, k, v, causal=causal),
        "peer": lambda: out_of(FA3.flash_attn_func(q, k, v, causal=causal)),
        "cudnn": cudnn,
    }
    return times(calls, rounds)


def decode_rows():
    for name, heads, compressed, page, batches in LAYERS:
        for batch in batches if heads in (64, 128) else ():
            yield f"{name} h{heads} b{batch}", (heads, compressed, page, batch)


def cache(pages, page_rows):
    """MODEL1 pages as FlashMLA sees them."""
    bytes_of_row = dsv4.ROW_BYTES + dsv4.SCALE_BYTES
    shape, strides = (len(pages), page_rows, 1, bytes_of_row), (pages.stride(0), bytes_of_row, bytes_of_row, 1)
    return torch.as_strided(pages, shape, strides)


def decode(row, rounds):
    heads, compressed, page, batch = row
    q = torch.randn(batch, heads, dsv4.DIM, device=DEVICE, dtype=torch.bfloat16)
    sinks = torch.randn(heads, device=DEVICE)
    window = segment(batch, 2 * dsv4.WINDOW, dsv4.WINDOW, WINDOW_PAGE)
    second = segment(batch, max(4096, compressed), compressed, page) if compressed else None

    def ours(form):
        more = {}
        if second:
            more = dict(compressed=second[form], compressed_lists=second[2], compressed_page_rows=page)
        return out_of(dsv4.decode(q, window[form], window[2], sinks, page_rows=WINDOW_PAGE, scale=SCALE, **more))

    more = {}
    if second:
        more = dict(extra_k_cache=cache(second[0], page), extra_indices_in_kvcache=second[2][:, None])
    metadata = MLA.get_mla_metadata()[0]
    theirs = functools.partial(
        hopper(MLA.flash_mla_with_kvcache), q[:, None], cache(window[0], WINDOW_PAGE), None, None, dsv4.DIM, metadata,
        softmax_scale=SCALE, is_fp8_kvcache=True, indices=window[2][:, None], attn_sink=sinks, **more,
    )  # fmt: skip
    return times({"ours": lambda: ours(0), "peer": lambda: out_of(theirs()), "bf16": lambda: ours(1)}, rounds)


def prefill_rows():
    for name, heads, compressed in (("swa", 64, 0), ("csa-flash", 64, 512), ("csa-pro", 128, 1024)):
        yield f"{name} h{heads} 4096 tokens", (heads, compressed)


def prefill(row, rounds, tokens=4096, before=1024, compressed_rows=16384):
    heads, listed = row
    random = lambda rows: torch.randn(rows, dsv4.DIM, device=DEVICE, dtype=torch.bfloat16) / 10
    pages, window = pack(random(before + tokens), WINDOW_PAGE)
    compressed_pages, compressed = pack(random(compressed_rows), WINDOW_PAGE)
    window, compressed = (rows.view(-1, dsv4.DIM) for rows in (window, compressed))
    q = torch.randn(tokens, heads, dsv4.DIM, device=DEVICE, dtype=torch.bfloat16)
    sinks = torch.randn(heads, device=DEVICE)
    first = before - dsv4.WINDOW + 1
    lists = torch.arange(tokens, device=DEVICE)[:, None] + torch.arange(dsv4.WINDOW, device=DEVICE) + first
    more, more_pages = {}, {}
    if listed:
        some = torch.stack([torch.randperm(compressed_rows, device=DEVICE)[:listed] for _ in range(64)])
        own = some.repeat(tokens // 64, 1).to(torch.int32)
        lists = torch.cat([lists, own + len(window)], 1)
        more = dict(compressed=compressed, compressed_lists=own)
        more_pages = dict(compressed=compressed_pages, compressed_lists=own, compressed_page_rows=WINDOW_PAGE)
    rows = torch.cat([window, compressed])[:, None].contiguous()
    lists = lists.to(torch.int32)[:, None].contiguous()
    ends, position = (torch.tensor(x, dtype=torch.int32, device=DEVICE) for x in ([0, tokens], [before]))
    table = torch.arange(len(pages), dtype=torch.int32, device=DEVICE)[None]
    paged = dict(page_rows=WINDOW_PAGE, scale=SCALE, **more_pages)
    calls = {
        "ours": lambda: out_of(dsv4.prefill(q, window[first:], sinks, scale=SCALE, **more)),
        "peer": lambda: out_of(hopper(MLA.flash_mla_sparse_fwd)(q, rows, lists, sm_scale=SCALE, attn_sink=sinks)),
        "fp8 pages": lambda: out_of(dsv4.prefill_pages(q, ends, position, pages, table, sinks, **paged)),
    }
    return times(calls, rounds)


SUITES = {
    "dense": (FA3, "FlashAttention 3", dense_rows, dense),
    "decode": (MLA, "FlashMLA", decode_rows, decode),
    "prefill": (MLA, "FlashMLA", prefill_rows, prefill),
}


def run_suite(name, rounds):
    """The suite's rows as they are measured."""
    peer, title, rows, measure = SUITES[name]
    if peer is None:
        print(f"{name}: {title} is not installed")
        return
    for row, shape in rows():
        torch.manual_seed(1)
        with torch.inference_mode():
            figures = measure(shape, rounds)
        torch.cuda.empty_cache()
        ratio = figures["peer"] / figures["ours"]
        others = "  ".join(f"{side} {us:8.1f}" for side, us in figures.items())
        print(f"{name:8s} {row:24s} {others}  {title} / ours {ratio:.2f}", flush=True)
        yield dict(suite=name, row=row, ratio=ratio, **figures)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="suites whose names begin so")
    parser.add_argument("--rounds", type=int, default=7, help="replays of each side")
    parser.add_argument("--json", help="writes the figures to this file")
    options = parser.parse_args()
    figures = [row for name in SUITES if name.startswith(options.only) for row in run_suite(name, options.rounds)]
    for name in SUITES:
        ratios = [row["ratio"] for row in figures if row["suite"] == name]
        if ratios:
            mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
            print(f"{name}: {len(ratios)} rows, geometric mean {mean:.3f}, least {min(ratios):.3f}")
    if options.json:
        date = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC")
        about = dict(date=date, gpu=torch.cuda.get_device_name(), torch=torch.__version__, sixwarp=sixwarp.__version__)
        with open(options.json, "w") as file:
            json.dump(dict(**about, rows=figures), file, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())

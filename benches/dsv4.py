"""DeepSeek-V4 decode with lists of rows: fp8 (MODEL1) rows beside bf16 rows, on one GPU, in one run.

    PYTHONPATH=python/src python benches/dsv4.py --json dsv4-lists.json
    python benches/dsv4.py --only csa-pro --rounds 5
    python benches/dsv4.py --prefill            # 4,096 new tokens: bf16 rows, and fp8 pages read in place
    python benches/dsv4.py --bits 10000         # same input, same bits, for every gathered kernel (dsv4_bits.py)

One query per sequence, head dim 512, K = V, sinks. Every sequence has rows of its own, in pages, and a random list
of them. Both sides compute the same thing: the bf16 rows are the unpacked fp8 rows. Calls are captured in CUDA
graphs and replayed in turn; times are medians of one call.
"""

import argparse
import json
import sys

import torch

from h200 import DEVICE, Replayed, interleaved
from sixwarp import dsv4

# Name, heads, compressed rows of a query, rows of a compressed page, batches.
LAYERS = [
    ("swa", 64, 0, 64, (1, 8, 32, 128, 512)),
    ("csa-flash", 64, 512, 64, (1, 8, 32, 128, 512)),
    ("csa-flash", 16, 512, 64, (128, 512)),
    ("csa-pro", 128, 1024, 64, (1, 8, 32, 128, 512)),
    ("hca-1m", 64, 8192, 2, (1, 8, 32)),
]
WINDOW_PAGE = 64
FP8, PANEL, LARGEST = 448, 64, 448.0


def pack(rows, page_rows):
    """bf16 rows as MODEL1 pages on the GPU, and what those pages hold, in bf16."""
    count = rows.shape[0]
    numbers = rows[:, :FP8].float().view(count, -1, PANEL)
    exponents = torch.ceil(torch.log2(numbers.abs().amax(-1).clamp(min=1e-4) / LARGEST))
    scales = torch.exp2(exponents)[..., None]
    packed = (numbers / scales).to(torch.float8_e4m3fn)
    data = torch.cat([packed.view(torch.uint8).view(count, FP8), rows[:, FP8:].contiguous().view(torch.uint8)], 1)
    footer = torch.zeros(count, dsv4.SCALE_BYTES, dtype=torch.uint8, device=DEVICE)
    footer[:, : exponents.shape[1]] = (exponents + 127).to(torch.uint8)
    pages = torch.zeros(count // page_rows, dsv4.page_bytes(page_rows), dtype=torch.uint8, device=DEVICE)
    end = page_rows * dsv4.ROW_BYTES
    pages[:, :end] = data.view(-1, end)
    pages[:, end : end + page_rows * dsv4.SCALE_BYTES] = footer.view(len(pages), -1)
    held = torch.cat([(packed.float() * scales).view(count, FP8).to(rows.dtype), rows[:, FP8:]], 1)
    return pages, held.view(-1, page_rows, dsv4.DIM)


def segment(batch, rows_each, listed, page_rows):
    """Pages in both formats, and lists of `listed` of each sequence's rows."""
    rows = torch.randn(batch * rows_each, dsv4.DIM, device=DEVICE, dtype=torch.bfloat16)
    own = torch.stack([torch.randperm(rows_each, device=DEVICE)[:listed] for _ in range(batch)])
    first = torch.arange(batch, device=DEVICE)[:, None] * rows_each
    return *pack(rows, page_rows), (first + own).to(torch.int32).contiguous()


def measure(heads, compressed, page_rows, batch, rounds):
    """Microseconds of a call with fp8 rows and with bf16 rows."""
    torch.manual_seed(batch)
    q = torch.randn(batch, heads, dsv4.DIM, device=DEVICE, dtype=torch.bfloat16)
    sinks = torch.randn(heads, device=DEVICE)
    window = segment(batch, 2 * dsv4.WINDOW, dsv4.WINDOW, WINDOW_PAGE)
    second = segment(batch, max(4096, compressed), compressed, page_rows) if compressed else None

    def call(form):
        more = {}
        if second:
            more = dict(compressed=second[form], compressed_lists=second[2], compressed_page_rows=page_rows)
        return lambda: dsv4.decode(q, window[form], window[2], sinks, page_rows=WINDOW_PAGE, **more)

    calls = [call(0), call(1)]
    (fp8, _), (bf16, _) = (call() for call in calls)
    torch.testing.assert_close(fp8, bf16, atol=2e-2, rtol=2e-2)
    sides = [Replayed(call) for call in calls]
    interleaved(sides, rounds)
    return [side.median() for side in sides]


# Name, heads, compressed rows of a query.
PREFILLS = [("csa-flash", 64, 512), ("csa-pro", 128, 1024), ("swa", 64, 0)]
TOKENS, PAST, COMPRESSED = 4096, 4096, 16384


def prefill_calls(heads, top_k):
    """The same layer three times: bf16 rows, fp8 pages, and FlashMLA on bf16 rows where it is installed."""
    torch.manual_seed(heads)
    q = torch.randn(TOKENS, heads, dsv4.DIM, device=DEVICE, dtype=torch.bfloat16)
    sinks, scale = torch.randn(heads, device=DEVICE), dsv4.DIM**-0.5
    random = lambda n: torch.randn(n, dsv4.DIM, device=DEVICE, dtype=torch.bfloat16) / 4
    pages, held = pack(random(PAST + TOKENS), WINDOW_PAGE)
    near = held.view(-1, dsv4.DIM)[PAST - dsv4.WINDOW + 1 :]
    more, fp8 = {}, {}
    if top_k:
        far_pages, far = pack(random(COMPRESSED), WINDOW_PAGE)
        far = far.view(-1, dsv4.DIM)
        some = torch.stack([torch.randperm(COMPRESSED, device=DEVICE, dtype=torch.int32)[:top_k] for _ in range(64)])
        lists = some.repeat(TOKENS // 64, 1).contiguous()
        more = dict(compressed=far, compressed_lists=lists)
        fp8 = dict(compressed=far_pages, compressed_lists=lists)
    ends = torch.tensor([0, TOKENS], device=DEVICE, dtype=torch.int32)
    position = torch.tensor([PAST], device=DEVICE, dtype=torch.int32)
    table = torch.arange(len(pages), device=DEVICE, dtype=torch.int32)[None]
    calls = [
        lambda: dsv4.prefill(q, near, sinks, scale=scale, **more)[0],
        lambda: dsv4.prefill_pages(q, ends, position, pages, table, sinks, page_rows=WINDOW_PAGE, scale=scale, **fp8)[0],
    ]
    try:
        from flash_mla import flash_mla_sparse_fwd
    except ImportError:
        return calls
    window = torch.arange(TOKENS, device=DEVICE, dtype=torch.int32)[:, None]
    window = window + torch.arange(dsv4.WINDOW, device=DEVICE, dtype=torch.int32)
    kv = torch.cat([near, *([far] if top_k else [])]).view(-1, 1, dsv4.DIM)
    indices = torch.cat([window, *([lists + len(near)] if top_k else [])], 1).view(TOKENS, 1, -1).contiguous()
    return [*calls, lambda: flash_mla_sparse_fwd(q, kv, indices, sm_scale=scale, attn_sink=sinks)[0]]


def prefill(only, rounds):
    """Microseconds of each way to prefill."""
    print(f"{'layer':24s} {'bf16 us':>8s} {'fp8 us':>8s} {'FlashMLA us':>12s} TFLOP/s of each")
    for name, heads, top_k in PREFILLS:
        if not name.startswith(only):
            continue
        with torch.inference_mode():
            calls = prefill_calls(heads, top_k)
            first, *others = (call() for call in calls)
            for other in others:
                torch.testing.assert_close(other, first, atol=2e-2, rtol=2e-2)
            sides = [Replayed(call) for call in calls]
            interleaved(sides, rounds)
        times = [side.median() for side in sides]
        flops = 4.0 * TOKENS * heads * (dsv4.WINDOW + top_k) * dsv4.DIM
        rates = " ".join(f"{flops / time / 1e6:.0f}" for time in times)
        print(f"{f'{name} h{heads}':24s} " + " ".join(f"{time:8.1f}" for time in times) + f"   {rates}", flush=True)
        torch.cuda.empty_cache()
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="layers whose names begin so")
    parser.add_argument("--rounds", type=int, default=7, help="replays of each side")
    parser.add_argument("--json", help="writes the figures to this file")
    parser.add_argument("--bits", type=int, metavar="RUNS", help="compares bits of so many runs instead")
    parser.add_argument("--prefill", action="store_true", help="measures prefill instead")
    options = parser.parse_args()
    if options.prefill:
        return prefill(options.only, options.rounds)
    if options.bits:
        from dsv4_bits import run

        return run(options.bits, options.only)
    figures = []
    print(f"{'layer':24s} {'fp8 us':>8s} {'bf16 us':>8s}")
    for name, heads, compressed, page_rows, batches in LAYERS:
        for batch in batches if name.startswith(options.only) else ():
            with torch.inference_mode():
                fp8, bf16 = measure(heads, compressed, page_rows, batch, options.rounds)
            figures.append(dict(layer=name, heads=heads, batch=batch, fp8=fp8, bf16=bf16))
            print(f"{f'{name} h{heads} b{batch}':24s} {fp8:8.1f} {bf16:8.1f}", flush=True)
            torch.cuda.empty_cache()
    if options.json:
        with open(options.json, "w") as file:
            json.dump({"gpu": torch.cuda.get_device_name(), "torch": torch.__version__, "rows": figures}, file, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())

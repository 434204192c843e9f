"""What features cost on one GPU: pages, soft caps, windows and packed sequences beside the plain call.

    python benches/features.py --json features.json
    python benches/features.py --only 'decode 32/8'

All variants of a shape are captured in CUDA graphs and replayed in turn, in one process; times are medians
of one call, ratios are to the plain call of the same shape.
"""

import argparse
import datetime
import json

import torch

import sixwarp
from h200 import DEVICE, Replayed, interleaved

TENSORS = ("cu_seqlens_q", "cu_seqlens_k", "seqused_k", "page_table")


def normal(*shape):
    return torch.randn(shape, device=DEVICE, dtype=torch.bfloat16)


def paged(rows, page_rows):
    """`rows` [batch, tokens, heads, dim] in pages that lie in random order, and their table."""
    batch, tokens, heads, dim = rows.shape
    pages = tokens // page_rows
    order = torch.randperm(batch * pages, generator=torch.Generator().manual_seed(0)).to(DEVICE)
    pool = torch.empty(batch * pages, page_rows, heads, dim, device=DEVICE, dtype=rows.dtype)
    pool[order] = rows.reshape(pool.shape)
    return pool, order.reshape(batch, pages).int()


def pages(name, batch, heads, kv_heads, queries, keys, dim, sizes, shared=False, causal=False):
    """A shape with its keys in one piece and in pages."""
    q, k = normal(batch, queries, heads, dim), normal(batch, keys, kv_heads, dim)
    v = k if shared else normal(batch, keys, kv_heads, dim)
    used = torch.full((batch,), keys, device=DEVICE, dtype=torch.int32)
    variants = {"in one piece": (q, k, v, {"causal": causal})}
    for size in sizes:
        (pool, table), options = paged(k, size), {"causal": causal, "seqused_k": used}
        values = pool if shared else paged(v, size)[0]
        variants[f"pages of {size}"] = (q, pool, values, {**options, "page_table": table})
    return name, variants


def masks(dim):
    """4,096 tokens with soft caps and windows."""
    q, k, v = (normal(4, 4096, 2048 // dim, dim) for _ in range(3))
    options = {
        "plain": {},
        "softcap 30": {"softcap": 30.0},
        "softcap 2: scores beyond it": {"softcap": 2.0},
        "causal": {"causal": True},
        "causal, softcap 30": {"causal": True, "softcap": 30.0},
        "window of 1,024": {"window": (1023, 0)},
        "window of 128": {"window": (127, 0)},
    }
    return f"prefill d{dim} 4096", {key: (q, k, v, value) for key, value in options.items()}


def packed():
    """16 sequences of 1,024 tokens, batched and packed."""
    q, k, v = (normal(16, 1024, 16, 128) for _ in range(3))
    offsets = torch.arange(0, 17 * 1024, 1024, device=DEVICE, dtype=torch.int32)
    flat = [x.view(-1, 16, 128) for x in (q, k, v)]
    lengths = {"cu_seqlens_q": offsets, "cu_seqlens_k": offsets}
    lengths |= {"max_seqlen_q": 1024, "max_seqlen_k": 1024, "causal": True}
    return "prefill d128 causal 16 x 1024", {"batched": (q, k, v, {"causal": True}), "packed": (*flat, lengths)}


SHAPES = (
    lambda: pages("decode 32/8 d128 b64 4096", 64, 32, 8, 1, 4096, 128, (1, 8, 16, 64)),
    lambda: pages("decode 64/8 d64 b64 4096", 64, 64, 8, 1, 4096, 64, (1, 16, 64)),
    lambda: pages("decode 16/2 d256 b32 4096", 32, 16, 2, 1, 4096, 256, (1, 16, 64)),
    lambda: pages("decode 64/1 d512 K=V b64 4096", 64, 64, 1, 1, 4096, 512, (1, 16, 64), shared=True),
    lambda: pages("decode 128/1 d512 K=V b64 4096", 64, 128, 1, 1, 4096, 512, (1, 16, 64), shared=True),
    lambda: pages("prefill 32/8 d128 2048 on 4096", 4, 32, 8, 2048, 4096, 128, (1, 16, 64), causal=True),
    *(lambda dim=dim: masks(dim) for dim in (64, 128, 256, 512)),
    packed,
)


def replayed(q, k, v, options):
    plan = sixwarp.plan(q, k, v, **options)
    out = torch.empty(*q.shape[:-1], v.shape[-1], device=DEVICE, dtype=q.dtype)
    workspace = torch.empty(max(plan.workspace_bytes, 1), device=DEVICE, dtype=torch.uint8)
    tensors = {key: options[key] for key in TENSORS if key in options}
    return Replayed(lambda: plan(q, k, v, out=out, workspace=workspace, **tensors))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", help="write the rows to a file")
    parser.add_argument("--only", default="", help="shapes whose names contain this")
    parser.add_argument("--rounds", type=int, default=9)
    args = parser.parse_args()
    rows = []
    for shape in SHAPES:
        torch.manual_seed(1)
        name, variants = shape()
        if args.only not in name:
            continue
        sides = {variant: replayed(*call) for variant, call in variants.items()}
        interleaved(list(sides.values()), args.rounds)
        plain = next(iter(sides.values())).median()
        for variant, side in sides.items():
            rows.append({"shape": name, "variant": variant, "us": side.median(), "ratio": side.median() / plain})
            print(f"{name:32} {variant:28} {side.median():9.1f} us  x{side.median() / plain:.2f}", flush=True)
    if args.json:
        date = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC")
        report = {"date": date, "gpu": torch.cuda.get_device_name(), "torch": torch.__version__, "rows": rows}
        with open(args.json, "w", encoding="utf-8") as file:
            json.dump(report, file, indent=1)


if __name__ == "__main__":
    main()

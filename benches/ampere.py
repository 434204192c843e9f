"""The mma.sync kernels on a GPU beside torch's FlashAttention-2 backend, in one run.

    PYTHONPATH=python/src python benches/ampere.py --json ampere.json
    PYTHONPATH=python/src python benches/ampere.py --arch sm86 --only d128 --rounds 5
    PYTHONPATH=python/src python benches/ampere.py --dtype float32 --json f32.json

`--arch` says whose kernels are taken: sm80, or sm86, sm89 (and on such GPUs sm120) with their budgets of shared
memory. Both sides are captured in CUDA graphs and replayed in turn; times are medians of one call. The first head of
the first sequence is compared with an f64 computation. A difference above the limit is reported and fails the run.

FlashAttention-2 takes no f32: with `--dtype float32` torch's memory-efficient backend is on the other side.
"""

import argparse
import datetime
import json
import os
import sys
import warnings

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

DEVICE = "cuda"
# Of outputs of standard normal values: two roundings to bf16, or some to f32.
LIMITS = {torch.bfloat16: 2e-2, torch.float32: 1e-5}


def rows(row):
    for dim in (64, 128, 256, 512):
        for causal in (False, True):
            for length in (512, 1024, 2048, 4096, 8192, 16384):
                heads, mask = 2048 // dim, "causal" if causal else "full"
                name = f"d{dim} {mask} {length}"
                yield row("dense", name, 16384 // length, heads, heads, length, length, dim, causal)
    for heads, kv_heads, dim, batch, keys in ((32, 8, 128, 64, 4096), (32, 8, 128, 16, 8192), (32, 8, 64, 64, 4096)):
        yield row("decode", f"{heads}/{kv_heads} d{dim} b{batch} {keys}", batch, heads, kv_heads, 1, keys, dim)
    yield row("decode", "128/1 d512 b64 4096 K=V", 64, 128, 1, 1, 4096, 512, shared=True)


def flash(q, k, v, row, replayed):
    """torch's FlashAttention-2 on this shape, or what it has for f32; `None` where it does not take it."""
    half = q.dtype == torch.bfloat16

    def call():
        with sdpa_kernel(SDPBackend.FLASH_ATTENTION if half else SDPBackend.EFFICIENT_ATTENTION):
            return torch.nn.functional.scaled_dot_product_attention(
                q, k, v, is_causal=row.causal, enable_gqa=q.shape[1] != k.shape[1]
            )

    try:
        return replayed(call)
    except RuntimeError:
        torch.cuda.synchronize()
        return None


def reference(q, k, v, row):
    """The first head of the first sequence, in f64."""
    q, k, v = (x[0, 0].double() for x in (q, k, v))
    scores = q @ k.T / q.shape[-1] ** 0.5
    if row.causal:
        scores.masked_fill_(torch.ones_like(scores, dtype=torch.bool).triu_(1), float("-inf"))
    return scores.softmax(-1) @ v


def measure(row, rounds, h200, sixwarp, dtype):
    torch.manual_seed(1)
    make = lambda shape: torch.randn(shape, device=DEVICE, dtype=dtype)
    q, k = make(row.q_shape), make(row.k_shape)
    v = k if row.shared else make(row.k_shape)
    plan = sixwarp.plan(q, k, v, layout="bhsd", causal=row.causal)
    out = torch.empty_like(q)
    workspace = torch.empty(max(plan.workspace_bytes, 1), device=DEVICE, dtype=torch.uint8)
    ours = h200.Replayed(lambda: plan(q, k, v, out=out, workspace=workspace))
    other = flash(q, k, v, row, h200.Replayed)
    h200.interleaved([ours] + ([other] if other else []), rounds)
    difference = (out[0, 0].double() - reference(q, k, v, row)).abs().max().item()
    return {
        "suite": row.suite,
        "name": row.name,
        "kernel": plan.summary,
        "ours_us": ours.median(),
        "ours_tflops": row.flops / ours.median() / 1e6,
        "ours_gbs": row.bytes * dtype.itemsize / 2 / ours.median() / 1e3,
        "flash_us": other.median() if other else None,
        "ratio": other.median() / ours.median() if other else None,
        "difference": difference,
        "wrong": difference > LIMITS[dtype],
    }


def line(r):
    text = f"{r['name']:24} {r['ours_us']:10.1f} {r['ours_tflops']:8.1f} {r['ours_gbs']:7.0f} "
    beside = f"{r['flash_us']:10.1f} {r['ratio']:6.2f}" if r["ratio"] else f"{'none':>10} {'':6}"
    wrong = "  WRONG" if r["wrong"] else ""
    return text + f"{beside} {r['difference']:9.1e}  {r['kernel']}{wrong}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--arch", default="sm80", help="whose kernels: sm80, sm86, sm89, sm120")
    parser.add_argument("--dtype", default="bfloat16", choices=["bfloat16", "float32"])
    parser.add_argument("--only", help="rows whose names contain this")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json")
    args = parser.parse_args()
    os.environ["SIXWARP_ARCH"] = args.arch
    import h200
    import sixwarp

    torch.set_grad_enabled(False)
    warnings.filterwarnings("ignore")
    about = {
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
        "gpu": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "sixwarp": sixwarp.__version__,
        "arch": args.arch,
        "dtype": args.dtype,
    }
    print(json.dumps(about))
    print(f"{'shape':24} {'ours us':>10} {'TFLOP/s':>8} {'GB/s':>7} {'flash us':>10} {'ratio':>6} {'max diff':>9}")
    results = []
    for row in rows(h200.Row):
        if args.only and args.only not in row.name:
            continue
        results.append(measure(row, args.rounds, h200, sixwarp, getattr(torch, args.dtype)))
        print(line(results[-1]), flush=True)
        torch.cuda.empty_cache()
    for dim in (64, 128, 256, ""):
        ratios = [r["ratio"] for r in results if r["ratio"] and r["name"].startswith(f"d{dim}")]
        if ratios:
            mean = h200.geometric_mean(ratios)
            print(f"d{dim or ' all'}: {len(ratios)} rows, geometric mean {mean:.3f}, least {min(ratios):.3f}")
    if args.json:
        with open(args.json, "w", encoding="utf-8") as file:
            json.dump({**about, "rows": results}, file, indent=1)
    return any(r["wrong"] for r in results)


if __name__ == "__main__":
    sys.exit(main())

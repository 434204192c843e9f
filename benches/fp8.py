"""Keys and values of eight bits beside bf16 ones on a GPU, in one run: paged decodes and prefills.

    PYTHONPATH=python/src:benches python benches/fp8.py --json fp8.json
    PYTHONPATH=python/src:benches python benches/fp8.py --only d128 --rounds 5

The bf16 keys are the unpacked e4m3 ones, so that both sides compute the same. Both are captured in CUDA graphs and
replayed in turn; times are medians of one call. `same bits` says whether ten more runs gave the bits of the first.
Results are compared with each other; a difference above the limit is reported and fails the run.
"""

import argparse
import datetime
import json
import sys

import torch

import h200
import sixwarp

DEVICE = "cuda"
# Of outputs of standard normal values: two roundings to bf16.
LIMIT = 2e-2
PAGE = 64
K_DESCALE, V_DESCALE = 0.5, 2.0


def rows():
    """Name, query heads, KV heads, head dim, sequences, queries and keys of each."""
    for dim, heads, kv_heads in ((64, 64, 8), (128, 32, 8), (256, 16, 4), (80, 32, 8), (512, 8, 2)):
        for batch, keys in ((64, 4096), (16, 8192), (1, 32768)):
            yield f"decode d{dim} b{batch} {keys}", heads, kv_heads, dim, batch, 1, keys
    for dim, heads, kv_heads in ((64, 64, 8), (128, 32, 8), (256, 16, 4)):
        yield f"prefill d{dim} b4 4096", heads, kv_heads, dim, 4, 4096, 4096


def made(heads, kv_heads, dim, batch, queries, keys):
    """Queries, e4m3 keys and values in pages with factors, the same in bf16, and what both calls share."""
    torch.manual_seed(1)
    q = torch.randn(batch * queries, heads, dim, device=DEVICE, dtype=torch.bfloat16)
    pages = batch * keys // PAGE
    narrow = [torch.randn(pages, PAGE, kv_heads, dim, device=DEVICE).to(torch.float8_e4m3fn) for _ in "kv"]
    wide = [x.to(torch.bfloat16) * factor for x, factor in zip(narrow, (K_DESCALE, V_DESCALE))]
    integers = dict(device=DEVICE, dtype=torch.int32)
    table = torch.randperm(pages, device=DEVICE).int().view(batch, -1)
    shared = dict(
        causal=True, cu_seqlens_q=torch.arange(0, batch * queries + 1, queries, **integers), max_seqlen_q=queries,
        seqused_k=torch.full((batch,), keys, **integers), page_table=table,
    )  # fmt: skip
    factors = {"k_descale": torch.tensor(K_DESCALE, device=DEVICE), "v_descale": torch.tensor(V_DESCALE, device=DEVICE)}
    return q, narrow, wide, shared, factors


def replayed(q, k, v, options):
    plan = sixwarp.plan(q, k, v, **options)
    tensors = {name: x for name, x in options.items() if torch.is_tensor(x)}
    out = torch.empty_like(q)
    workspace = torch.empty(max(plan.workspace_bytes, 1), device=DEVICE, dtype=torch.uint8)
    call = lambda: plan(q, k, v, out=out, workspace=workspace, **tensors)
    return plan, out, h200.Replayed(call), call


def measure(name, heads, kv_heads, dim, batch, queries, keys, rounds):
    q, narrow, wide, shared, factors = made(heads, kv_heads, dim, batch, queries, keys)
    plan, out, ours, call = replayed(q, *narrow, {**shared, **factors})
    _, wide_out, theirs, _ = replayed(q, *wide, shared)
    h200.interleaved([ours, theirs], rounds)
    difference = (out.float() - wide_out.float()).abs().max().item()
    first = out.clone()
    same = all(torch.equal(first, call()) for _ in range(10))
    key_bytes = 2 * batch * keys * kv_heads * dim
    return {
        "name": name, "kernel": plan.summary, "fp8_us": ours.median(), "bf16_us": theirs.median(),
        "fp8_gbs": key_bytes / ours.median() / 1e3, "bf16_gbs": 2 * key_bytes / theirs.median() / 1e3,
        "times_bf16": theirs.median() / ours.median(), "difference": difference, "same_bits": same,
    }  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json")
    parser.add_argument("--only", default="")
    parser.add_argument("--rounds", type=int, default=20)
    options = parser.parse_args()
    results, wrong = [], 0
    for name, *shape in rows():
        if options.only not in name:
            continue
        result = measure(name, *shape, options.rounds)
        results.append(result)
        bad = result["difference"] > LIMIT or not result["same_bits"]
        wrong += bad
        print(
            f"{name:26} fp8 {result['fp8_us']:8.1f} us {result['fp8_gbs']:6.0f} GB/s   bf16 {result['bf16_us']:8.1f} us"
            f" {result['bf16_gbs']:6.0f} GB/s   {result['times_bf16']:.2f} x   off {result['difference']:.1e}"
            f"   {'same bits' if result['same_bits'] else 'OTHER BITS'}{'   WRONG' if bad else ''}",
            flush=True,
        )
    if options.json:
        about = {"device": torch.cuda.get_device_name(), "torch": torch.__version__}
        about["date"] = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="minutes")
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump({**about, "rows": results}, file, indent=1)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

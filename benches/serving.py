"""The batches a server makes: decodes, drafts and prefills in one call, from pages, on one GPU.

    PYTHONPATH=python/src python benches/serving.py --json serving.json
    python benches/serving.py --only mixed --pages 64
    python benches/serving.py --only short

Every row is one call on a paged cache, causal, bf16; those that begin with `short` are what an embedding model asks:
many short sequences one after the other, each of which sees all of itself. Where FlashAttention 3 is installed
(`flash3.py`: vLLM's wheel has it for all sizes of pages), it is timed beside it. `parts` is the sum of the times of the batch's parts run alone: single tokens together, and each
longer query by itself. Calls are captured in CUDA graphs and replayed in turn; times are medians of one call.
`--invariant N` does something else: it runs N random batches without cuts and compares one sequence's bits.
"""

import argparse
import datetime
import json
import math
import random

import torch

import flash3
import sixwarp
from h200 import DEVICE, Replayed, interleaved

FA3 = flash3.installed()
# Rows beside those of head dim 128 from pages.
OTHERS = ("short", "mixed d", "ragged prefill d")


class Batch:
    """Sequences of `queries` new tokens on `keys` tokens each, in pages."""

    def __init__(self, heads, kv_heads, dim, queries, keys, page, shared=False):
        torch.manual_seed(1)
        most = -(-max(keys) // page)
        self.heads, self.kv_heads, self.dim = heads, kv_heads, dim
        self.queries, self.keys, self.page, self.shared = queries, keys, page, shared
        count = len(keys) * most
        self.k = torch.randn(count, page, kv_heads, dim, device=DEVICE, dtype=torch.bfloat16)
        self.v = self.k if shared else torch.randn_like(self.k)
        self.table = torch.randperm(count, device=DEVICE).to(torch.int32).view(len(keys), most)
        self.q = torch.randn(sum(queries), heads, dim, device=DEVICE, dtype=torch.bfloat16)
        self.lengths = torch.tensor(keys, dtype=torch.int32, device=DEVICE)
        self.offsets = torch.tensor([0, *queries], device=DEVICE).cumsum(0).to(torch.int32)

    def ours(self):
        longest = max(self.queries)
        same = dict(causal=True, seqused_k=self.lengths, page_table=self.table)
        if longest == 1:
            return sixwarp.attention(self.q[:, None], self.k, self.v, **same)
        return sixwarp.attention(
            self.q, self.k, self.v, cu_seqlens_q=self.offsets, max_seqlen_q=longest, **same
        )

    def theirs(self):
        longest = max(self.queries)
        if longest == 1:
            return FA3.paged(self.q[:, None], self.k, self.v, self.lengths, self.table)
        return FA3.paged(self.q, self.k, self.v, self.lengths, self.table, self.offsets, longest)

    def parts(self):
        """Single tokens together, and every longer query alone."""
        short = [n for n, queries in enumerate(self.queries) if queries == 1]
        groups = ([short] if short else []) + [[n] for n in range(len(self.keys)) if n not in short]
        pick = lambda values, group: [values[n] for n in group]
        for group in groups if len(groups) > 1 else ():
            queries, keys = pick(self.queries, group), pick(self.keys, group)
            yield Batch(self.heads, self.kv_heads, self.dim, queries, keys, self.page, self.shared)

    def error(self):
        """The largest difference from attention computed in f32."""
        worst, at = 0.0, 0
        group = self.heads // self.kv_heads
        out = self.ours().reshape(-1, self.heads, self.dim)
        for n, (queries, keys) in enumerate(zip(self.queries, self.keys)):
            rows = lambda x: x[self.table[n].long()].reshape(-1, self.kv_heads, self.dim)[:keys].float()
            k, v = (rows(x).repeat_interleave(group, 1) for x in (self.k, self.v))
            q = self.q[at : at + queries].float()
            scores = torch.einsum("qhd,khd->hqk", q, k) / self.dim**0.5
            seen = torch.arange(keys, device=DEVICE) <= torch.arange(queries, device=DEVICE)[:, None] + keys - queries
            weights = scores.masked_fill(~seen, float("-inf")).softmax(-1)
            expected = torch.einsum("hqk,khd->qhd", weights, v)
            worst = max(worst, (out[at : at + queries].float() - expected).abs().max().item())
            at += queries
        return worst


class Packed:
    """Sequences of `lengths` tokens one after the other, without a mask."""

    def __init__(self, heads, kv_heads, dim, lengths):
        torch.manual_seed(1)
        tokens = lambda heads: torch.randn(sum(lengths), heads, dim, device=DEVICE, dtype=torch.bfloat16)
        self.q, self.k, self.v = tokens(heads), tokens(kv_heads), tokens(kv_heads)
        self.lengths, self.group = lengths, heads // kv_heads
        offsets = torch.tensor([0, *lengths], device=DEVICE).cumsum(0).to(torch.int32)
        self.offsets, longest = offsets, max(lengths)
        self.packed = dict(cu_seqlens_q=offsets, cu_seqlens_k=offsets, max_seqlen_q=longest, max_seqlen_k=longest)

    def ours(self):
        return sixwarp.attention(self.q, self.k, self.v, **self.packed)

    def theirs(self):
        return FA3.packed(self.q, self.k, self.v, self.offsets, max(self.lengths))

    def parts(self):
        """None: a short sequence alone says nothing."""
        return ()

    def error(self):
        """The largest difference from attention computed in f32."""
        worst, sequences = 0.0, [x.float().split(self.lengths) for x in (self.q, self.k, self.v, self.ours())]
        for q, k, v, out in zip(*sequences):
            k, v = (x.repeat_interleave(self.group, 1) for x in (k, v))
            weights = (torch.einsum("qhd,khd->hqk", q, k) / q.shape[-1] ** 0.5).softmax(-1)
            worst = max(worst, (out - torch.einsum("hqk,khd->qhd", weights, v)).abs().max().item())
        return worst


def short_rows():
    """Names and batches of many short sequences."""
    numbers = random.Random(5)
    lengths = [numbers.randint(20, 200) for _ in range(512)]
    for heads, kv_heads, dim in ((16, 16, 64), (16, 16, 128), (32, 8, 128)):
        yield f"short {heads}/{kv_heads} d{dim} 512 sequences of 20..200", (heads, kv_heads, dim, lengths)


def rows():
    """Names and batches. Random lengths are those of one seed, in this order."""
    lengths = random.Random(5)
    for page in (16, 64, 256):
        for heads in (32, 64):
            yield f"decode {heads}/8 b64 4096 page {page}", (heads, 8, 128, [1] * 64, [4096] * 64, page)
            ragged = [lengths.randint(1, 8192) for _ in range(64)]
            yield f"decode {heads}/8 b64 ragged 1..8192 page {page}", (heads, 8, 128, [1] * 64, ragged, page)
        yield f"decode 32/8 b1 32768 page {page}", (32, 8, 128, [1], [32768], page)
        yield f"drafts 64/8 b32 4 queries 4096 page {page}", (64, 8, 128, [4] * 32, [4096] * 32, page)
        yield f"prefill chunk 32/8 2048 on 8192 page {page}", (32, 8, 128, [2048], [8192], page)
        queries = [1] * 30 + [512, 1536]
        keys = [lengths.randint(500, 6000) for _ in range(30)] + [4000, 1536]
        yield f"mixed 32/8 30 decodes 512 1536 page {page}", (32, 8, 128, queries, keys, page)
        queries = [17, 128, 512, 1000, 2048, 3000, 33, 1]
        yield f"ragged prefill 32/8 8 sequences page {page}", (32, 8, 128, queries, queries, page)
        if page != 64:
            continue
        for dim, heads, kv_heads in ((64, 32, 8), (256, 16, 4), (512, 64, 1), (512, 128, 1)):
            name, shared = f"d{dim} {heads}/{kv_heads}", dim == 512
            # Keys of wide heads are values, and every token has many heads: there are fewer tokens.
            less = 8 if shared else 1
            few = [-(-tokens // less) for tokens in queries]
            mixed = [1] * 30 + [512 // less, 1536 // less]
            yield f"mixed {name} 30 decodes {mixed[30]} {mixed[31]} page 64", (heads, kv_heads, dim, mixed, keys, page, shared)
            yield f"ragged prefill {name} 8 sequences page 64", (heads, kv_heads, dim, few, few, page, shared)


def theirs(batch):
    """FlashAttention 3 on this batch; `None` where it is not installed or was built without what the batch needs."""
    # It has no wider heads.
    if FA3 is None or batch.q.shape[-1] > 256:
        return None
    try:
        return Replayed(batch.theirs)
    except RuntimeError as error:
        print("FlashAttention 3:", str(error).splitlines()[0])
        return None


def measure(batch, rounds):
    ours, beside = Replayed(batch.ours), theirs(batch)
    parts = [Replayed(part.ours) for part in batch.parts()]
    interleaved([ours, *([beside] if beside else []), *parts], rounds)
    figures = dict(ours=ours.median(), error=batch.error())
    if beside:
        figures["fa3"] = beside.median()
        figures["apart"] = (ours.result.flatten().float() - beside.result.flatten().float()).abs().max().item()
    if parts:
        figures["parts"] = sum(part.median() for part in parts)
    return figures


def summary(figures):
    """Prints the geometric mean and the least of the ratios to FlashAttention 3 on head dim 128 from pages."""
    ratios = [row["fa3"] / row["ours"] for row in figures if "fa3" in row and not row["row"].startswith(OTHERS)]
    if ratios:
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        print(f"{FA3.name}: {len(ratios)} rows, geometric mean {mean:.3f}, least {min(ratios):.3f}")


def check_invariance(count, heads, kv_heads, dim):
    """One sequence among random others, `count` times: its bits are those it has alone, if no part is shorter."""
    lengths = random.Random(7)
    keys = [lengths.randint(1, 3000) for _ in range(63)] + [2000]
    batch = Batch(heads, kv_heads, dim, [1] * 63 + [300], keys, 64, dim == 512)
    never = dict(causal=True, page_table=batch.table, split=1 << 20)
    # The sequence in question is the last but one: a decode; the last one is a prefill.
    own = batch.offsets[62:64] - 62
    alone = sixwarp.attention(
        batch.q[62:63], batch.k, batch.v, cu_seqlens_q=own.contiguous(), max_seqlen_q=1,
        seqused_k=batch.lengths[62:63].clone(), **{**never, "page_table": batch.table[62:63].contiguous()},
    )
    different = 0
    for _ in range(count):
        batch.lengths[:62] = torch.randint(0, 3000, (62,), device=DEVICE, dtype=torch.int32)
        out = sixwarp.attention(
            batch.q, batch.k, batch.v, cu_seqlens_q=batch.offsets, max_seqlen_q=300, seqused_k=batch.lengths, **never
        )
        different += not torch.equal(out[62], alone[0])
    print(f"d{dim} {heads}/{kv_heads}: {count} batches, {different} with other bits", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="rows whose names begin so, or so: a list with commas")
    parser.add_argument("--pages", default="16,64,256", help="page sizes")
    parser.add_argument("--rounds", type=int, default=7, help="replays of each side")
    parser.add_argument("--invariant", type=int, help="compares bits over so many random batches instead")
    parser.add_argument("--json", help="writes the figures to this file")
    options = parser.parse_args()
    if options.invariant:
        with torch.inference_mode():
            for heads in ((32, 8, 128), (64, 1, 512), (128, 1, 512)):
                check_invariance(options.invariant, *heads)
        return
    figures = []
    pages = options.pages.split(",")
    paged = [(name, Batch, batch) for name, batch in rows() if name.split()[-1] in pages]
    for name, kind, batch in paged + [(name, Packed, batch) for name, batch in short_rows()]:
        if not name.startswith(tuple(options.only.split(","))):
            continue
        with torch.inference_mode():
            row = measure(kind(*batch), options.rounds)
        figures.append(dict(row=name, **row))
        others = "  ".join(f"{side} {row[side]:7.1f} us ({row[side] / row['ours']:.2f} x)" for side in ("fa3", "parts") if side in row)
        print(f"{name:46s} {row['ours']:7.1f} us  {others}  error {row['error']:.0e}", flush=True)
        torch.cuda.empty_cache()
    summary(figures)
    if options.json:
        about = dict(gpu=torch.cuda.get_device_name(), torch=torch.__version__, peer=FA3.name if FA3 else None)
        about["when"] = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
        with open(options.json, "w") as file:
            json.dump({**about, "rows": figures}, file, indent=1)


if __name__ == "__main__":
    main()

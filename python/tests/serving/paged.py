"""Random batches as serving engines make them, and attention computed from the definition in float64."""

import pathlib
import sys

import torch

STAND_INS = pathlib.Path(__file__).resolve().parent / "stand_ins"
# Physical orders of vLLM's caches: of layers, blocks, heads, rows and columns.
ORDERS = {"LBHNC": (0, 1, 2, 3, 4), "LBNHC": (0, 1, 3, 2, 4), "LHBNC": (0, 2, 1, 3, 4),
          "BLHNC": (1, 0, 2, 3, 4), "BLNHC": (1, 0, 3, 2, 4), "BHLNC": (1, 2, 0, 3, 4)}  # fmt: skip


def without_engines():
    """Takes the recorded interfaces for the engines; returns what undoes it."""
    before = {name: sys.modules.pop(name) for name in list(sys.modules) if _is_plug_in(name)}
    sys.path.insert(0, str(STAND_INS))

    def undo():
        sys.path.remove(str(STAND_INS))
        for name in [name for name in sys.modules if _is_plug_in(name)]:
            del sys.modules[name]
        sys.modules.update(before)

    return undo


def _is_plug_in(name):
    parts = name.split(".")
    return parts[0] in ("vllm", "sglang") or parts[:2] in (["sixwarp", "vllm"], ["sixwarp", "sglang"])


def random(shape, dtype=torch.bfloat16, device="cpu", seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator).to(dtype).to(device)


def cache(order, blocks, heads, rows, dim, layers=3, layer=1, **made):
    """One layer's cache `[blocks, heads, rows, 2 dim]` in one of the orders of memory; other layers are NaN."""
    order = ORDERS[order]
    logical = (layers, blocks, heads, rows, 2 * dim)
    like = random((1,), **made)
    storage = torch.full([logical[axis] for axis in order], float("nan"), dtype=like.dtype, device=like.device)
    view = storage.permute(*[order.index(axis) for axis in range(5)])[layer]
    view.copy_(random(view.shape, **made))
    return view


class Batch:
    """Requests of `queries` new tokens that have `keys` keys in all, padded with empty requests and tokens."""

    def __init__(self, queries, keys, page, pad_requests=0, pad_tokens=0, width=None, device="cpu"):
        self.queries, self.keys, self.page = queries, keys, page
        pages = [-(-n // page) for n in keys]
        self.blocks = sum(pages) + 2
        self.width = width or max(pages) + 1
        self.tokens = sum(queries) + pad_tokens
        ids = torch.randperm(self.blocks, generator=torch.Generator().manual_seed(3)).tolist()
        count = len(keys) + pad_requests
        # What is not in use is no page; padding has pages, and no lengths.
        table = torch.full((count, self.width), 10**6, dtype=torch.int32)
        table[len(keys) :] = 0
        for n, used in enumerate(pages):
            table[n, :used] = torch.tensor(ids[:used])
            ids = ids[used:]
        offsets = torch.tensor([0, *queries]).cumsum(0).tolist()
        integers = lambda x: torch.tensor(x, dtype=torch.int32, device=device)
        self.offsets = integers(offsets + [offsets[-1]] * pad_requests)
        self.lengths = integers(keys + [0] * pad_requests)
        self.table = table.to(device)
        self.slots = torch.tensor(self._slots(table.tolist()) + [-1] * pad_tokens, device=device)

    def _slots(self, table):
        """Where new rows go: the last ones of each request."""
        return [
            table[n][at // self.page] * self.page + at % self.page
            for n, (new, all_) in enumerate(zip(self.queries, self.keys))
            for at in range(all_ - new, all_)
        ]

    def common(self, metadata, **changed):
        """vLLM's description of the step, of the class `metadata`."""
        given = dict(
            query_start_loc=self.offsets, query_start_loc_cpu=self.offsets.cpu(), seq_lens=self.lengths,
            num_reqs=len(self.lengths), num_actual_tokens=self.tokens, max_query_len=max(self.queries),
            max_seq_len=max(self.keys), block_table_tensor=self.table, slot_mapping=self.slots,
        )  # fmt: skip
        return metadata(**{**given, **changed})

    def rows(self, pages, n):
        """The keys or values of one request, of pages `[blocks, rows, heads, dim]`."""
        used = -(-self.keys[n] // self.page)
        return pages[self.table[n, :used].long()].flatten(0, 1)[: self.keys[n]]

    def expected(self, q, keys, values, **options):
        """What each request's tokens must be, one after the other, in float64."""
        parts, at = [], 0
        for n, count in enumerate(self.queries):
            parts.append(attention(q[at : at + count], self.rows(keys, n), self.rows(values, n), **options))
            at += count
        return torch.cat(parts)


def attention(q, k, v, scale, window=None, softcap=None, sinks=None, causal=True):
    """Of one request: `q` `[queries, heads, dim]` over `k` and `v` `[keys, KV heads, dim]`; `window` counts its own key."""
    group = q.shape[1] // k.shape[1]
    q, k, v = (x.double() for x in (q, k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)))
    scores = torch.einsum("qhd,khd->hqk", q, k) * scale
    if softcap:
        scores = softcap * torch.tanh(scores / softcap)
    own = torch.arange(len(q), device=q.device)[:, None] + len(k) - len(q)
    key = torch.arange(len(k), device=q.device)[None, :]
    seen = (key <= own) if causal else torch.ones_like(key <= own)
    if window is not None:
        seen = seen & (key > own - window)
    scores = scores.masked_fill(~seen, float("-inf"))
    if sinks is not None:
        sink = sinks.double()[:, None, None].expand(-1, len(q), 1)
        return torch.einsum("hqk,khd->qhd", torch.cat([scores, sink], -1).softmax(-1)[..., :-1], v)
    return torch.einsum("hqk,khd->qhd", scores.softmax(-1), v)

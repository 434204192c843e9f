"""Attention over rows that lie in pages and are named by lists or page tables: what `dsv4` and `flash_mla` share.

Queries are `[requests, tokens, heads, dim]`. Each token of a request has its own list of rows. Lengths are those of
requests, or of tokens; then every token becomes a request of its own.
"""

from __future__ import annotations

import functools
import json
from typing import Any, NamedTuple, Optional, Sequence, Tuple

from . import _describe as describe
from ._library import reason
from ._options import arch_name, real, whole
from ._plan import Bound, Plan
from ._tensor import CPU

# Packed formats by the bytes of a row: the library's name, numbers, and what the bytes between pages are a
# multiple of.
FORMATS = {584: ("MODEL1", 512, 576), 656: ("V3.2", 576, 1), 528: ("V4.1-fp8", 512, 1), 288: ("V4.1-fp4", 512, 1)}


class Cache(NamedTuple):
    """Pages of rows, and which of them each query sees, by lists or by a page table."""

    # What the caller calls the tensors: pages, lists, table, lengths.
    names: Tuple[str, str, str, str]
    pages: Any
    lists: Any = None
    table: Any = None
    lengths: Any = None
    # Needed where pages are plain bytes.
    page_rows: Optional[int] = None
    # Whether each row of DeepSeek-V4.1 has its scales behind it, instead of the page behind all rows.
    inline: bool = False


def page_stride(row_bytes: int, page_rows: int) -> int:
    """Bytes from one page of packed rows to the next."""
    align = FORMATS[row_bytes][2]
    return -(-page_rows * row_bytes // align) * align


def pages_of(a: Any, x: Any, name: str, page_rows: Optional[int], inline: bool) -> Tuple[dict, Any]:
    """A segment's keys as the library reads them, and their tensor."""
    x = a.as_bytes(x)
    if page_rows is not None:
        page_rows = whole("page_rows", page_rows, 1)
    shape, strides = tuple(a.shape(x)), tuple(a.strides(x, name))
    if a.dtype(x) == "u8":
        return _packed(name, shape, strides, page_rows, inline), x
    if len(shape) == 4 and shape[2] == 1:
        shape, strides = (*shape[:2], shape[3]), (*strides[:2], strides[3])
    if len(shape) != 3 or page_rows not in (None, shape[1]):
        rows = "rows" if page_rows is None else page_rows
        raise ValueError(f"{name} has shape {shape}: (pages, {rows}, dim) is needed")
    if a.dtype(x) not in describe.FLOATS:
        raise TypeError(f"{name} is {a.dtype(x)}: float32, float16 or bfloat16 is needed, or bytes of packed rows")
    if strides[2] != 1:
        raise ValueError(f"{name} has strides {strides}: rows must be contiguous")
    view = {"shape": [shape[0], 1, *shape[1:]], "strides": [strides[0], 0, *strides[1:]], "dtype": a.dtype(x)}
    return {"k": view}, x


def _packed(name: str, shape: tuple, strides: tuple, page_rows: Optional[int], inline: bool) -> dict:
    """Pages of packed rows: `[pages, rows, 1, row bytes]`, without the 1, or MODEL1's `[pages, bytes]`."""
    row_bytes = 584 if len(shape) == 2 else shape[-1]
    rows = page_rows or 64 if len(shape) == 2 else shape[1]
    if len(shape) not in (2, 3, 4) or shape[2:-1] not in ((), (1,)) or row_bytes not in FORMATS:
        formats = ", ".join(map(str, FORMATS))
        raise ValueError(f"{name} has shape {shape}: (pages, rows, 1, row bytes) with rows of {formats} bytes is needed")
    format, dim, _ = FORMATS[row_bytes]
    tight, stride = rows * row_bytes, page_stride(row_bytes, rows)
    if page_rows not in (None, rows) or (len(shape) == 2 and shape[1] not in (tight, stride)):
        raise ValueError(f"{name} has shape {shape}: {(*shape[:1], stride)} is needed for pages of {page_rows} rows")
    dense = strides[-1] == 1 and (len(shape) == 2 or rows == 1 or strides[1] == row_bytes)
    if not dense or (shape[0] > 1 and strides[0] < tight):
        raise ValueError(f"{name} has strides {strides}: pages must be contiguous")
    view = {"shape": [shape[0], 1, rows, dim], "strides": [rows * dim, 0, dim, 1], "dtype": "bf16"}
    inline = inline and format.startswith("V4.1")
    page_bytes = strides[0] if shape[0] > 1 else max(stride, tight)
    return {"k": view, "storage": format + "-inline" * inline, "page_bytes": page_bytes}


def lists_of(a: Any, name: str, x: Any, requests: int, tokens: int) -> Tuple[dict, Any]:
    """The part of a segment that says how lists lie, and their tensor, copied only if it must be."""
    shape = tuple(a.shape(x))
    wanted = {3: (requests, tokens), 2: (requests,) if tokens == 1 else None}.get(len(shape))
    if wanted is None or shape[:-1] != wanted:
        needed = f"({requests}, {tokens}, entries)" if tokens > 1 else f"({requests}, entries)"
        raise ValueError(f"{name} has shape {shape}: {needed} is needed")
    pitch = _pitch((requests, tokens, shape[-1]), a.strides(x, name)) if a.dtype(x) == "i32" else None
    if pitch is None:
        x, pitch = a.integers(name, x), shape[-1]
    return {"indices": shape[-1], "list_pitch": pitch}, x


def _pitch(shape: tuple, strides: Sequence[int]) -> Optional[int]:
    """Entries from one list to the next, if it is the same for all."""
    requests, tokens, width = shape
    if width > 1 and strides[-1] != 1:
        return None
    if requests == 1 or tokens == 1:
        outer = strides[-2] if requests == 1 and len(strides) == 3 else strides[0]
        return outer if requests * tokens > 1 else width
    return strides[1] if strides[0] == tokens * strides[1] else None


class Queries(NamedTuple):
    """Queries `[requests, tokens, heads, dim]`."""

    requests: int
    tokens: int
    heads: int
    dim: int
    strides: tuple
    dtype: str

    @staticmethod
    def of(a: Any, q: Any) -> Queries:
        """Queries of three or four dimensions; three are those of one token per request."""
        shape, strides = tuple(a.shape(q)), tuple(a.strides(q, "q"))
        if 0 in shape:
            # Libraries differ in what they say of tensors without elements.
            strides = tuple(describe.dense_strides(shape))
        if len(shape) == 3:
            shape, strides = (shape[0], 1, *shape[1:]), (strides[0], 0, *strides[1:])
        if len(shape) != 4 or a.dtype(q) not in describe.FLOATS:
            raise ValueError(f"q has shape {shape} of {a.dtype(q)}: floats of [requests, tokens, heads, dim] are needed")
        if strides[3] != 1 and shape[3] > 1:
            raise ValueError(f"q has a last stride of {strides[3]}: rows must be contiguous")
        return Queries(*shape, strides, a.dtype(q))

    def flattens(self) -> bool:
        """Whether all tokens lie evenly."""
        return 1 in (self.requests, self.tokens) or self.strides[0] == self.tokens * self.strides[1]

    def view(self, flat: bool) -> dict:
        """As the library reads them; `flat` makes every token a request."""
        request, token, head, _ = self.strides
        if flat and self.tokens > 1:
            return self._as([self.requests * self.tokens, self.heads, 1, self.dim], [token, head, 0, 1])
        return self._as([self.requests, self.heads, self.tokens, self.dim], [request, head, token, 1])

    def _as(self, shape: list, strides: list) -> dict:
        strides = [stride if extent > 1 else 0 for extent, stride in zip(shape[:3], strides)]
        return {"shape": shape, "strides": [*strides, 1], "dtype": self.dtype}


class Call:
    """Attention of queries over one or two caches, described and not yet computed."""

    def __init__(
        self, a: Any, q: Any, caches: Sequence[Cache], sink: Tuple[str, Any], value_dim: int, scale: Any, out: Any = None,
        arch: Any = None,
    ) -> None:  # fmt: skip
        name, sinks = sink
        queries = Queries.of(a, q)
        self.a, self.caches = a, caches
        self.shape = (queries.requests, queries.tokens, queries.heads)
        self.flat = any(_per_token(a, cache, self.shape) for cache in caches)
        if self.flat and not queries.flattens():
            q = a.contiguous(q)
            queries = Queries.of(a, q)
        describe.ensure_shape(a, name, sinks, (queries.heads,))
        self.out_shape = (*a.shape(q)[:-1], value_dim)
        self.q, self.given = q, out
        self.out = a.empty(self.out_shape, queries.dtype, q) if out is None else self._usable(out, queries)
        self.slots = {"q": q, "sinks": None if sinks is None else a.floats(name, sinks)}
        segments = [self._segment(n, cache, value_dim) for n, cache in enumerate(caches)]
        self.description = {
            "q": queries.view(self.flat), "out": Queries.of(a, self.out).view(self.flat), "segments": segments,
            "sinks": sinks is not None, "return_lse": True, "scale": None if scale is None else real("scale", scale),
            "arch": None if arch is None else arch_name("arch", arch),
        }  # fmt: skip

    def _usable(self, out: Any, queries: Queries) -> Any:
        """The caller's output, or a new one where it does not lie evenly."""
        describe.ensure_shape(self.a, "out", out, self.out_shape)
        if self.a.dtype(out) != queries.dtype:
            raise ValueError(f"out is {self.a.dtype(out)}: {queries.dtype} is needed")
        if self.flat and not Queries.of(self.a, out).flattens():
            return self.a.empty(self.out_shape, queries.dtype, out)
        return out

    def _segment(self, n: int, cache: Cache, value_dim: int) -> dict:
        a, prefix = self.a, f"segment {n} " if n else ""
        requests, tokens, _ = self.shape
        pages, lists, table, lengths = cache.names
        keys, self.slots[f"{prefix}k"] = pages_of(a, cache.pages, pages, cache.page_rows, cache.inline)
        segment = {**keys, "mask": "full", "value_dim": value_dim, "used": cache.lengths is not None}
        if cache.lists is not None:
            places, self.slots[f"{prefix}indices"] = lists_of(a, lists, cache.lists, requests, tokens)
            segment.update(places, pages_per_sequence=0)
        else:
            shape = tuple(a.shape(cache.table))
            if len(shape) != 2 or shape[0] != requests:
                raise ValueError(f"{table} has shape {shape}: ({requests}, entries) is needed")
            self.slots[f"{prefix}page_table"] = self._of_tokens(a.integers(table, cache.table))
            segment["pages_per_sequence"] = shape[1]
        if cache.lengths is not None:
            used = a.integers(lengths, cache.lengths)
            per_token = len(a.shape(used)) == 2
            self.slots[f"{prefix}seqused_k"] = used.reshape(-1) if per_token else self._of_tokens(used)
        return segment

    def _of_tokens(self, x: Any) -> Any:
        """What requests have, for each of their tokens where these are requests of their own."""
        return self.a.repeat(x, self.shape[1]) if self.flat and self.shape[1] > 1 else x

    def run(self) -> Tuple[Any, Any]:
        """The output, and the log-sum-exp `[requests, heads, tokens]`."""
        a, (requests, tokens, heads) = self.a, self.shape
        lse = a.empty(tuple(self.description["q"]["shape"][:3]), "f32", self.q)
        try:
            plan = planned(json.dumps(self.description), a.device(self.q, "q"))
            bound = Bound(plan, a, self.out_shape, tuple(lse.shape), self.description["q"]["dtype"], True)
            bound.run({**self.slots, "out": self.out, "lse": lse}, self.q)
        except ValueError as error:
            raise ValueError(self.named(str(error))) from None
        if self.given is not None:
            if self.given is not self.out:
                self.given[...] = self.out
            a.written(self.given)
        out = self.out if self.given is None else self.given
        return out, lse.reshape(requests, tokens, heads).swapaxes(1, 2) if self.flat else lse

    def supports(self, device: Optional[str]) -> Optional[str]:
        """Why a device cannot do this; None if it can."""
        at = self.a.device(self.q, "q")
        return reason(self.description, device or ("cpu" if at == CPU else f"cuda:{at}"))

    def named(self, error: str) -> str:
        """The library's words with the caller's names."""
        slot, colon, rest = error.partition(": ")
        for n, cache in enumerate(self.caches):
            slots = (f"{'segment 1 ' if n else ''}{part}" for part in ("k", "indices", "page_table", "seqused_k"))
            slot = dict(zip(slots, cache.names)).get(slot, slot)
        return slot + colon + rest


def _per_token(a: Any, cache: Cache, shape: tuple) -> bool:
    """Whether a cache has lengths for every token."""
    if cache.lengths is None:
        return False
    requests, tokens, _ = shape
    found = tuple(a.shape(cache.lengths))
    if found not in ((requests,), (requests, tokens)):
        also = "" if tokens == 1 else f" or {(requests, tokens)}"
        raise ValueError(f"{cache.names[3]} has shape {found}: {(requests,)}{also} is needed")
    return len(found) == 2


@functools.lru_cache(maxsize=1024)
def planned(description: str, device: int) -> Plan:
    """The plan for a description."""
    return Plan(json.loads(description), device)

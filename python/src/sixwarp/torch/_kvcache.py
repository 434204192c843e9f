"""A cache of keys and values that grows: where new rows go, and writing them there.

On the CPU every length and page is checked before anything is written. On a GPU their values are not read
back: rows that have no place are left out by the write itself, and lengths and pages are kept within the
cache for the attention that follows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Dict, Optional, Tuple, Union

import torch
from torch import Tensor


@dataclass(frozen=True)
class Cache:
    """Keys and values in pages, `[page, row, heads, dim]`, and a table of each sequence's pages.

    Without a table, a sequence is one page.
    """

    k: Tensor
    v: Tensor
    table: Optional[Tensor]
    table_name: str
    batch: int

    def __post_init__(self) -> None:
        if self.k.dim() != 4 or self.v.dim() != 4 or self.k.shape[:3] != self.v.shape[:3]:
            shapes = f"{tuple(self.k.shape)} and {tuple(self.v.shape)}"
            raise ValueError(f"k_cache and v_cache must be [batch or pages, tokens, heads, dim], and are {shapes}")
        if self.table is not None:
            check_integers(self.table_name, self.table, self, (self.batch, self.table.shape[-1]))
        elif self.batch > self.k.shape[0]:
            raise ValueError(f"q has {self.batch} sequences, and k_cache {self.k.shape[0]}")

    @property
    def page_rows(self) -> int:
        return self.k.shape[1]

    @property
    def capacity(self) -> int:
        """The most rows a sequence can have."""
        return self.page_rows * (1 if self.table is None else self.table.shape[1])

    @property
    def on_host(self) -> bool:
        return self.k.device.type == "cpu"

    def positions(self, starts: Tensor, sequence: Tensor, number: Union[int, Tensor]) -> Tensor:
        """Where rows are that come `number` behind the start of their sequence; 0 for rows without a sequence."""
        there = starts.long()[sequence.clamp(max=self.batch - 1)] + number
        return torch.where(sequence < self.batch, there, 0)

    def pages(self, sequence: Tensor, column: Tensor) -> Tensor:
        """What a column of each sequence's table says."""
        return sequence if self.table is None else self.table[sequence, column].long()

    def keys(self, lengths: Optional[Tensor], leftpad: Optional[Tensor], grown: bool) -> Dict[str, Any]:
        """What the attention reads, by the names of `sixwarp.attention`."""
        table = self.table
        if grown and not self.on_host:
            lengths = None if lengths is None else lengths.clamp(0, self.capacity)
            table = None if table is None else table.clamp(0, self.k.shape[0] - 1)
        if leftpad is not None:
            return self._behind(leftpad, lengths)
        k, v = (self.k, self.v) if table is not None else (self.k[: self.batch], self.v[: self.batch])
        return dict(k=k, v=v, page_table=table, seqused_k=lengths)

    def _behind(self, leftpad: Tensor, lengths: Optional[Tensor]) -> Dict[str, Any]:
        """The rows from `leftpad` on: sequences begin there in the cache as one run of rows."""
        check_integers("cache_leftpad", leftpad, self, (self.batch,))
        if self.table is not None:
            raise NotImplementedError(f"cache_leftpad is not supported together with {self.table_name}")
        if lengths is None:
            lengths = torch.full_like(leftpad, self.capacity)
        if self.on_host and not ((leftpad >= 0) & (leftpad <= lengths)).all():
            raise ValueError(f"cache_leftpad is {leftpad.tolist()}: from 0 to the lengths {lengths.tolist()}")
        leftpad = torch.minimum(leftpad.clamp(min=0), lengths)
        starts = leftpad + torch.arange(self.batch, device=leftpad.device) * self.page_rows
        offsets = torch.nn.functional.pad(starts, (0, 1), value=self.batch * self.page_rows).int()
        rows = (x[: self.batch].flatten(0, 1) for x in (self.k, self.v))
        # Up to the next sequence's beginning there may be almost two caches' rows, of which lengths bound the used.
        bound = dict(cu_seqlens_k=offsets, max_seqlen_k=2 * self.page_rows, seqused_k=lengths - leftpad)
        return dict(zip("kv", rows), **bound)


@dataclass(frozen=True)
class Places:
    """Where new rows go. Pages and rows exist; `valid` says whether they are the ones asked for."""

    page: Tensor
    row: Tensor
    valid: Tensor


class NewRows:
    """Rows to be written behind the first `lengths` rows of each sequence, `[batch, tokens, heads, dim]` or packed."""

    def __init__(self, cache: Cache, k: Tensor, v: Tensor, lengths: Tensor, offsets: Optional[Tensor]) -> None:
        _check_rows(cache, k, v, offsets is not None)
        if offsets is not None:
            _check_offsets("cu_seqlens_k_new", offsets, cache, k.shape[0])
        self.cache = cache
        self.k, self.v = (x.reshape(-1, *x.shape[-2:]) for x in (k, v))
        self.sequence, self.number = rows_of(k, cache.batch, offsets)
        self.grown = lengths + (k.shape[1] if offsets is None else offsets.diff())
        self.places = self._places(cache.positions(lengths, self.sequence, self.number))

    def _places(self, position: Tensor) -> Places:
        cache = self.cache
        sequence = self.sequence.clamp(max=cache.batch - 1)
        inside = position.clamp(0, cache.capacity - 1)
        page = cache.pages(sequence, inside // cache.page_rows)
        existing = page.clamp(0, cache.k.shape[0] - 1)
        valid = (inside == position) & (existing == page) & (sequence == self.sequence)
        places = Places(existing, inside % cache.page_rows, valid)
        if cache.on_host:
            self._check(position, places)
        return places

    def _check(self, position: Tensor, places: Places) -> None:
        """Raises for the first row of a sequence that has no place."""
        cache = self.cache
        bad = (~places.valid & (self.sequence < cache.batch)).nonzero()
        if not bad.numel():
            return
        sequence, at = self.sequence[bad[0]], position[bad[0]]
        if not 0 <= at < cache.capacity:
            where = f"row {int(at)}, and the cache has rows 0 to {cache.capacity - 1}"
            raise ValueError(f"cache_seqlens: a new row of sequence {int(sequence)} goes to {where}")
        column = at // cache.page_rows
        entry = f"{cache.table_name}[{int(sequence)}, {int(column)}] is {int(cache.pages(sequence, column))}"
        raise ValueError(f"{entry}, and a new row goes there: pages are 0 to {cache.k.shape[0] - 1}")

    def write(self) -> None:
        """Writes the rows that have a place."""
        for cache, rows in ((self.cache.k, self.k), (self.cache.v, self.v)):
            # torch indexes few 8-bit floats, and their bytes as any.
            narrow = cache.dtype is torch.float8_e4m3fn
            write(*((cache.view(torch.uint8), rows.view(torch.uint8)) if narrow else (cache, rows)), self.places)


def write(cache: Tensor, rows: Tensor, to: Places) -> None:
    """Writes each row to its place, and leaves out those without one. Nothing is read back from a GPU.

    A row that is left out repeats the write of the first valid row, so that all writes to one place agree.
    If no row is valid, the places keep what they hold.
    """
    if not rows.shape[0]:
        return
    first = to.valid.int().argmax()
    source = torch.where(to.valid, torch.arange(rows.shape[0], device=rows.device), first)
    place = (to.page[source], to.row[source])
    cache.index_put_(place, torch.where(to.valid.any(), rows[source], cache[place]))


def rows_of(x: Tensor, batch: int, offsets: Optional[Tensor]) -> Tuple[Tensor, Tensor]:
    """Of each row of `x` (`[batch, tokens, …]`, or packed), its sequence and its number in it.

    Packed rows behind the last offset belong to no sequence: `batch` stands for it.
    """
    if offsets is None:
        tokens = torch.arange(x.shape[1], device=x.device)
        return torch.arange(batch, device=x.device).repeat_interleave(x.shape[1]), tokens.repeat(batch)
    row, offsets = torch.arange(x.shape[0], device=x.device), offsets.long()
    sequence = (torch.searchsorted(offsets, row, right=True) - 1).clamp(min=0)
    return sequence, row - offsets[sequence]


def lengths_of(cache: Cache, given: Union[None, int, Tensor], name: str = "cache_seqlens") -> Optional[Tensor]:
    """Lengths as a tensor; a number is checked on every device."""
    if given is None:
        return None
    if isinstance(given, Tensor):
        check_integers(name, given, cache, (cache.batch,))
        return given
    if not 0 <= given <= cache.capacity:
        raise ValueError(f"{name} is {given}: from 0 to the {cache.capacity} rows of the cache")
    return torch.full((cache.batch,), given, dtype=torch.int32, device=cache.k.device)


def check_integers(name: str, x: Tensor, cache: Cache, shape: Tuple[int, ...]) -> None:
    """Lengths, offsets and tables: int32 or int64 numbers of this shape, on the cache's device."""
    if x.dtype not in (torch.int32, torch.int64):
        raise TypeError(f"{name} must hold int32 numbers, and holds {x.dtype}")
    if tuple(x.shape) != shape:
        raise ValueError(f"{name} must have shape {shape}, and has {tuple(x.shape)}")
    if x.device != cache.k.device:
        raise ValueError(f"{name} must be on {cache.k.device} as k_cache is, and is on {x.device}")


def _check_rows(cache: Cache, k: Tensor, v: Tensor, packed: bool) -> None:
    """New rows are like the cache's."""
    rows = k.shape[:1] if packed else (cache.batch, *k.shape[1:2])
    for name, x, like in (("k", k, cache.k), ("v", v, cache.v)):
        if tuple(x.shape) != (*rows, *like.shape[2:]):
            raise ValueError(f"{name} must have shape {(*rows, *like.shape[2:])}, and has {tuple(x.shape)}")
        if x.dtype != like.dtype or x.device != like.device:
            ours, theirs = f"{x.dtype} on {x.device}", f"{like.dtype} on {like.device}"
            raise ValueError(f"{name} is {ours} and {name}_cache {theirs}: they must agree")


def _check_offsets(name: str, offsets: Tensor, cache: Cache, rows: int) -> None:
    """Offsets of packed rows rise from 0 to at most `rows`; their values are read on the CPU only."""
    check_integers(name, offsets, cache, (cache.batch + 1,))
    if not cache.on_host:
        return
    values = offsets.tolist()
    if values[0] != 0 or values != sorted(values) or values[-1] > rows:
        raise ValueError(f"{name} must rise from 0 to at most {rows}, and is {values}")


def rotate(x: Tensor, cos: Tensor, sin: Tensor, position: Tensor, interleaved: bool, name: str) -> Tensor:
    """Rotary embedding of `x` (`[rows, heads, dim]`) by the rows of `cos` and `sin` at each row's position."""
    half = cos.shape[-1]
    if cos.shape != sin.shape or cos.dim() != 2 or 2 * half > x.shape[-1]:
        shapes = f"{tuple(cos.shape)} and {tuple(sin.shape)}"
        raise ValueError(f"rotary_cos and rotary_sin must be [positions, up to {x.shape[-1] // 2}], and are {shapes}")
    inside = position.clamp(0, cos.shape[0] - 1)
    if x.device.type == "cpu" and not torch.equal(inside, position):
        at = int(position[inside != position][0])
        raise ValueError(f"a row of {name} is at position {at}, and rotary_cos has rows 0 to {cos.shape[0] - 1}")
    cos, sin = (table[inside].float().unsqueeze(1) for table in (cos, sin))
    turned, rest = x[..., : 2 * half].float(), x[..., 2 * half :]
    a, b = (turned[..., ::2], turned[..., 1::2]) if interleaved else turned.chunk(2, -1)
    pair = (a * cos - b * sin, a * sin + b * cos)
    turned = torch.stack(pair, -1).flatten(-2) if interleaved else torch.cat(pair, -1)
    return torch.cat([turned.to(x.dtype), rest], -1)

"""Sequences one after the other: rows that count are gathered, attended to, and put back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable, Dict, Optional

import torch
from torch import Tensor

from ..torch import attention


@dataclass(frozen=True)
class Rows:
    """Which rows of `[batch, tokens]` count (all, if `index` is `None`), and where each sequence's begin among them."""

    index: Optional[Tensor]
    offsets: Tensor
    longest: int

    @classmethod
    def kept(cls, keep: Tensor) -> "Rows":
        """Those where `keep` (`[batch, tokens]`) is true. How many they are is read back from a GPU."""
        return cls(keep.flatten().nonzero().squeeze(1), _offsets(keep.sum(1)), keep.shape[1])

    @classmethod
    def all(cls, batch: int, tokens: int, device: torch.device) -> "Rows":
        """Every row; each item of the batch is a sequence."""
        return cls(None, torch.arange(batch + 1, device=device, dtype=torch.int32) * tokens, tokens)

    @classmethod
    def numbered(cls, sequences: Tensor) -> "Rows":
        """Every row; a sequence begins where its number changes, and with each item of the batch."""
        begins = torch.ones_like(sequences, dtype=torch.bool)
        begins[:, 1:] = sequences[:, 1:] != sequences[:, :-1]
        first = begins.flatten().nonzero().squeeze(1).int()
        return cls(None, torch.nn.functional.pad(first, (0, 1), value=sequences.numel()), sequences.shape[1])

    def numbers(self, tokens: int) -> Tensor:
        """The sequence of each row."""
        return torch.searchsorted(self.offsets, torch.arange(tokens, device=self.offsets.device).int(), right=True)

    def of(self, x: Tensor) -> Tensor:
        """The rows of `x`, `[batch, heads, tokens, dim]`, as `[rows, heads, dim]`."""
        rows = x.transpose(1, 2).flatten(0, 1)
        return rows if self.index is None else rows.index_select(0, self.index)

    def back(self, rows: Tensor, batch: int, tokens: int) -> Tensor:
        """`[batch, tokens, heads, dim]` with zeros where a row does not count."""
        if self.index is not None:
            rows = rows.new_zeros((batch * tokens, *rows.shape[1:])).index_copy_(0, self.index, rows)
        return rows.unflatten(0, (batch, tokens))


def _offsets(lengths: Tensor) -> Tensor:
    return torch.nn.functional.pad(lengths.cumsum(0), (1, 0)).int()


@dataclass(frozen=True)
class Packing:
    """Rows of queries and of keys; the n-th sequence of queries sees the n-th of keys."""

    queries: Rows
    keys: Rows

    def attend(self, query: Tensor, key: Tensor, value: Tensor, options: Dict[str, Any]) -> Tensor:
        out = attention(
            self.queries.of(query), self.keys.of(key), self.keys.of(value),
            cu_seqlens_q=self.queries.offsets, cu_seqlens_k=self.keys.offsets,
            max_seqlen_q=self.queries.longest, max_seqlen_k=self.keys.longest, **options,
        )  # fmt: skip
        return self.queries.back(out, query.shape[0], query.shape[2])

    def same_as(self, other: "Packing") -> bool:
        """Whether both delimit the same sequences; on a GPU, this waits."""
        pairs = ((self.queries, other.queries), (self.keys, other.keys))
        return all(torch.equal(a.offsets, b.offsets) for a, b in pairs)

    def within(self, dense: Callable[[], Tensor]) -> Tensor:
        """An additive mask of every element, of a batch of one, that also separates the sequences."""
        mask = dense()
        queries, keys = (rows.numbers(n) for rows, n in ((self.queries, mask.shape[2]), (self.keys, mask.shape[3])))
        return mask.masked_fill(queries[:, None] != keys, torch.finfo(mask.dtype).min)

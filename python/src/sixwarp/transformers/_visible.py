"""Which keys the queries of a layer see, as far as it can be told without a mask of every element."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Callable, Dict, Optional

import torch
from torch import Tensor

from ..torch import attention
from ._packing import Packing, Rows
from ._pattern import Pattern


@dataclass(frozen=True)
class Visible:
    """A pattern over the first `used` keys, at the end of which the queries are; keys behind them are not seen.

    `lengths` says how many keys of each sequence count, `packing` how rows are gathered. `dense` makes the mask of
    every element.
    """

    pattern: Pattern
    queries: int
    used: int
    dense: Callable[[], Tensor]
    lengths: Optional[Tensor] = None
    packing: Optional[Packing] = None

    def attend(
        self, query: Tensor, key: Tensor, value: Tensor, bias: Optional[Tensor], options: Dict[str, Any]
    ) -> Tensor:
        """`[batch, heads, tokens, dim]` in, `[batch, tokens, heads, dim]` out; `bias` is added to scores."""
        options = dict(options, window=(self.pattern.left, self.pattern.right))
        key, value = key[:, :, : self.used], value[:, :, : self.used]
        if self.packing is not None:
            return self.packing.attend(query, key, value, options)
        bias = None if bias is None else bias[..., : self.used]
        out = attention(query, key, value, layout="bhsd", seqused_k=self.lengths, attn_mask=bias, **options)
        return out.transpose(1, 2).contiguous()

    def takes(self, bias: Optional[Tensor]) -> bool:
        """Packed rows have no place for a bias of every element."""
        return bias is None or self.packing is None

    def packed(self, packing: Packing) -> "Visible":
        """The same pattern within each of several sequences that the caller delimits."""
        if self.pattern.sequences is not None and self.packing is not None:
            if not self.packing.same_as(packing):
                raise ValueError("cu_seq_lens_q, cu_seq_lens_k and position_ids delimit different sequences")
            return self
        whole = self.pattern.full or self.queries == self.used
        if self.lengths is not None or self.packing is not None or not whole:
            raise ValueError("cu_seq_lens_q: packed sequences are whole, without padding and without a cache")
        return replace(self, packing=packing, dense=partial(packing.within, self.dense))


def visible(
    pattern: Optional[Pattern], queries: int, keys: int, used: int, padding: Optional[Tensor],
    dense: Callable[[], Tensor],
) -> Optional[Visible]:  # fmt: skip
    """What `pattern` lets queries see whose last is at key `used - 1`; `None` where only a dense mask says it.

    `padding` (`[batch, keys]`) is true for keys that count. Whether all do is read back from a GPU.
    """
    if pattern is None:
        return None
    used = keys if pattern.full else used
    if not pattern.full and not (queries <= used <= keys if pattern.causal else used == keys):
        return None
    result = Visible(pattern, queries, used, dense)
    if pattern.sequences is not None:
        rows = Rows.numbered(pattern.sequences)
        return replace(result, packing=Packing(rows, rows)) if padding is None else None
    if padding is None or padding[:, :used].all():
        return result
    return _padded(result, padding[:, :used])


def _padded(seen: Visible, padding: Tensor) -> Optional[Visible]:
    """Leaves out keys that do not count; where the pattern is causal, also the queries at their places."""
    pattern = seen.pattern
    if pattern.full and (padding[:, 1:] <= padding[:, :-1]).all():
        return replace(seen, lengths=padding.sum(1, dtype=torch.int32))
    # The mask of one query is less than the keys that would be gathered.
    if seen.queries == 1 or not (pattern.full or pattern.causal):
        return None
    # Among keys that count, a window is the same window only if they lie side by side.
    if pattern.left is not None and _has_holes(padding):
        return None
    if pattern.full:
        queries = Rows.all(padding.shape[0], seen.queries, padding.device)
    else:
        queries = Rows.kept(padding[:, seen.used - seen.queries :])
    return replace(seen, packing=Packing(queries, Rows.kept(padding)))


def _has_holes(padding: Tensor) -> bool:
    begins = padding & ~torch.nn.functional.pad(padding, (1, 0))[:, :-1]
    return bool((begins.sum(1) > 1).any())

"""Which of transformers' mask functions sixwarp has as a window.

A mask function is a closure that says for two positions whether the query sees the key. Those that transformers
builds from causal masks, sliding windows and packed sequences are recognised by their code; all others are
computed element by element.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable, Dict, Optional

from torch import Tensor
from transformers import masking_utils


@dataclass(frozen=True)
class Pattern:
    """A query sees `left` keys before its position and `right` behind it; `None` is no limit.

    With `sequences` (`[batch, tokens]`), it sees only keys of the sequence with the same number.
    """

    left: Optional[int] = None
    right: Optional[int] = None
    sequences: Optional[Tensor] = None

    @property
    def full(self) -> bool:
        return self.left is None and self.right is None and self.sequences is None

    @property
    def causal(self) -> bool:
        return self.right == 0

    def and_also(self, other: "Pattern") -> Optional["Pattern"]:
        """What both let through, where it is a pattern."""
        if self.sequences is not None and other.sequences is not None:
            return None
        sequences = other.sequences if self.sequences is None else self.sequences
        return Pattern(_least(self.left, other.left), _least(self.right, other.right), sequences)


def _least(a: Optional[int], b: Optional[int]) -> Optional[int]:
    return b if a is None else a if b is None else min(a, b)


def _closure(function: Callable) -> Dict[str, Any]:
    """What a function took with it from where it was defined."""
    return {n: cell.cell_contents for n, cell in zip(function.__code__.co_freevars, function.__closure__ or ())}


_CAUSAL = masking_utils.causal_mask_function
_FULL = masking_utils.bidirectional_mask_function
_AND = masking_utils.and_masks(_CAUSAL).__code__
_WINDOW = masking_utils.sliding_window_overlay(1).__code__
_TWO_SIDED_WINDOW = masking_utils.sliding_window_bidirectional_overlay(1).__code__
_PACKED = masking_utils.packed_sequence_mask_function(None).__code__
# From transformers 5.23 on, what packed sequences see is asked by positions in each sequence.
_remap = getattr(masking_utils, "remap_positions_for_packed_sequence", None)
_BY_POSITIONS = None if _remap is None else _remap(None, None).__code__


def _code(function: Callable) -> Any:
    return getattr(function, "__code__", None)


def recognise(function: Callable) -> Optional[Pattern]:
    """The pattern of a mask function, or `None`."""
    if function is _CAUSAL:
        return Pattern(right=0)
    if function is _FULL:
        return Pattern()
    code = _code(function)
    if code is _WINDOW:
        return Pattern(left=_closure(function)["sliding_window"] - 1)
    if code is _TWO_SIDED_WINDOW:
        reach = _closure(function)["sliding_window"]
        return Pattern(left=reach, right=reach)
    if code is _PACKED:
        return Pattern(sequences=_closure(function)["packed_sequence_mask"])
    return _intersection(_closure(function)["mask_functions"]) if code is _AND else None


def _intersection(functions: Any) -> Optional[Pattern]:
    result: Optional[Pattern] = Pattern()
    is_packed = any(_code(function) is _PACKED for function in functions)
    for function in functions:
        if is_packed and _BY_POSITIONS is not None and _code(function) is _BY_POSITIONS:
            # Positions of a packed sequence follow each other, so two are as far apart as their places.
            function = _closure(function)["mask_function"]
        part = recognise(function)
        result = None if result is None or part is None else result.and_also(part)
    return result

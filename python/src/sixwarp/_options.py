"""Options among the arguments: read once, so that what is remembered of a call cannot change afterwards."""

from __future__ import annotations

import math
import operator
from typing import Any, Optional, Tuple


LAYOUTS = ("bshd", "bhsd")


def layout_name(name: str, x: Any) -> str:
    """The name of a layout."""
    if not isinstance(x, str) or x not in LAYOUTS:
        raise ValueError(f"{name} is one of {', '.join(LAYOUTS)}, not {x!r}")
    return x


def arch_name(name: str, x: Any) -> str:
    """The name of a generation of GPUs, which the library knows."""
    if not isinstance(x, str):
        raise TypeError(f"{name} is {x!r}: the name of a GPU generation, such as 'sm_80', is needed")
    return x


def real(name: str, x: Any) -> float:
    """A finite number: of Python, a NumPy scalar, or a tensor that holds just one."""
    if not hasattr(type(x), "__float__"):
        raise TypeError(f"{name} is {x!r}: a number is needed")
    value = float(x)
    if not math.isfinite(value):
        raise ValueError(f"{name} is {value}: a finite number is needed")
    return value


def whole(name: str, x: Any, least: int = 0) -> int:
    """An integer of at least `least`."""
    try:
        value = operator.index(x)
    except TypeError:
        raise TypeError(f"{name} is {x!r}: an integer is needed") from None
    if not least <= value < 2**63:
        raise ValueError(f"{name} is {value}: at least {least} is needed, and less than 2^63")
    return value


def sides(name: str, window: Any) -> Tuple[Optional[int], Optional[int]]:
    """A window's left and right."""
    try:
        left, right = window
    except (TypeError, ValueError):
        raise TypeError(f"{name} is {window!r}: (left, right) is needed, None for no limit") from None
    for side in (left, right):
        if side is not None and (not hasattr(type(side), "__index__") or side < 0):
            raise ValueError(f"{name} is {window!r}: a side is None (no limit) or an integer of at least 0")
    return (None if left is None else operator.index(left), None if right is None else operator.index(right))

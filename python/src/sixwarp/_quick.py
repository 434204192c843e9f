"""The quick way into the library: builtin functions that it makes itself.

`ctypes` converts every argument and Python reads every address; these functions do neither. Where there is no
CPython, or torch lends nothing through DLPack's C exchange interface (it does from 2.10 on) or lacks a function
of `_torch_functions`, `attention` and `planned` answer None and the long way through `ctypes` is taken.
"""

from __future__ import annotations

import ctypes
from typing import Any, Callable, Optional

from ._library import locked


def unknown(*_: Any) -> None:
    """What stands for a call that was not made before."""


# `attention(*tensors, stream, *options)`: the result of a call like an earlier one, else None.
attention: Callable = unknown
# `remember(plan, owner, *tensors, *options)`: makes `attention` know a call.
remember: Callable = unknown
# `planned(plan, owner, *tensors)`: a function that makes this call again, or None.
planned: Callable = unknown
# `operator(original, name, watchers)`: a function that stands for torch's operator, or None.
operator: Callable = unknown


def attach(types: tuple, functions: Optional[list]) -> None:
    """Makes the functions for tensors of exactly these types of torch, whose own functions are given."""
    global attention, remember, planned, operator
    capsule = getattr(types[0], "__dlpack_c_exchange_api__", None)
    if capsule is None or functions is None or locked is None:
        return
    pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
        ("PyCapsule_GetPointer", ctypes.pythonapi)
    )(capsule, b"dlpack_exchange_api")
    make = locked.sixwarp_quick
    make.restype = ctypes.py_object
    words = lambda values: (ctypes.c_size_t * len(values))(*values)
    made = make(
        words(functions), ctypes.c_void_p(pointer), words([id(x) for x in types]),
        ctypes.c_size_t(len(types)),
    )  # fmt: skip
    if made is not None:
        attention, (remember, (planned, operator)) = made

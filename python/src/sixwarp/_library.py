"""The compiled library, through ctypes."""

from __future__ import annotations

import ctypes
import json
import os
import pathlib
import sys
from typing import Optional


class Unsupported(NotImplementedError):
    """The device cannot do this; the message says why and what is nearest."""


_KINDS = {1: ValueError, 2: Unsupported, 3: MemoryError, 4: RuntimeError, 5: RuntimeError, 6: TypeError}


def path() -> pathlib.Path:
    """Where the library is."""
    suffix = {"win32": "dll", "darwin": "dylib"}.get(sys.platform, "so")
    given = os.environ.get("SIXWARP_LIBRARY")
    path = pathlib.Path(given) if given else pathlib.Path(__file__).parent / f"_sixwarp.{suffix}"
    if not path.exists():
        raise ImportError(
            f"sixwarp's library is not at {path}: install the package (`pip install ./python`) "
            "or name a library in SIXWARP_LIBRARY"
        )
    return path


def _load() -> ctypes.CDLL:
    library = ctypes.CDLL(str(path()))
    text, address, size, code = ctypes.c_char_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int32
    # Tensors are bytes, as `_plan` packs them.
    tensor = ctypes.c_char_p
    declare = {
        "sixwarp_error": (text, []),
        "sixwarp_version": (text, []),
        "sixwarp_plan": (address, [text, ctypes.c_int32, ctypes.POINTER(ctypes.c_int32)]),
        "sixwarp_supports": (code, [text, text]),
        "sixwarp_plan_info": (text, [address]),
        "sixwarp_plan_free": (None, [address]),
        "sixwarp_run": (code, [address, tensor, size, tensor, size]),
        "sixwarp_merge": (code, [text, tensor, tensor, tensor, tensor, size, size]),
        "sixwarp_dsv4": (text, [text, ctypes.POINTER(ctypes.c_int32)]),
        "sixwarp_model1_page_bytes": (ctypes.c_uint64, [ctypes.c_uint64]),
        "sixwarp_model1_pack": (code, [tensor, ctypes.c_uint64, tensor]),
        "sixwarp_model1_unpack": (code, [tensor, ctypes.c_uint64, tensor]),
    }
    for name, (result, arguments) in declare.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


# In the order of `Interpreter` in crates/python/src/fast/python.rs.
_FUNCTIONS = (
    "PyCFunction_NewEx", "PyCapsule_New", "PyCapsule_GetPointer", "Py_IncRef", "Py_DecRef", "PyObject_Type",
    "PyObject_RichCompareBool", "PyLong_AsVoidPtr", "PyErr_Occurred", "PyErr_Clear", "PyTuple_New",
    "PyTuple_SetItem", "PyObject_GetAttr", "PyEval_SaveThread", "PyEval_RestoreThread", "PyErr_CheckSignals",
    "PyObject_Vectorcall",
)  # fmt: skip


def _attach() -> ctypes.CDLL | None:
    """The library once more, for functions that are called with the interpreter's lock held.

    The library is linked with no Python: it is given the addresses of the few functions it calls. None where
    there is no CPython.
    """
    if sys.implementation.name != "cpython":
        return None
    locked = ctypes.PyDLL(str(path()))
    addresses = [ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value for name in _FUNCTIONS]
    addresses += [id(None)]
    locked.sixwarp_interpreter((ctypes.c_size_t * len(addresses))(*addresses))
    run = locked.sixwarp_run_in_python
    run.restype, run.argtypes = library.sixwarp_run.restype, library.sixwarp_run.argtypes
    return locked


library = _load()
locked = _attach()
# Runs a plan; signals are handled meanwhile, so that Ctrl-C ends a long call on the CPU.
run = library.sixwarp_run if locked is None else locked.sixwarp_run_in_python
version: str = library.sixwarp_version().decode()


def raise_error(kind: int) -> None:
    """Raises what the library's last failure on this thread says."""
    raise _KINDS.get(kind, RuntimeError)(library.sixwarp_error().decode())


def check(kind: int) -> None:
    """Raises unless `kind` is 0."""
    if kind:
        raise_error(kind)


def reason(description: dict, device: str) -> Optional[str]:
    """Why `device` cannot compute a problem, or None if it can."""
    kind = library.sixwarp_supports(json.dumps(description).encode(), device.encode())
    if kind and _KINDS.get(kind) is not Unsupported:
        raise_error(kind)
    return library.sixwarp_error().decode() if kind else None

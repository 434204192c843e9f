"""The compiled library, through ctypes."""

from __future__ import annotations

import ctypes
import os
import pathlib
import sys


class Unsupported(NotImplementedError):
    """The device cannot do this; the message says why and what is nearest."""


_KINDS = {1: ValueError, 2: Unsupported, 3: MemoryError, 4: RuntimeError, 5: RuntimeError}


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
    text, address, words = ctypes.c_char_p, ctypes.c_void_p, ctypes.POINTER(ctypes.c_uint64)
    declare = {
        "sixwarp_error": (text, []),
        "sixwarp_version": (text, []),
        "sixwarp_plan": (address, [text, ctypes.c_int32, ctypes.POINTER(ctypes.c_int32)]),
        "sixwarp_plan_info": (text, [address]),
        "sixwarp_plan_free": (None, [address]),
        "sixwarp_run": (ctypes.c_int32, [address, text, ctypes.c_size_t]),
        "sixwarp_merge": (ctypes.c_int32, [text, words]),
        "sixwarp_model1_pack": (ctypes.c_int32, [address, ctypes.c_uint64, ctypes.c_uint64, address]),
        "sixwarp_model1_unpack": (ctypes.c_int32, [address, ctypes.c_uint64, ctypes.c_uint64, address]),
    }
    for name, (result, arguments) in declare.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


library = _load()
version: str = library.sixwarp_version().decode()


def raise_error(kind: int) -> None:
    """Raises what the library's last failure on this thread says."""
    raise _KINDS.get(kind, RuntimeError)(library.sixwarp_error().decode())


def check(kind: int) -> None:
    """Raises unless `kind` is 0."""
    if kind:
        raise_error(kind)


def addresses(values) -> ctypes.Array:
    """An array of addresses for the library."""
    return (ctypes.c_uint64 * len(values))(*values)

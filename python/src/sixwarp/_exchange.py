"""Arrays of other libraries, through DLPack: JAX, and whatever follows the array API standard.

They are lent to NumPy on the CPU and to torch on a GPU, where the protocol also orders the two libraries' streams;
results go back to the library of the queries. No element is copied on the way in.
"""

from __future__ import annotations

from typing import Any, Callable

_CPU, _CUDA = 1, 2
# Libraries that are read directly.
_DIRECT = ("numpy", "torch", "cupy", "numba")

_foreign: dict[type, bool] = {}


def is_foreign(x: Any) -> bool:
    """Whether `x` is an array that only DLPack carries."""
    kind = type(x)
    known = _foreign.get(kind)
    if known is None:
        modules = {base.__module__.partition(".")[0] for base in kind.__mro__}
        known = hasattr(x, "__dlpack__") and hasattr(x, "__dlpack_device__") and modules.isdisjoint(_DIRECT)
        _foreign[kind] = known
    return known


def lend(x: Any) -> Any:
    """`x` as a NumPy array or a torch tensor on the same memory."""
    if not is_foreign(x):
        return x
    device = x.__dlpack_device__()[0]
    if device == _CPU:
        import numpy

        # NumPy reads no bfloat16 through DLPack, but what ml_dtypes adds it reads otherwise.
        try:
            return numpy.from_dlpack(x)
        except (BufferError, RuntimeError, TypeError, ValueError):
            return numpy.asarray(x)
    if int(device) == _CUDA:
        try:
            import torch
        except ImportError as error:
            name = type(x).__module__.partition(".")[0]
            raise ImportError(f"GPU arrays of {name} are read through torch, which is not installed") from error
        return torch.from_dlpack(x)
    raise TypeError(f"an array on DLPack device {device} is not read: CPU and CUDA arrays are")


def give_back(result: Any, like: Any) -> Any:
    """A result as an array of the library of `like`; as it is if that library does not say how."""
    if not hasattr(like, "__array_namespace__"):
        return result
    library = like.__array_namespace__()
    return library.from_dlpack(result) if hasattr(result, "is_cuda") else library.asarray(result)


def through(call: Callable, tensors: tuple, q: Any) -> Any:
    """`call` on lent tensors; its result, or each of its results, given back."""
    result = call(tuple(None if x is None else lend(x) for x in tensors))
    if isinstance(result, tuple):
        return tuple(give_back(x, q) for x in result)
    return give_back(result, q)

"""What is needed of other libraries' tensors: shape, strides, type, memory, and new ones.

An adapter is chosen by a tensor's type, once. NumPy arrays and CPU tensors of torch are computed on
the CPU; CUDA tensors of torch and whatever has `__cuda_array_interface__` (CuPy, Numba) on their GPU. Other
libraries' arrays are lent to these (`_exchange`).
"""

from __future__ import annotations

import contextlib
import functools
import sys
from typing import Any, Sequence, Tuple

from ._describe import dense_strides

CPU = -1
# Numbers of element types, as the library's `Memory` has them; any other stands for types it does not know.
ELEMENTS = {"f32": 0, "f16": 1, "bf16": 2, "i32": 3, "u8": 4, "f64": 5, "bool": 6, "e4m3": 7}
UNKNOWN = 2**32 - 1
INT32 = (-(2**31), 2**31 - 1)

# Element type, device, whether it may be written, address, and the bytes that are there.
Memory = Tuple[int, int, bool, int, int]


def span(shape: tuple, strides: tuple, size: int) -> int:
    """Bytes from the first element to behind the last."""
    if 0 in shape:
        return 0
    return size + sum((extent - 1) * stride for extent, stride in zip(shape, strides))


def in_elements(name: str, strides: tuple, size: int) -> tuple:
    """Strides in bytes, as strides in elements."""
    for stride in strides:
        if stride < 0:
            raise ValueError(f"{name} has strides of {strides} bytes: negative ones are not read, make a copy")
        if stride % size:
            raise ValueError(f"{name} has strides of {strides} bytes: multiples of its element's {size} are needed")
    return tuple(stride // size for stride in strides)


def ensure_int32(name: str, least: int, most: int) -> None:
    """Refuses integers that become others when they are cut to 32 bits."""
    for value in (least, most):
        if not INT32[0] <= value <= INT32[1]:
            raise ValueError(f"{name} holds {value}: 32-bit integers are needed")


class NumpyAdapter:
    """NumPy arrays; `bfloat16` and `float8_e4m3fn` are those of ml_dtypes."""

    names = {
        "float64": "f64", "float32": "f32", "float16": "f16", "bfloat16": "bf16", "int32": "i32", "uint8": "u8",
        "float8_e4m3fn": "e4m3",
    }  # fmt: skip

    def __init__(self) -> None:
        import numpy

        self.numpy, self.masked = numpy, numpy.ma.MaskedArray
        self.elements: dict = {}

    def ensure_plain(self, name: str, x: Any) -> None:
        """Refuses arrays that are more than their memory."""
        if isinstance(x, self.masked):
            raise TypeError(f"{name} is a masked array, whose mask is not read: give its filled() or its data")

    def key(self, x: Any) -> tuple:
        return x.shape, x.strides, x.dtype

    def shape(self, x: Any) -> tuple:
        return x.shape

    def strides(self, x: Any, name: str) -> tuple:
        return in_elements(name, x.strides, x.itemsize)

    def dtype(self, x: Any) -> str:
        kind = x.dtype
        return self.names.get(kind.name, kind.name) if kind.isnative else f"{kind.name} of another byte order"

    def device(self, x: Any, name: str) -> int:
        return CPU

    def pointer(self, x: Any) -> int:
        return x.ctypes.data

    def memory(self, x: Any) -> Memory:
        element = self.elements.get(x.dtype)
        if element is None:
            element = self.elements[x.dtype] = ELEMENTS.get(self.dtype(x), UNKNOWN)
        flags = x.flags
        there = x.nbytes if flags.c_contiguous else span(x.shape, x.strides, x.itemsize)
        return element, CPU, flags.writeable, x.ctypes.data, there

    def written(self, x: Any) -> None:
        """NumPy does not count writes."""

    def empty(self, shape: tuple, dtype: str, like: Any) -> Any:
        kind = {"f32": "float32", "f16": "float16", "i32": "int32", "u8": "uint8"}.get(dtype) or like.dtype
        return self.numpy.empty(shape, kind)

    def empty_like(self, x: Any) -> Any:
        return self.numpy.empty_like(x, subok=False)

    def contiguous(self, x: Any) -> Any:
        return self.numpy.ascontiguousarray(x)

    def repeat(self, x: Any, count: int) -> Any:
        """Every entry of the first dimension, `count` times."""
        return x.repeat(count, axis=0)

    def as_bytes(self, x: Any) -> Any:
        """8-bit floats as what they are stored as; others as they are."""
        return x.view(self.numpy.uint8) if x.dtype.name.startswith("float8") else x

    def integers(self, name: str, x: Any) -> Any:
        if x.dtype == self.numpy.int32 and x.flags.c_contiguous:
            return x
        if x.dtype.kind not in "iu":
            raise TypeError(f"{name} is {x.dtype}: int32 is needed")
        if x.size:
            ensure_int32(name, int(x.min()), int(x.max()))
        return x.astype(self.numpy.int32, order="C")

    def floats(self, name: str, x: Any) -> Any:
        if x.dtype == self.numpy.float32 and x.flags.c_contiguous:
            return x
        if x.dtype.kind != "f" and x.dtype.name != "bfloat16":
            raise TypeError(f"{name} is {x.dtype}: float32 is needed")
        return x.astype(self.numpy.float32, order="C")

    def stream(self, device: int) -> int:
        return 0

    def longest(self, offsets: Any) -> int:
        return int((offsets[1:] - offsets[:-1]).max(initial=0))

    def refuse_gradients(self, *tensors: Any) -> None:
        """These know no gradients."""


class CudaArrayAdapter:
    """GPU arrays by `__cuda_array_interface__`; new ones are made by CuPy."""

    names = {
        "<f8": "f64", "<f4": "f32", "<f2": "f16", "<V2": "bf16", "|V2": "bf16", "<i4": "i32", "|u1": "u8",
        "|b1": "bool",
    }  # fmt: skip

    def ensure_plain(self, name: str, x: Any) -> None:
        """Refuses arrays that are more than their memory."""
        if x.__cuda_array_interface__.get("mask") is not None:
            raise TypeError(f"{name} has a mask, which is not read")

    def key(self, x: Any) -> tuple:
        interface = x.__cuda_array_interface__
        return interface["shape"], interface.get("strides"), interface["typestr"], self.device(x, "")

    def shape(self, x: Any) -> tuple:
        return tuple(x.__cuda_array_interface__["shape"])

    def strides(self, x: Any, name: str) -> tuple:
        interface = x.__cuda_array_interface__
        shape, strides, size = interface["shape"], interface.get("strides"), int(interface["typestr"][2:])
        if strides is None:
            return tuple(dense_strides(shape))
        return in_elements(name, tuple(strides), size)

    def dtype(self, x: Any) -> str:
        kind = x.__cuda_array_interface__["typestr"]
        return "bf16" if "bfloat16" in str(getattr(x, "dtype", "")) else self.names.get(kind, kind)

    def device(self, x: Any, name: str) -> int:
        return int(getattr(getattr(x, "device", None), "id", 0))

    def pointer(self, x: Any) -> int:
        return x.__cuda_array_interface__["data"][0]

    def memory(self, x: Any) -> Memory:
        interface = x.__cuda_array_interface__
        address, read_only = interface["data"]
        shape, size = tuple(interface["shape"]), int(interface["typestr"][2:])
        there = span(shape, self.strides(x, "the array"), 1) * size
        return ELEMENTS.get(self.dtype(x), UNKNOWN), self.device(x, ""), not read_only, address, there

    def written(self, x: Any) -> None:
        """Nobody counts writes."""

    def empty(self, shape: tuple, dtype: str, like: Any) -> Any:
        import cupy

        kind = {"f32": "float32", "i32": "int32", "u8": "uint8"}.get(dtype) or like.dtype
        return cupy.empty(shape, kind)

    def empty_like(self, x: Any) -> Any:
        import cupy

        return cupy.empty(self.shape(x), x.dtype)

    def contiguous(self, x: Any) -> Any:
        import cupy

        return cupy.ascontiguousarray(x)

    def copied(self, x: Any) -> Any:
        """A copy of the memory from the first element of `x` to its last, which keeps strides."""
        import cupy

        array = cupy.asarray(x)
        elements = span(self.shape(x), self.strides(x, "the array"), 1)
        return cupy.lib.stride_tricks.as_strided(array, (elements,), (array.itemsize,)).copy()

    def repeat(self, x: Any, count: int) -> Any:
        return x.repeat(count, axis=0)

    def as_bytes(self, x: Any) -> Any:
        return x

    def integers(self, name: str, x: Any) -> Any:
        return self._contiguous(name, x, "i32")

    def floats(self, name: str, x: Any) -> Any:
        return self._contiguous(name, x, "f32")

    def _contiguous(self, name: str, x: Any, dtype: str) -> Any:
        strides = self.strides(x, name)
        if self.dtype(x) != dtype or strides != tuple(dense_strides(self.shape(x))):
            raise TypeError(f"{name} is {self.dtype(x)} of strides {strides}: contiguous {dtype} is needed")
        return x

    def stream(self, device: int) -> int:
        try:
            import cupy
        except ImportError:
            return 0
        return cupy.cuda.get_current_stream().ptr

    def on(self, stream: int | None, device: int) -> Any:
        """A context in which arrays are made for work on `stream`."""
        import cupy

        return contextlib.nullcontext() if stream is None else cupy.cuda.ExternalStream(stream, device)

    def longest(self, offsets: Any) -> None:
        return None

    def refuse_gradients(self, *tensors: Any) -> None:
        """These know no gradients."""


_adapters: dict[type, Any] = {}


def adapter(x: Any, name: str = "q") -> Any:
    """The adapter for tensors like `x`."""
    found = _adapters.get(type(x))
    if found is None:
        found = _adapters[type(x)] = _choose(x, name)
    return found


def adapter_for(names: Sequence[str], tensors: Sequence[Any]) -> Any:
    """The adapter for all tensors (`None` is none), which are of one library and plain memory."""
    a = adapter(tensors[0], names[0])
    for name, x in zip(names, tensors):
        if x is not None:
            if _adapters.get(type(x)) is not a and adapter(x, name) is not a:
                kinds = f"{name} is {_kind(x)} and {names[0]} is {_kind(tensors[0])}"
                raise TypeError(f"{kinds}: tensors of one library are needed")
            a.ensure_plain(name, x)
    return a


def ensure_given(**tensors: Any) -> None:
    """Refuses `None` where there must be a tensor."""
    for name, x in tensors.items():
        if x is None:
            raise TypeError(f"{name} is None: a tensor is needed")


@functools.lru_cache(maxsize=None)
def torch_adapter() -> Any:
    """The adapter for torch's tensors."""
    from ._torch_tensor import TorchAdapter

    return TorchAdapter()


_numpy = functools.lru_cache(maxsize=None)(NumpyAdapter)
_cuda = functools.lru_cache(maxsize=None)(CudaArrayAdapter)


def _kind(x: Any) -> str:
    return f"{type(x).__module__.partition('.')[0]}'s {type(x).__name__}"


def _choose(x: Any, name: str) -> Any:
    modules = {base.__module__.partition(".")[0] for base in type(x).__mro__}
    if "torch" in modules and isinstance(x, sys.modules["torch"].Tensor):
        return torch_adapter()
    if "numpy" in modules and hasattr(x, "ctypes"):
        return _numpy()
    if isinstance(getattr(x, "__cuda_array_interface__", None), dict):
        return _cuda()
    raise TypeError(
        f"{name} is {type(x).__module__}.{type(x).__qualname__}, which is not a tensor sixwarp reads: give numpy "
        "arrays, torch tensors (CPU or CUDA), or GPU arrays with __cuda_array_interface__ (CuPy, Numba); "
        "`attention` and `merge` also take arrays that DLPack carries (JAX)"
    )

"""What is needed of other libraries' tensors: shape, strides, type, address, and new ones.

An adapter is chosen by a tensor's type, once. NumPy arrays and CPU tensors of torch are computed on
the CPU; CUDA tensors of torch and whatever has `__cuda_array_interface__` (CuPy, Numba) on their GPU. Other
libraries' arrays are lent to these (`_exchange`).
"""

from __future__ import annotations

import contextlib
from typing import Any

from ._describe import dense_strides

CPU = -1


class NumpyAdapter:
    """NumPy arrays; `bfloat16` is that of ml_dtypes."""

    names = {"float32": "f32", "float16": "f16", "bfloat16": "bf16", "int32": "i32", "uint8": "u8"}

    def __init__(self) -> None:
        import numpy

        self.numpy = numpy

    def key(self, x: Any) -> tuple:
        return x.shape, x.strides, x.dtype

    def shape(self, x: Any) -> tuple:
        return x.shape

    def strides(self, x: Any) -> tuple:
        if any(stride % x.itemsize or stride < 0 for stride in x.strides):
            raise ValueError(f"strides {x.strides} are no multiples of {x.itemsize} bytes")
        return tuple(stride // x.itemsize for stride in x.strides)

    def dtype(self, x: Any) -> str:
        return self.names.get(x.dtype.name, x.dtype.name)

    def device(self, x: Any) -> int:
        return CPU

    def pointer(self, x: Any) -> int:
        return x.__array_interface__["data"][0]

    def empty(self, shape: tuple, dtype: str, like: Any) -> Any:
        kind = {"f32": "float32", "f16": "float16", "i32": "int32", "u8": "uint8"}.get(dtype) or like.dtype
        return self.numpy.empty(shape, kind)

    def integers(self, x: Any) -> Any:
        return self.numpy.ascontiguousarray(x, self.numpy.int32)

    def floats(self, x: Any) -> Any:
        return self.numpy.ascontiguousarray(x, self.numpy.float32)

    def stream(self, device: int) -> int:
        return 0

    def longest(self, offsets: Any) -> int:
        return int((offsets[1:] - offsets[:-1]).max(initial=0))

    def refuse_gradients(self, *tensors: Any) -> None:
        """These know no gradients."""


class CudaArrayAdapter:
    """GPU arrays by `__cuda_array_interface__`; new ones are made by CuPy."""

    names = {"<f4": "f32", "<f2": "f16", "<i4": "i32", "|u1": "u8", "<V2": "bf16", "|V2": "bf16"}

    def key(self, x: Any) -> tuple:
        interface = x.__cuda_array_interface__
        return interface["shape"], interface.get("strides"), interface["typestr"], self.device(x)

    def shape(self, x: Any) -> tuple:
        return tuple(x.__cuda_array_interface__["shape"])

    def strides(self, x: Any) -> tuple:
        interface = x.__cuda_array_interface__
        shape, strides, size = interface["shape"], interface.get("strides"), int(interface["typestr"][2:])
        if strides is None:
            return tuple(dense_strides(shape))
        return tuple(stride // size for stride in strides)

    def dtype(self, x: Any) -> str:
        kind = x.__cuda_array_interface__["typestr"]
        return "bf16" if "bfloat16" in str(getattr(x, "dtype", "")) else self.names.get(kind, kind)

    def device(self, x: Any) -> int:
        return int(getattr(getattr(x, "device", None), "id", 0))

    def pointer(self, x: Any) -> int:
        return x.__cuda_array_interface__["data"][0]

    def empty(self, shape: tuple, dtype: str, like: Any) -> Any:
        import cupy

        kind = {"f32": "float32", "i32": "int32", "u8": "uint8"}.get(dtype) or like.dtype
        return cupy.empty(shape, kind)

    def integers(self, x: Any) -> Any:
        return self._contiguous(x, "i32", "lengths, offsets and tables")

    def floats(self, x: Any) -> Any:
        return self._contiguous(x, "f32", "sinks")

    def _contiguous(self, x: Any, dtype: str, what: str) -> Any:
        if self.dtype(x) != dtype or self.strides(x) != tuple(dense_strides(self.shape(x))):
            raise TypeError(f"{what} are contiguous {dtype} on the GPU, not {self.dtype(x)} of strides {self.strides(x)}")
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


def adapter(x: Any) -> Any:
    """The adapter for tensors like `x`."""
    found = _adapters.get(type(x))
    if found is None:
        found = _adapters[type(x)] = _choose(x)
    return found


def _choose(x: Any) -> Any:
    modules = {base.__module__.partition(".")[0] for base in type(x).__mro__}
    if "torch" in modules:
        from ._torch_tensor import TorchAdapter

        return TorchAdapter()
    if "numpy" in modules and hasattr(x, "__array_interface__"):
        return NumpyAdapter()
    if hasattr(x, "__cuda_array_interface__"):
        return CudaArrayAdapter()
    raise TypeError(
        f"{type(x).__module__}.{type(x).__qualname__} is not a tensor sixwarp reads: give numpy arrays, "
        "torch tensors (CPU or CUDA), or GPU arrays with __cuda_array_interface__ (CuPy, Numba); `attention` "
        "and `merge` also take arrays that DLPack carries (JAX)"
    )

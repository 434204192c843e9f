"""torch tensors."""

from __future__ import annotations

import contextlib
import operator
from typing import Any

import torch
import torch.autograd.forward_ad as forward_ad

from . import _quick, _torch_functions
from ._tensor import CPU, ELEMENTS, INT32, UNKNOWN, Memory, ensure_int32, span

_NAMES = {
    torch.float64: "f64",
    torch.float32: "f32",
    torch.float16: "f16",
    torch.bfloat16: "bf16",
    torch.int32: "i32",
    torch.uint8: "u8",
    torch.bool: "bool",
    torch.float8_e4m3fn: "e4m3",
}
_TYPES = {name: dtype for dtype, name in _NAMES.items()}
_ELEMENTS = {dtype: ELEMENTS[name] for dtype, name in _NAMES.items()}
_INTEGERS = (torch.int32, torch.int64, torch.int16, torch.int8, torch.uint8)
_FLOAT8 = (torch.float8_e4m3fn, torch.float8_e8m0fnu) if hasattr(torch, "float8_e8m0fnu") else (torch.float8_e4m3fn,)
_PLAIN_DISPATCH = torch.Tensor.__torch_dispatch__


class TorchAdapter:
    """torch tensors on the CPU or on a CUDA device."""

    # A call of the method without a Python frame around it.
    pointer = staticmethod(operator.methodcaller("data_ptr"))

    def __init__(self) -> None:
        self.raw_stream = getattr(torch._C, "_cuda_getCurrentRawStream", None)
        _quick.attach((torch.Tensor, torch.nn.Parameter), _torch_functions.table())

    def ensure_plain(self, name: str, x: Any) -> None:
        """Refuses tensors whose numbers are not what their memory holds, or that have none."""
        if type(x).__torch_dispatch__ is not _PLAIN_DISPATCH:
            kind = type(x).__qualname__
            raise TypeError(f"{name} is {kind}, which has operations of its own: give the tensor it stands for")
        if torch._C._functorch.is_functorch_wrapped_tensor(x):
            raise NotImplementedError(f"{name} is inside a transform of torch.func, which attention has no rule for")
        if x.is_nested or x.layout is not torch.strided:
            kind = "nested" if x.is_nested else str(x.layout)
            raise TypeError(f"{name} is {kind}: dense tensors (torch.strided) are read")
        if x.device.type not in ("cpu", "cuda"):
            raise TypeError(f"{name} is on {x.device}: tensors on the CPU and on CUDA devices are read")
        if x.is_neg() or x.is_conj():
            raise TypeError(f"{name} is a lazily negated or conjugated view: give {name}.resolve_neg().resolve_conj()")

    def key(self, x: Any) -> tuple:
        # Types are singletons, and their hashes slow; the device's number is -1 on the CPU.
        return x.shape, x.stride(), id(x.dtype), x.get_device()

    def shape(self, x: Any) -> tuple:
        return tuple(x.shape)

    def strides(self, x: Any, name: str) -> tuple:
        return x.stride()

    def dtype(self, x: Any) -> str:
        return _NAMES.get(x.dtype, str(x.dtype))

    def device(self, x: Any, name: str) -> int:
        return x.device.index if x.device.type == "cuda" else CPU

    def memory(self, x: Any) -> Memory:
        there = x.untyped_storage().nbytes() - x.storage_offset() * x.element_size()
        return _ELEMENTS.get(x.dtype, UNKNOWN), x.get_device(), True, x.data_ptr(), max(there, 0)

    def written(self, x: Any) -> None:
        """Tells autograd that `x` was written."""
        if not x.is_inference():
            torch.autograd.graph.increment_version(x)

    def empty(self, shape: tuple, dtype: str, like: Any) -> Any:
        return torch.empty(shape, dtype=_TYPES[dtype], device=like.device)

    def empty_like(self, x: Any) -> Any:
        return torch.empty_like(x, requires_grad=False)

    def contiguous(self, x: Any) -> Any:
        return x.contiguous()

    def copied(self, x: Any) -> Any:
        """A copy of the memory from the first element of `x` to its last, which keeps strides."""
        return x.detach().as_strided((span(x.shape, x.stride(), 1),), (1,)).clone()

    def repeat(self, x: Any, count: int) -> Any:
        return x.repeat_interleave(count, 0)

    def as_bytes(self, x: Any) -> Any:
        return x.view(torch.uint8) if x.dtype in _FLOAT8 else x

    def integers(self, name: str, x: Any) -> Any:
        if x.dtype == torch.int32 and x.is_contiguous():
            return x
        if x.dtype not in _INTEGERS:
            raise TypeError(f"{name} is {x.dtype}: int32 is needed")
        if x.dtype == torch.int64:
            x = self._within_int32(name, x)
        return x.to(torch.int32).contiguous()

    @staticmethod
    def _within_int32(name: str, x: Any) -> Any:
        if x.is_cuda:
            # Reading them would wait for the GPU; what is out of range stays out of every range.
            return x.clamp(*INT32)
        if x.numel():
            ensure_int32(name, int(x.min()), int(x.max()))
        return x

    def floats(self, name: str, x: Any) -> Any:
        if x.dtype == torch.float32 and x.is_contiguous():
            return x
        if not x.dtype.is_floating_point:
            raise TypeError(f"{name} is {x.dtype}: float32 is needed")
        return x.detach().to(torch.float32).contiguous()

    def stream(self, device: int) -> int:
        if self.raw_stream is not None:
            return self.raw_stream(device)
        return torch.cuda.current_stream(device).cuda_stream

    def on(self, stream: int | None, device: int) -> Any:
        """A context in which tensors are made for work on `stream`."""
        if stream is None:
            return contextlib.nullcontext()
        return torch.cuda.stream(torch.cuda.ExternalStream(stream, device=device))

    def longest(self, offsets: Any) -> int | None:
        """The longest sequence, where asking does not wait for a GPU."""
        if offsets.is_cuda or offsets.numel() < 2:
            return None
        return int(offsets.diff().max())

    def refuse_gradients(self, *tensors: Any) -> None:
        refuse_gradients(*tensors)


def refuse_gradients(*tensors: Any) -> None:
    """There are no derivatives; say so before they are missed."""
    given = [x for x in tensors if x is not None]
    if torch.is_grad_enabled() and any(x.requires_grad for x in given):
        raise NotImplementedError(
            "sixwarp computes the forward pass only: call it under torch.no_grad(), or detach the tensors"
        )
    if forward_ad._current_level >= 0 and any(forward_ad.unpack_dual(x).tangent is not None for x in given):
        raise NotImplementedError(_NO_TANGENTS)


_NO_TANGENTS = (
    "sixwarp has no forward-mode derivative (torch.func.jvp, torch.autograd.forward_ad): give tensors without tangents"
)


def refuse_forward_mode() -> None:
    """What a transform of torch.func unwraps has lost its tangents; nobody can tell whether there were any."""
    if forward_ad._current_level >= 0 and torch._C._is_fwd_grad_enabled():
        raise NotImplementedError(_NO_TANGENTS)


def without_tangents() -> Any:
    """A context for calls on tensors that were seen to have no tangents."""
    return forward_ad._set_fwd_grad_enabled(False) if forward_ad._current_level >= 0 else contextlib.nullcontext()

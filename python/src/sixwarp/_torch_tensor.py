"""torch tensors."""

from __future__ import annotations

import contextlib
import operator
from typing import Any

import torch

from . import _quick
from ._tensor import CPU

_NAMES = {
    torch.float32: "f32",
    torch.float16: "f16",
    torch.bfloat16: "bf16",
    torch.int32: "i32",
    torch.uint8: "u8",
}
_TYPES = {name: dtype for dtype, name in _NAMES.items()}


class TorchAdapter:
    """torch tensors on the CPU or on a CUDA device."""

    # A call of the method without a Python frame around it.
    pointer = staticmethod(operator.methodcaller("data_ptr"))

    def __init__(self) -> None:
        self.raw_stream = getattr(torch._C, "_cuda_getCurrentRawStream", None)
        _quick.attach((torch.Tensor, torch.nn.Parameter))

    def key(self, x: Any) -> tuple:
        # Types are singletons, and their hashes slow; the device's number is -1 on the CPU.
        return x.shape, x.stride(), id(x.dtype), x.get_device()

    def shape(self, x: Any) -> tuple:
        return tuple(x.shape)

    def strides(self, x: Any) -> tuple:
        return x.stride()

    def dtype(self, x: Any) -> str:
        return _NAMES.get(x.dtype, str(x.dtype))

    def device(self, x: Any) -> int:
        kind = x.device.type
        if kind == "cuda":
            return x.device.index
        if kind == "cpu":
            return CPU
        raise TypeError(f"a tensor on {x.device} is not read: CPU and CUDA tensors are")

    def empty(self, shape: tuple, dtype: str, like: Any) -> Any:
        return torch.empty(shape, dtype=_TYPES[dtype], device=like.device)

    def integers(self, x: Any) -> Any:
        if x.dtype == torch.int32 and x.is_contiguous():
            return x
        return x.to(torch.int32).contiguous()

    def floats(self, x: Any) -> Any:
        if x.dtype == torch.float32 and x.is_contiguous():
            return x
        return x.to(torch.float32).contiguous()

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
    """There is no backward; say so before it is missed."""
    if torch.is_grad_enabled() and any(x.requires_grad for x in tensors):
        raise NotImplementedError(
            "sixwarp computes the forward pass only: call it under torch.no_grad(), or detach the tensors"
        )

"""What `sixwarp.plan` returns."""

from __future__ import annotations

from typing import Any, Optional, Sequence

from . import _describe as describe
from . import _quick
from ._plan import Bound, raw_stream

_NAMES = ("q", "k", "v", "sinks", "cu_seqlens_q", "cu_seqlens_k", "seqused_k", "page_table", "out")


class PlannedAttention:
    """What `sixwarp.plan` returns: call it with tensors of the planned shapes and strides."""

    __slots__ = ("_bound", "_call", "_planned", "_return_lse")

    def __init__(self, bound: Bound, return_lse: bool, tensors: tuple) -> None:
        self._bound, self._return_lse = bound, return_lse
        *inputs, out = tensors
        self._planned = [None if x is None else signature(bound.adapter, x) for x in inputs]
        if out is None:
            strides = normal(bound.out_shape, describe.dense_strides(bound.out_shape))
            planned_out = (bound.out_shape, strides, bound.dtype, bound.adapter.device(inputs[0]))
        else:
            planned_out = signature(bound.adapter, out)
        self._planned.append(planned_out)
        self._call = _quick.unknown

    @property
    def workspace_bytes(self) -> int:
        """Bytes of device memory a call needs beside its tensors (a uint8 tensor)."""
        return self._bound.plan.workspace_bytes

    @property
    def summary(self) -> str:
        """The chosen kernel."""
        return self._bound.plan.summary

    @property
    def flops(self) -> float:
        """Floating-point operations of both products, if sequences are as long as they can be."""
        return self._bound.plan.flops

    def __repr__(self) -> str:
        return repr(self._bound.plan)

    def __call__(
        self,
        q: Any,
        k: Any,
        v: Any,
        *,
        sinks: Any = None,
        cu_seqlens_q: Any = None,
        cu_seqlens_k: Any = None,
        seqused_k: Any = None,
        page_table: Any = None,
        out: Any = None,
        lse: Any = None,
        workspace: Any = None,
        stream: Any = None,
    ) -> Any:
        """Runs the plan; lengths, offsets and tables are contiguous int32 and sinks float32."""
        if stream is not None:
            stream = raw_stream(stream)
        result = self._call(
            q, k, v, sinks, cu_seqlens_q, cu_seqlens_k, seqused_k, page_table, out, lse, workspace, stream
        )
        if result is not None:
            return result
        tensors = (q, k, v, sinks, cu_seqlens_q, cu_seqlens_k, seqused_k, page_table)
        return self._run(tensors, out, lse, workspace, stream)

    def _run(self, tensors: tuple, out: Any, lse: Any, workspace: Any, stream: Optional[int]) -> Any:
        """The long way, which words mistakes and makes the quick way know the plan."""
        bound, adapter = self._bound, self._bound.adapter
        q, k, v, sinks, cu_q, cu_k, used, table = tensors
        self._ensure_alike((*tensors, out))
        adapter.refuse_gradients(q, k, v)
        if out is None:
            out = adapter.empty(bound.out_shape, bound.dtype, q)
        if lse is None and self._return_lse:
            lse = adapter.empty(bound.lse_shape, "f32", q)
        values = None if bound.shared else v
        bound.run((q, out, lse, sinks, cu_q, k, values, cu_k, used, table), q, stream, workspace)
        self._call = _quick.planned(bound.plan.handle, bound, *tensors, out, lse) or _quick.unknown
        return (out, lse) if self._return_lse else out

    def _ensure_alike(self, tensors: tuple) -> None:
        for name, planned, x in zip(_NAMES, self._planned, tensors):
            if planned is not None and x is not None and signature(self._bound.adapter, x) != planned:
                raise ValueError(
                    f"{name} has {_words(signature(self._bound.adapter, x))}: the plan was made for "
                    f"{_words(planned)}"
                )
        if self._bound.shared and not describe.is_shared(self._bound.adapter, tensors[1], tensors[2]):
            raise ValueError("v is other memory than k: the plan was made for values that are the keys")


def normal(shape: tuple, strides: Sequence[int]) -> tuple:
    """Strides, without those of single entries, which do not matter."""
    return tuple(stride if extent > 1 else 0 for extent, stride in zip(shape, strides))


def signature(adapter: Any, x: Any) -> tuple:
    """Everything about a tensor that a plan depends on."""
    shape = tuple(adapter.shape(x))
    return shape, normal(shape, adapter.strides(x)), adapter.dtype(x), adapter.device(x)


def _words(tensor: tuple) -> str:
    shape, strides, dtype, device = tensor
    place = "the CPU" if device < 0 else f"GPU {device}"
    return f"shape {shape} with strides {strides} of {dtype} on {place}"

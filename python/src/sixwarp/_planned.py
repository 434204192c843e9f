"""What `sixwarp.plan` returns."""

from __future__ import annotations

from typing import Any, Generic, Optional, Sequence, TypeVar

from . import _describe as describe
from . import _quick
from ._plan import Bound, raw_stream
from ._prepare import Tensors
from ._tensor import adapter_for, ensure_given

T = TypeVar("T")
R = TypeVar("R")
_NAMES = (*Tensors._fields, "lse")


class PlannedAttention(Generic[T, R]):
    """What `sixwarp.plan` returns: call it with tensors of the planned shapes and strides."""

    __slots__ = ("_bound", "_call", "_keys", "_planned", "_return_lse")

    def __init__(self, bound: Bound, return_lse: bool, tensors: Tensors) -> None:
        self._bound, self._return_lse = bound, return_lse
        a = bound.adapter
        given = {name: x for name, x in zip(tensors._fields, tensors) if x is not None}
        # What each tensor must be like, by name; and the adapter's keys of those that are.
        self._planned = {name: signature(a, x, name) for name, x in given.items()}
        self._keys = {name: a.key(x) for name, x in given.items()}
        device = a.device(tensors.q, "q")
        self._planned.setdefault("out", _new(bound.out_shape, bound.dtype, device))
        if return_lse:
            self._planned["lse"] = _new(bound.lse_shape, "f32", device)
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
        # spell: tensors of a signature
        sinks: Any = None,
        cu_seqlens_q: Any = None,
        cu_seqlens_k: Any = None,
        seqused_k: Any = None,
        page_table: Any = None,
        attn_mask: Any = None,
        k_descale: Any = None,
        v_descale: Any = None,
        out: Any = None,
        # spelled
        lse: Any = None,
        workspace: Any = None,
        stream: Any = None,
    ) -> Any:
        """Runs the plan; lengths, offsets and tables are contiguous int32 and sinks float32."""
        if stream is not None:
            stream = raw_stream(stream)
        result = self._call(
            # spell: tensors
            q, k, v, sinks, cu_seqlens_q, cu_seqlens_k, seqused_k, page_table, attn_mask, k_descale, v_descale,
            out,
            # spelled
            lse, workspace, stream,
        )  # fmt: skip
        if result is not None:
            return result
        tensors = Tensors(
            # spell: tensors
            q, k, v, sinks, cu_seqlens_q, cu_seqlens_k, seqused_k, page_table, attn_mask, k_descale, v_descale,
            out,
            # spelled
        )  # fmt: skip
        return self._run(tensors, lse, workspace, stream)

    def _run(self, tensors: Tensors, lse: Any, workspace: Any, stream: Optional[int]) -> Any:
        """The long way, which words mistakes and makes the quick way know the plan."""
        bound, a, q = self._bound, self._bound.adapter, tensors.q
        self._ensure_alike((*tensors, lse), workspace)
        a.refuse_gradients(q, tensors.k, tensors.v, tensors.sinks, tensors.attn_mask, tensors.out, lse)
        out = a.empty(bound.out_shape, bound.dtype, q) if tensors.out is None else tensors.out
        made = a.empty(bound.lse_shape, "f32", q) if self._return_lse and lse is None else lse
        bound.run(tensors.slots(out, made, bound.shared), q, stream, workspace)
        for given in (tensors.out, lse):
            if given is not None:
                a.written(given)
        inputs = tensors[:-1]
        self._call = _quick.planned(bound.plan.handle, bound, *inputs, out, made) or _quick.unknown
        return (out, made) if self._return_lse else out

    def _ensure_alike(self, tensors: tuple, workspace: Any) -> None:
        """Every tensor is the plan's: by name, and in all that the plan depends on."""
        a = self._bound.adapter
        ensure_given(**dict(zip("qkv", tensors)))
        if adapter_for((*_NAMES, "workspace"), (*tensors, workspace)) is not a:
            raise TypeError(f"q is {type(tensors[0]).__name__}: the plan was made for tensors of another library")
        given = {name: x for name, x in zip(_NAMES, tensors) if x is not None}
        missing = [name for name in self._planned if name not in given and name not in ("out", "lse")]
        if missing:
            raise ValueError(f"{missing[0]} is missing: the plan takes {', '.join(self._planned)}")
        for name, x in given.items():
            self._ensure_planned(name, x)
        if self._bound.shared and not describe.is_shared(a, given["k"], given["v"]):
            raise ValueError("v is other memory than k: the plan was made for values that are the keys")
        if workspace is not None:
            self._ensure_workspace(workspace)

    def _ensure_planned(self, name: str, x: Any) -> None:
        if self._keys.get(name) == self._bound.adapter.key(x):
            return
        planned = self._planned.get(name)
        if planned is None:
            raise ValueError(f"{name} is given, and the plan takes {', '.join(self._planned)}")
        found = signature(self._bound.adapter, x, name)
        if found != planned:
            raise ValueError(f"{name} has {_words(found)}: the plan was made for {_words(planned)}")

    def _ensure_workspace(self, x: Any) -> None:
        shape, strides, dtype, device = signature(self._bound.adapter, x, "workspace")
        dense = strides == normal(shape, describe.dense_strides(shape))
        wanted = self._planned["q"][3]
        if dtype != "u8" or not dense or device != wanted:
            words = _words((shape, strides, dtype, device))
            raise ValueError(f"workspace has {words}: the plan takes contiguous u8 on {describe.place(wanted)}")


def normal(shape: tuple, strides: Sequence[int]) -> tuple:
    """Strides, without those of single entries, which do not matter."""
    return tuple(stride if extent > 1 else 0 for extent, stride in zip(shape, strides))


def signature(adapter: Any, x: Any, name: str) -> tuple:
    """Everything about a tensor that a plan depends on."""
    shape = tuple(adapter.shape(x))
    return shape, normal(shape, adapter.strides(x, name)), adapter.dtype(x), adapter.device(x, name)


def _new(shape: tuple, dtype: str, device: int) -> tuple:
    """The signature of a new, contiguous tensor."""
    return shape, normal(shape, describe.dense_strides(shape)), dtype, device


def _words(tensor: tuple) -> str:
    shape, strides, dtype, device = tensor
    return f"shape {shape} with strides {strides} of {dtype} on {describe.place(device)}"

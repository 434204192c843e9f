"""Plans: a problem's shapes decided once, run many times."""

from __future__ import annotations

import ctypes
import json
import struct
from typing import Any, Callable, Mapping, Optional, Sequence

from ._library import check, library, raise_error, run
from ._tensor import Memory

# `Memory` in crates/python/src/memory.rs: slot, element, device, writable, address, bytes.
_MEMORY = "IIiIQQ"
_one = struct.Struct(f"={_MEMORY}").pack


class Plan:
    """A problem planned for one device: which kernel, how much workspace, which tensors.

    Made by `sixwarp.plan`; calling it runs it. A call on a GPU only queues kernels on a stream, so it
    can be captured in a CUDA graph.
    """

    def __init__(self, description: dict, device: int) -> None:
        kind = ctypes.c_int32()
        text = json.dumps(description).encode()
        self.handle = library.sixwarp_plan(text, device, ctypes.byref(kind))
        if not self.handle:
            raise_error(kind.value)
        info = json.loads(library.sixwarp_plan_info(self.handle).decode())
        # Each slot's name, and the number the library knows it by.
        self.slots: dict[str, int] = {slot["name"]: slot["number"] for slot in info["slots"]}
        self.workspace_bytes: int = info["workspace_bytes"]
        self.summary: str = info["summary"]
        self.device: str = info["device"]
        self.flops: float = info["flops"]
        self.ordinal = device
        # Tensors travel as bytes: packing them is quicker than filling ctypes structures.
        self._pack = struct.Struct("=" + _MEMORY * len(self.slots)).pack
        # Bound here: modules may be gone when the interpreter ends.
        self._free = library.sixwarp_plan_free
        self._run = run

    def __del__(self) -> None:
        handle = getattr(self, "handle", None)
        if handle:
            self.handle = None
            self._free(handle)

    def __repr__(self) -> str:
        return f"<sixwarp.Plan on {self.device}: {self.summary}>"

    def launch(self, fields: Sequence[int], workspace: Optional[Memory], stream: int) -> None:
        """Runs on tensors, each a slot's number and its memory's fields, one after the other."""
        scratch = None if workspace is None else packed(workspace)
        kind = self._run(self.handle, self._pack(*fields), len(self.slots), scratch, stream)
        if kind:
            raise_error(kind)

    def named(self, tensors: Mapping[str, Any], memory: Any) -> list:
        """The fields of tensors by the names of their slots; `None`s are passed over."""
        fields: list = []
        slots = self.slots
        count = 0
        for name, x in tensors.items():
            if x is not None:
                number = slots.get(name)
                if number is None:
                    raise ValueError(f"{name} is given, and the plan takes {', '.join(slots)}")
                fields.append(number)
                fields += memory(x)
                count += 1
        if count != len(slots):
            missing = next(name for name in slots if tensors.get(name) is None)
            raise ValueError(f"{missing} is missing: the plan takes {', '.join(slots)}")
        return fields


class Bound:
    """A plan with an adapter for its tensors and the shapes of its results."""

    __slots__ = ("plan", "adapter", "out_shape", "lse_shape", "dtype", "shared")

    def __init__(
        self, plan: Plan, adapter: Any, out_shape: tuple, lse_shape: tuple, dtype: str, shared: bool
    ):
        self.plan, self.adapter, self.dtype, self.shared = plan, adapter, dtype, shared
        self.out_shape, self.lse_shape = out_shape, lse_shape

    def run(
        self, tensors: Mapping[str, Any], like: Any, stream: Optional[int] = None, workspace: Any = None
    ) -> None:
        """Runs on tensors by the names of the plan's slots."""
        plan, adapter = self.plan, self.adapter
        if plan.ordinal < 0:
            plan.launch(plan.named(tensors, adapter.memory), None, 0)
            return
        # Copies are held until the work is queued: allocators reuse memory in the order of the stream.
        tensors = aligned(tensors, adapter, lambda: adapter.on(stream, plan.ordinal))
        fields = plan.named(tensors, adapter.memory)
        if plan.workspace_bytes and workspace is None:
            # Allocators reuse memory in the order of the stream it was taken on.
            with adapter.on(stream, plan.ordinal):
                workspace = adapter.empty((plan.workspace_bytes,), "u8", like)
        scratch = adapter.memory(workspace) if plan.workspace_bytes else None
        plan.launch(fields, scratch, adapter.stream(plan.ordinal) if stream is None else stream)


# Slots whose rows GPUs move in vectors, and of how many bytes: eight numbers each.
_ROWS = ("q", "k", "v", "segment 1 k", "segment 1 v")
_VECTOR = 16
_NARROW_VECTOR = 8


def aligned(tensors: Mapping[str, Any], adapter: Any, on_stream: Callable) -> Mapping[str, Any]:
    """Tensors by the names of their slots; queries, keys and values that begin between two vectors are copies."""
    found = [(name, tensors.get(name)) for name in _ROWS]
    between = {name: x for name, x in found if x is not None and _is_between(adapter, x)}
    if not between:
        return tensors
    with on_stream():
        return {**tensors, **{name: adapter.copied(x) for name, x in between.items()}}


def _is_between(adapter: Any, x: Any) -> bool:
    at = adapter.pointer(x)
    if at % _VECTOR == 0:
        return False
    return adapter.dtype(x) != "e4m3" or at % _NARROW_VECTOR != 0


def packed(memory: Memory) -> bytes:
    """Memory that no slot names."""
    return _one(0, *memory)


def raw_stream(stream: Any) -> int:
    """The `CUstream` of an integer, a torch stream or a CuPy stream."""
    if isinstance(stream, int):
        return stream
    for name in ("cuda_stream", "ptr"):
        if hasattr(stream, name):
            return int(getattr(stream, name))
    raise TypeError(f"stream is a CUstream as an integer, a torch or a CuPy stream, not {stream!r}")


def merge_parts(
    description: dict, out: Memory, lse: Memory, sinks: Optional[Memory], parts: Sequence[Memory], stream: int
) -> None:
    """Merges results; `parts` are output and log-sum-exp of each, in turn. A GPU does it on `stream`."""
    text = json.dumps(description).encode()
    logits = None if sinks is None else packed(sinks)
    all_parts = b"".join(map(packed, parts))
    check(library.sixwarp_merge(text, packed(out), packed(lse), logits, all_parts, len(parts) // 2, stream))

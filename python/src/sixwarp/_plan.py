"""Plans: a problem's shapes decided once, run many times."""

from __future__ import annotations

import ctypes
import json
import struct
from typing import Any, Optional, Sequence

from ._library import addresses, check, library, raise_error


class Plan:
    """A problem planned for one device: which kernel, how much workspace, in which order tensors go.

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
        self.slots: list[str] = info["slots"]
        self.workspace_bytes: int = info["workspace_bytes"]
        self.summary: str = info["summary"]
        self.device: str = info["device"]
        self.flops: float = info["flops"]
        self.ordinal = device
        # Addresses travel as bytes: packing them is quicker than filling a ctypes array.
        self._pack = struct.Struct(f"={len(self.slots) + (device >= 0)}Q").pack
        # Bound here: modules may be gone when the interpreter ends.
        self._free = library.sixwarp_plan_free
        self._run = library.sixwarp_run

    def __del__(self) -> None:
        handle = getattr(self, "handle", None)
        if handle:
            self.handle = None
            self._free(handle)

    def __repr__(self) -> str:
        return f"<sixwarp.Plan on {self.device}: {self.summary}>"

    def launch(self, pointers: Sequence[int], stream: int = 0) -> None:
        """Runs on addresses in the order of `slots`, then (on a GPU) that of the workspace."""
        kind = self._run(self.handle, self._pack(*pointers), stream)
        if kind:
            raise_error(kind)


class Bound:
    """A plan with an adapter for its tensors and the shapes of its results."""

    __slots__ = ("plan", "adapter", "out_shape", "lse_shape", "dtype", "shared")

    def __init__(
        self, plan: Plan, adapter: Any, out_shape: tuple, lse_shape: tuple, dtype: str, shared: bool
    ):
        self.plan, self.adapter, self.dtype, self.shared = plan, adapter, dtype, shared
        self.out_shape, self.lse_shape = out_shape, lse_shape

    def run(
        self, tensors: Sequence[Any], like: Any, stream: Optional[int] = None, workspace: Any = None
    ) -> None:
        """Runs on tensors in the order of the plan's slots; `None`s are passed over."""
        plan, adapter = self.plan, self.adapter
        pointer = adapter.pointer
        pointers = [pointer(x) for x in tensors if x is not None]
        if len(pointers) != len(plan.slots):
            raise ValueError(f"the plan takes {', '.join(plan.slots)}")
        if plan.ordinal < 0:
            plan.launch(pointers)
            return
        if plan.workspace_bytes:
            if workspace is None:
                # Allocators reuse memory in the order of the stream it was taken on.
                with adapter.on(stream, plan.ordinal):
                    workspace = adapter.empty((plan.workspace_bytes,), "u8", like)
            pointers.append(pointer(workspace))
        else:
            pointers.append(0)
        plan.launch(pointers, adapter.stream(plan.ordinal) if stream is None else stream)


def raw_stream(stream: Any) -> int:
    """The `CUstream` of an integer, a torch stream or a CuPy stream."""
    if isinstance(stream, int):
        return stream
    for name in ("cuda_stream", "ptr"):
        if hasattr(stream, name):
            return int(getattr(stream, name))
    raise TypeError(f"stream is a CUstream as an integer, a torch or a CuPy stream, not {stream!r}")


def merge_host(description: dict, pointers: Sequence[int]) -> None:
    """Merges results in host memory."""
    check(library.sixwarp_merge(json.dumps(description).encode(), addresses(pointers)))

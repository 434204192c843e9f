"""From a call's tensors and options to a plan."""

from __future__ import annotations

from typing import Any

from . import _describe as describe
from ._plan import Bound, Plan
from ._tensor import adapter as adapter_of


def prepare(
    a: Any, q: Any, k: Any, v: Any, layout: str, mask: str, sinks: Any, softcap: Any, scale: Any,
    cu_seqlens_q: Any, cu_seqlens_k: Any, max_seqlen_q: Any, max_seqlen_k: Any, seqused_k: Any,
    page_table: Any, return_lse: bool, out: Any, split: Any,
) -> Bound:  # fmt: skip
    """The plan for these tensors, and what running it needs."""
    if layout not in describe.LAYOUTS:
        raise ValueError(f"layout is one of {', '.join(describe.LAYOUTS)}, not {layout!r}")
    tensors = {
        "q": q, "k": k, "v": v, "sinks": sinks, "cu_seqlens_q": cu_seqlens_q,
        "cu_seqlens_k": cu_seqlens_k, "seqused_k": seqused_k, "page_table": page_table, "out": out,
    }  # fmt: skip
    ensure_one_library(a, tensors)
    device = describe.ensure_one_device(a, tensors)
    queries = describe.view(a, q, layout, "q")
    shared = describe.is_shared(a, k, v)
    segment = describe.keys(a, k, v, shared, layout)
    segment["mask"] = mask
    out_shape = (*a.shape(q)[:-1], a.shape(v)[-1])
    heads = queries["shape"][1]
    description: dict = {"q": queries, "segments": [segment]}
    batch = queries["shape"][0]
    if cu_seqlens_q is not None:
        batch = a.shape(cu_seqlens_q)[0] - 1
        longest = max_seqlen_q or a.longest(cu_seqlens_q) or queries["shape"][2]
        description["packed_queries"] = [batch, int(longest)]
    if cu_seqlens_k is not None:
        describe.ensure_length(a, "cu_seqlens_k", cu_seqlens_k, (batch + 1,))
        segment["packed"] = int(max_seqlen_k or a.longest(cu_seqlens_k) or segment["k"]["shape"][2])
    if page_table is not None:
        shape = tuple(a.shape(page_table))
        if len(shape) != 2 or shape[0] != batch:
            raise ValueError(f"page_table has shape {shape}: ({batch}, pages) is needed")
        segment["pages_per_sequence"] = shape[1]
    describe.ensure_length(a, "seqused_k", seqused_k, (batch,))
    describe.ensure_length(a, "sinks", sinks, (heads,))
    segment["used"] = seqused_k is not None
    if out is not None:
        describe.ensure_length(a, "out", out, out_shape)
        description["out"] = describe.view(a, out, layout, "out")
    else:
        description["out"] = _dense(out_shape, layout, queries["dtype"])
    description.update(
        scale=scale, softcap=softcap, sinks=sinks is not None, return_lse=return_lse, split=split
    )
    tokens = queries["shape"][2]
    lse_shape = (heads, tokens) if len(out_shape) == 3 else (queries["shape"][0], heads, tokens)
    return Bound(Plan(description, device), a, out_shape, lse_shape, queries["dtype"], shared)


def ensure_one_library(a: Any, tensors: dict) -> None:
    """All tensors are of the library of `q`."""
    for name, x in tensors.items():
        if x is not None and type(adapter_of(x)) is not type(a):
            raise TypeError(f"{name} is {type(x).__name__} and q is {type(tensors['q']).__name__}")


def _dense(shape: tuple, layout: str, dtype: str) -> dict:
    """The view of a new, contiguous tensor."""
    strides = describe.dense_strides(shape)
    if len(shape) == 3:
        shape, strides = (1, *shape), [0, *strides]
    order = (0, 2, 1, 3) if layout == "bshd" else (0, 1, 2, 3)
    strides = [strides[i] if shape[i] > 1 or i == 3 else 0 for i in order]
    return {"shape": [shape[i] for i in order], "strides": strides, "dtype": dtype}

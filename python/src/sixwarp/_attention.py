"""`attention` and `plan`."""

from __future__ import annotations

from typing import Any, Optional, Tuple

from . import _describe as describe
from ._plan import Bound, Plan
from ._tensor import adapter as adapter_of

Window = Optional[Tuple[Optional[int], Optional[int]]]

_cache: dict[tuple, Bound] = {}
_MOST = 4096


def attention(
    q: Any,
    k: Any,
    v: Any,
    *,
    layout: str = "bshd",
    causal: bool = False,
    window: Window = None,
    sinks: Any = None,
    softcap: Optional[float] = None,
    scale: Optional[float] = None,
    cu_seqlens_q: Any = None,
    cu_seqlens_k: Any = None,
    max_seqlen_q: Optional[int] = None,
    max_seqlen_k: Optional[int] = None,
    seqused_k: Any = None,
    page_table: Any = None,
    return_lse: bool = False,
    out: Any = None,
    stream: Any = None,
    split: Optional[int] = None,
) -> Any:
    """Attention of `q` over `k` and `v`, on the device they are on.

    Tensors are `[batch, tokens, heads, dim]`, or `[batch, heads, tokens, dim]` with `layout="bhsd"`;
    any strides with contiguous rows. Query heads are a multiple of KV heads.

    - `causal` is aligned at the bottom right: the last query sees the last key.
    - `window=(left, right)` counts keys beside the diagonal; `None` is no limit.
    - `sinks` is one logit per head, in the denominator only.
    - `softcap` caps scores softly; `scale` defaults to `1/sqrt(dim)`.
    - `cu_seqlens_q` (`[batch + 1]`): sequences lie one after the other in a `q` of three dimensions.
      `max_seqlen_q` bounds their lengths; without it a GPU plan is made for the sum.
    - `cu_seqlens_k`, `max_seqlen_k`: likewise for `k` and `v`.
    - `seqused_k` (`[batch]`): how many keys of each sequence count.
    - `page_table` (`[batch, pages]`): `k` and `v` are pages, `[page, row, heads, dim]`.
    - `return_lse` returns `(out, lse)`, the log-sum-exp a natural logarithm `[batch, heads, tokens]`.
    - `out` is written instead of a new tensor; `stream` is used instead of the current one.
    - `split` fixes how many keys are one part on a GPU, so that a result does not depend on the batch.

    >>> import numpy as np, sixwarp
    >>> q = np.ones((1, 2, 4, 64), np.float32)      # 2 tokens, 4 heads
    >>> k = np.zeros((1, 3, 1, 64), np.float32)     # 3 tokens, 1 head
    >>> v = np.arange(3, dtype=np.float32).reshape(1, 3, 1, 1) * np.ones((1, 3, 1, 64), np.float32)
    >>> out = sixwarp.attention(q, k, v, causal=True)
    >>> out[0, :, 0, 0]                              # means of (0, 1) and of (0, 1, 2)
    array([0.5, 1. ], dtype=float32)
    """
    a = adapter_of(q)
    key_of = a.key
    try:
        views = key_of(q), key_of(k), key_of(v)
        same = v is k or a.pointer(v) == a.pointer(k)
    except AttributeError:
        _ensure_one_library(a, {"q": q, "k": k, "v": v})
        raise
    key = (
        views, same, layout, causal, window, softcap, scale,
        None if sinks is None else key_of(sinks), return_lse, max_seqlen_q, max_seqlen_k, split,
        None if cu_seqlens_q is None else key_of(cu_seqlens_q),
        None if cu_seqlens_k is None else key_of(cu_seqlens_k),
        None if seqused_k is None else key_of(seqused_k),
        None if page_table is None else key_of(page_table),
        None if out is None else key_of(out),
    )  # fmt: skip
    bound = _cache.get(key)
    if sinks is not None:
        sinks = a.floats(sinks)
    if cu_seqlens_q is not None:
        cu_seqlens_q = a.integers(cu_seqlens_q)
    if cu_seqlens_k is not None:
        cu_seqlens_k = a.integers(cu_seqlens_k)
    if seqused_k is not None:
        seqused_k = a.integers(seqused_k)
    if page_table is not None:
        page_table = a.integers(page_table)
    if bound is None or _depends_on_lengths(
        bound, cu_seqlens_q, max_seqlen_q, cu_seqlens_k, max_seqlen_k
    ):
        bound = _prepare(
            a, q, k, v, layout, describe.mask(causal, window), sinks, softcap, scale,
            cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, seqused_k, page_table,
            return_lse, out, split,
        )  # fmt: skip
        if len(_cache) >= _MOST:
            _cache.pop(next(iter(_cache)))
        _cache[key] = bound
    if out is None:
        out = a.empty(bound.out_shape, bound.dtype, q)
    lse = a.empty(bound.lse_shape, "f32", q) if return_lse else None
    values = None if bound.shared else v
    tensors = (q, out, lse, sinks, cu_seqlens_q, k, values, cu_seqlens_k, seqused_k, page_table)
    bound.run(tensors, q, stream)
    return (out, lse) if return_lse else out


def _depends_on_lengths(bound: Bound, cu_q: Any, max_q: Any, cu_k: Any, max_k: Any) -> bool:
    """Whether the longest sequence was read from offsets, which may hold others next time."""
    read = (cu_q is not None and max_q is None) or (cu_k is not None and max_k is None)
    return read and bound.plan.ordinal < 0


def plan(
    q: Any,
    k: Any,
    v: Any,
    *,
    layout: str = "bshd",
    causal: bool = False,
    window: Window = None,
    sinks: Any = None,
    softcap: Optional[float] = None,
    scale: Optional[float] = None,
    cu_seqlens_q: Any = None,
    cu_seqlens_k: Any = None,
    max_seqlen_q: Optional[int] = None,
    max_seqlen_k: Optional[int] = None,
    seqused_k: Any = None,
    page_table: Any = None,
    return_lse: bool = False,
    out: Any = None,
    split: Optional[int] = None,
) -> "PlannedAttention":
    """Plans `attention` for tensors like these; the plan runs on others of the same shapes and strides.

    A call of the plan is the quickest path there is: it looks at nothing but addresses. Give `out` (and
    `lse`, `workspace`) and it allocates nothing.

    >>> import numpy as np, sixwarp
    >>> x = np.random.default_rng(0).standard_normal((1, 8, 2, 16), np.float32)
    >>> plan = sixwarp.plan(x, x, x)
    >>> plan.workspace_bytes
    0
    >>> bool(np.array_equal(plan(x, x, x), sixwarp.attention(x, x, x)))
    True
    """
    a = adapter_of(q)
    bound = _prepare(
        a, q, k, v, layout, describe.mask(causal, window), sinks, softcap, scale, cu_seqlens_q,
        cu_seqlens_k, max_seqlen_q, max_seqlen_k, seqused_k, page_table, return_lse, out, split,
    )  # fmt: skip
    return PlannedAttention(bound, return_lse)


class PlannedAttention:
    """What `sixwarp.plan` returns: call it with tensors of the planned shapes and strides."""

    def __init__(self, bound: Bound, return_lse: bool) -> None:
        self._bound, self._return_lse = bound, return_lse

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
        bound = self._bound
        if out is None:
            out = bound.adapter.empty(bound.out_shape, bound.dtype, q)
        if lse is None and self._return_lse:
            lse = bound.adapter.empty(bound.lse_shape, "f32", q)
        values = None if bound.shared else v
        tensors = (q, out, lse, sinks, cu_seqlens_q, k, values, cu_seqlens_k, seqused_k, page_table)
        bound.run(tensors, q, stream, workspace)
        return (out, lse) if self._return_lse else out


def _prepare(
    a: Any, q: Any, k: Any, v: Any, layout: str, mask: str, sinks: Any, softcap: Any, scale: Any,
    cu_seqlens_q: Any, cu_seqlens_k: Any, max_seqlen_q: Any, max_seqlen_k: Any, seqused_k: Any,
    page_table: Any, return_lse: bool, out: Any, split: Any,
) -> Bound:  # fmt: skip
    if layout not in describe.LAYOUTS:
        raise ValueError(f"layout is one of {', '.join(describe.LAYOUTS)}, not {layout!r}")
    tensors = {
        "q": q, "k": k, "v": v, "sinks": sinks, "cu_seqlens_q": cu_seqlens_q,
        "cu_seqlens_k": cu_seqlens_k, "seqused_k": seqused_k, "page_table": page_table, "out": out,
    }  # fmt: skip
    _ensure_one_library(a, tensors)
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


def _ensure_one_library(a: Any, tensors: dict) -> None:
    for name, x in tensors.items():
        if x is not None and type(adapter_of(x)) is not type(a):
            raise TypeError(f"{name} is {type(x).__name__} and q is {type(tensors['q']).__name__}")


def _dense(shape: tuple, layout: str, dtype: str) -> dict:
    """The view of a new, contiguous tensor."""
    strides, step = [], 1
    for extent in reversed(shape):
        strides.append(step)
        step *= max(extent, 1)
    strides.reverse()
    if len(shape) == 3:
        shape, strides = (1, *shape), [0, *strides]
    order = (0, 2, 1, 3) if layout == "bshd" else (0, 1, 2, 3)
    strides = [strides[i] if shape[i] > 1 or i == 3 else 0 for i in order]
    return {"shape": [shape[i] for i in order], "strides": strides, "dtype": dtype}

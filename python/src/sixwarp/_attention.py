"""`attention` and `plan`."""

from __future__ import annotations

from typing import Any, Optional, Tuple

from . import _describe as describe
from . import _quick
from ._exchange import is_foreign, through
from ._plan import Bound, raw_stream
from ._planned import PlannedAttention
from ._prepare import ensure_one_library, prepare
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

    NumPy arrays, torch tensors, CuPy arrays, and arrays of other libraries that DLPack carries (JAX); the result
    is of the library of `q`. Tensors are `[batch, tokens, heads, dim]`, or `[batch, heads, tokens, dim]` with `layout="bhsd"`;
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
    if stream is not None:
        stream = raw_stream(stream)
    if window is not None:
        left, right = window
        window = (left, right)
    result = _quick.attention(
        q, k, v, sinks, cu_seqlens_q, cu_seqlens_k, seqused_k, page_table, out, stream, layout, causal,
        window, softcap, scale, max_seqlen_q, max_seqlen_k, return_lse, split,
    )  # fmt: skip
    if result is not None:
        return result
    options = (layout, causal, window, softcap, scale, max_seqlen_q, max_seqlen_k, return_lse, split)
    tensors = (q, k, v, sinks, cu_seqlens_q, cu_seqlens_k, seqused_k, page_table, out)
    return _attention(tensors, options, stream)


def _attention(tensors: tuple, options: tuple, stream: Optional[int]) -> Any:
    """The long way: plans, runs, and makes the quick way know the call."""
    q, k, v, sinks, cu_q, cu_k, used, table, out = tensors
    if is_foreign(q):
        if out is not None:
            raise TypeError(f"out: arrays of {type(q).__module__.partition('.')[0]} are not written; leave it out")
        return through(lambda lent: _attention(lent, options, stream), tensors, q)
    layout, causal, window, softcap, scale, max_q, max_k, return_lse, split = options
    a = adapter_of(q)
    key_of = a.key
    try:
        views = tuple([None if x is None else key_of(x) for x in tensors])
        same = v is k or a.pointer(v) == a.pointer(k)
    except AttributeError:
        ensure_one_library(a, {"q": q, "k": k, "v": v})
        raise
    a.refuse_gradients(q, k, v)
    key = (views, same, options)
    bound = _cache.get(key)
    sinks = None if sinks is None else a.floats(sinks)
    cu_q, cu_k, used, table = (None if x is None else a.integers(x) for x in (cu_q, cu_k, used, table))
    if bound is None or _depends_on_lengths(bound, cu_q, max_q, cu_k, max_k):
        bound = prepare(
            a, q, k, v, layout, describe.mask(causal, window), sinks, softcap, scale, cu_q, cu_k, max_q,
            max_k, used, table, return_lse, out, split,
        )  # fmt: skip
        if len(_cache) >= _MOST:
            _cache.pop(next(iter(_cache)))
        _cache[key] = bound
    if out is None:
        out = a.empty(bound.out_shape, bound.dtype, q)
    lse = a.empty(bound.lse_shape, "f32", q) if return_lse else None
    values = None if bound.shared else v
    bound.run((q, out, lse, sinks, cu_q, k, values, cu_k, used, table), q, stream)
    used_tensors = (q, k, v, sinks, cu_q, cu_k, used, table)
    converted = any(x is not given for x, given in zip(used_tensors, tensors))
    if not converted and not _depends_on_lengths(bound, cu_q, max_q, cu_k, max_k):
        _quick.remember(bound.plan.handle, bound, *used_tensors, out, lse, *options)
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
) -> PlannedAttention:
    """Plans `attention` for tensors like these; the plan runs on others of the same shapes and strides.

    A call of the plan is the quickest path there is. Give `out` (and `lse`, `workspace`) and it allocates
    nothing. Tensors that are not like the planned ones are an error.

    >>> import numpy as np, sixwarp
    >>> x = np.random.default_rng(0).standard_normal((1, 8, 2, 16), np.float32)
    >>> plan = sixwarp.plan(x, x, x)
    >>> plan.workspace_bytes
    0
    >>> bool(np.array_equal(plan(x, x, x), sixwarp.attention(x, x, x)))
    True
    """
    a = adapter_of(q)
    sinks = None if sinks is None else a.floats(sinks)
    integers = (None if x is None else a.integers(x) for x in (cu_seqlens_q, cu_seqlens_k, seqused_k, page_table))
    cu_q, cu_k, used, table = integers
    bound = prepare(
        a, q, k, v, layout, describe.mask(causal, window), sinks, softcap, scale, cu_q, cu_k,
        max_seqlen_q, max_seqlen_k, used, table, return_lse, out, split,
    )  # fmt: skip
    return PlannedAttention(bound, return_lse, (q, k, v, sinks, cu_q, cu_k, used, table, out))

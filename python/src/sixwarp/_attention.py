"""`attention` and `plan`."""

from __future__ import annotations

import operator
from typing import Any, Optional, Tuple

from . import _quick
from ._exchange import is_foreign, lend, through
from ._library import reason
from ._parameters import read_options
from ._plan import Bound, raw_stream
from ._planned import PlannedAttention
from ._prepare import Options, Tensors, describe_call, prepare
from ._tensor import CPU, adapter_for, ensure_given

Window = Optional[Tuple[Optional[int], Optional[int]]]

_cache: dict[tuple, Bound] = {}
_MOST = 4096


def attention(
    q: Any,
    k: Any,
    v: Any,
    *,
    # spell: signature
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
    attn_mask: Any = None,
    k_descale: Any = None,
    v_descale: Any = None,
    return_lse: bool = False,
    out: Any = None,
    stream: Any = None,
    split: Optional[int] = None,
    arch: Optional[str] = None,
    # spelled
) -> Any:
    """Attention of `q` over `k` and `v`, on the device they are on.

    NumPy arrays, torch tensors, CuPy arrays, and arrays of other libraries that DLPack carries (JAX); the result
    is of the library of `q`. Tensors are `[batch, tokens, heads, dim]`, or `[batch, heads, tokens, dim]` with `layout="bhsd"`;
    any strides with contiguous rows. Query heads are a multiple of KV heads. On a GPU, queries, keys and values that do
    not begin at a multiple of 16 bytes are copied first, in every call.

    - `causal` is aligned at the bottom right: the last query sees the last key.
    - `window=(left, right)` counts keys beside the diagonal; `None` is no limit.
    - `sinks` is one logit per head, in the denominator only.
    - `softcap` caps scores softly; `scale` defaults to `1/sqrt(dim)`.
    - `cu_seqlens_q` (`[batch + 1]`): sequences lie one after the other in a `q` of three dimensions.
      `max_seqlen_q` bounds their lengths; without it a GPU plan is made for the sum.
    - `cu_seqlens_k`, `max_seqlen_k`: likewise for `k` and `v`.
    - `seqused_k` (`[batch]`): how many keys of each sequence count.
    - `page_table` (`[batch, pages]`): `k` and `v` are pages, `[page, row, heads, dim]`.
    - `attn_mask`: anything that broadcasts to `[batch, heads, queries, keys]` in either layout, at any strides.
      Of booleans, keys are seen where it is true. Of floats, it is added to scores, behind `scale` and `softcap`;
      `-inf` hides a key, and other numbers count as 1e38 at most. It goes with everything but `cu_seqlens`. A
      row that sees no key is 0, and its log-sum-exp -inf.
    - `k_descale`, `v_descale` (float32): factors on keys and values of `float8_e4m3fn`, beside 16-bit queries on a GPU.
      One for the whole tensor, `[KV heads]`, or `[batch, KV heads]` of any strides. A NaN is NaN.
    - `return_lse` returns `(out, lse)`, the log-sum-exp a natural logarithm in float32, `[batch, heads, tokens]`. It
      is that of the keys alone, without the sink, as `merge` needs it. A row that sees no key has -inf, and 0 in `out`.
    - `out` is written instead of a new tensor, and shares no memory with an input; `stream` is used instead of the
      current one.
    - `split` fixes how many keys are one part on a GPU, so that a result does not depend on the batch.
    - `arch` names the generation whose kernels a GPU takes instead of its own: `"sm_80"`, `"sm_86"` and `"sm_89"` run on
      every later one. A name that is none is a `ValueError`; kernels that the device cannot run are `Unsupported`.

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
    if type(window) is list:
        window = tuple(window)
    result = _quick.attention(
        # spell: tensors, stream, options
        q, k, v, sinks, cu_seqlens_q, cu_seqlens_k, seqused_k, page_table, attn_mask, k_descale, v_descale,
        out, stream, layout, causal, window, softcap, scale, max_seqlen_q, max_seqlen_k, return_lse, split,
        arch,
        # spelled
    )  # fmt: skip
    if result is not None:
        return result
    tensors = Tensors(
        # spell: tensors
        q, k, v, sinks, cu_seqlens_q, cu_seqlens_k, seqused_k, page_table, attn_mask, k_descale, v_descale,
        out,
        # spelled
    )  # fmt: skip
    options = checked(
        # spell: options
        layout, causal, window, softcap, scale, max_seqlen_q, max_seqlen_k, return_lse, split, arch,
        # spelled
    )  # fmt: skip
    return long_way(tensors, options, stream)


def long_way(tensors: Tensors, options: Options, stream: Optional[int]) -> Any:
    """The long way: plans, runs, and makes the quick way know the call."""
    if is_foreign(tensors.q):
        if tensors.out is not None:
            name = type(tensors.q).__module__.partition(".")[0]
            raise TypeError(f"out: arrays of {name} are not written; leave it out")
        return through(lambda lent: long_way(Tensors(*lent), options, stream), tensors, tensors.q)
    out, lse, bound = compute(tensors, options, stream)
    if bound is not None:
        remember(bound, tensors, out, lse, options)
    return (out, lse) if options.return_lse else out


def compute(tensors: Tensors, options: Options, stream: Optional[int]) -> Tuple[Any, Any, Optional[Bound]]:
    """The outputs and their plan; no plan where a call with tensors like these may need another one."""
    ensure_given(q=tensors.q, k=tensors.k, v=tensors.v)
    a = adapter_for(tensors._fields, tensors)
    q, k, v, out = tensors.q, tensors.k, tensors.v, tensors.out
    a.refuse_gradients(q, k, v, tensors.sinks, tensors.attn_mask, out)
    key_of = a.key
    views = tuple([None if x is None else key_of(x) for x in tensors])
    key = (views, v is k or a.pointer(v) == a.pointer(k), options)
    used = tensors.converted(a)
    bound = _cache.get(key)
    if bound is None or _depends_on_lengths(bound, used, options):
        bound = _cache_put(key, prepare(a, used, options))
    if out is None:
        out = a.empty(bound.out_shape, bound.dtype, q)
    lse = a.empty(bound.lse_shape, "f32", q) if options.return_lse else None
    bound.run(used.slots(out, lse, bound.shared), q, stream)
    if tensors.out is not None:
        a.written(out)
    converted = used is not tensors and any(map(operator.is_not, used, tensors))
    repeatable = not converted and not _depends_on_lengths(bound, used, options)
    return out, lse, bound if repeatable else None


def remember(bound: Bound, tensors: Tensors, out: Any, lse: Any, options: tuple) -> None:
    """Makes the quick way know a call by its tensors and options."""
    _quick.remember(bound.plan.handle, bound, *tensors[:-1], out, lse, *options)


def _cache_put(key: tuple, bound: Bound) -> Bound:
    if len(_cache) >= _MOST:
        _cache.pop(next(iter(_cache)))
    _cache[key] = bound
    return bound


def _depends_on_lengths(bound: Bound, tensors: Tensors, options: Options) -> bool:
    """Whether the longest sequence was read from offsets, which may hold others next time."""
    read_q = tensors.cu_seqlens_q is not None and not options.max_seqlen_q
    read_k = tensors.cu_seqlens_k is not None and not options.max_seqlen_k
    return (read_q or read_k) and bound.plan.ordinal < 0


def checked(*options: Any) -> Options:
    """Options of the types they must have."""
    return Options._make(read_options(options))


def plan(
    q: Any,
    k: Any,
    v: Any,
    *,
    # spell: signature without stream
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
    attn_mask: Any = None,
    k_descale: Any = None,
    v_descale: Any = None,
    return_lse: bool = False,
    out: Any = None,
    split: Optional[int] = None,
    arch: Optional[str] = None,
    # spelled
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
    options = checked(
        # spell: options
        layout, causal, window, softcap, scale, max_seqlen_q, max_seqlen_k, return_lse, split, arch,
        # spelled
    )  # fmt: skip
    ensure_given(q=q, k=k, v=v)
    tensors = Tensors(
        # spell: tensors
        q, k, v, sinks, cu_seqlens_q, cu_seqlens_k, seqused_k, page_table, attn_mask, k_descale, v_descale,
        out,
        # spelled
    )  # fmt: skip
    a = adapter_for(tensors._fields, tensors)
    tensors = tensors.converted(a)
    return PlannedAttention(prepare(a, tensors, options), options.return_lse, tensors)


def supports(
    q: Any,
    k: Any,
    v: Any,
    *,
    device: Optional[str] = None,
    # spell: signature without stream
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
    attn_mask: Any = None,
    k_descale: Any = None,
    v_descale: Any = None,
    return_lse: bool = False,
    out: Any = None,
    split: Optional[int] = None,
    arch: Optional[str] = None,
    # spelled
) -> Optional[str]:
    """Why `device` cannot compute `attention` of tensors like these; None if it can.

    `device` is `"cpu"`, `"sm_90a"` (Hopper), `"sm_100a"`, `"sm_103a"` (Blackwell) or a GPU of this machine,
    `"cuda:0"`; by default where `q` is. Only shapes, strides and types are looked at, nothing is compiled, and a GPU
    that is asked about by its generation need not be there. The words are those that `attention` would raise
    `Unsupported` with. What no device could compute is raised, as by `attention`.

    >>> import numpy as np, sixwarp
    >>> x = np.zeros((1, 4, 2, 64))
    >>> sixwarp.supports(x, x, x, device="cpu")
    >>> sixwarp.supports(x, x, x, device="sm_90a")
    'dtype f64 is not supported: kernels take inputs of bf16, f16 and f32 (nearest that works: f32)'
    """
    options = checked(
        # spell: options
        layout, causal, window, softcap, scale, max_seqlen_q, max_seqlen_k, return_lse, split, arch,
        # spelled
    )  # fmt: skip
    ensure_given(q=q, k=k, v=v)
    given = (
        # spell: tensors
        q, k, v, sinks, cu_seqlens_q, cu_seqlens_k, seqused_k, page_table, attn_mask, k_descale, v_descale,
        out,
        # spelled
    )  # fmt: skip
    tensors = Tensors(*(None if x is None else lend(x) for x in given))
    a = adapter_for(tensors._fields, tensors)
    described = describe_call(a, tensors.converted(a), options)
    at = "cpu" if described.device == CPU else f"cuda:{described.device}"
    return reason(described.description, at if device is None else str(device))

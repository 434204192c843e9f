"""flash-attn's `flash_attn_with_kvcache`, with the keywords of FlashAttention-3."""

from __future__ import annotations

from typing import Any, Dict, Optional, Tuple, Union

import torch
from torch import Tensor

from .. import plan
from .._torch_tensor import refuse_gradients
from ._flash_keywords import alibi, attend, options_of, refuse, window_of
from ._kvcache import Cache, NewRows, lengths_of, rotate, rows_of

# Calls whose plan was made once: shapes, strides, types and options.
_planned: set = set()


def flash_attn_with_kvcache(
    q: Tensor,
    k_cache: Tensor,
    v_cache: Tensor,
    k: Optional[Tensor] = None,
    v: Optional[Tensor] = None,
    rotary_cos: Optional[Tensor] = None,
    rotary_sin: Optional[Tensor] = None,
    cache_seqlens: Optional[Union[int, Tensor]] = None,
    cache_batch_idx: Optional[Tensor] = None,
    cache_leftpad: Optional[Tensor] = None,
    block_table: Optional[Tensor] = None,
    softmax_scale: Optional[float] = None,
    causal: bool = False,
    window_size: Any = (-1, -1),
    softcap: float = 0.0,
    rotary_interleaved: bool = True,
    alibi_slopes: Optional[Tensor] = None,
    num_splits: int = 0,
    return_softmax_lse: bool = False,
    *,
    page_table: Optional[Tensor] = None,
    cu_seqlens_q: Optional[Tensor] = None,
    max_seqlen_q: Optional[int] = None,
    cu_seqlens_k_new: Optional[Tensor] = None,
    rotary_seqlens: Optional[Tensor] = None,
    s_aux: Optional[Tensor] = None,
    k_descale: Optional[Tensor] = None,
    v_descale: Optional[Tensor] = None,
    out: Optional[Tensor] = None,
    **others: Any,
) -> Union[Tensor, Tuple[Tensor, Tensor]]:
    """flash-attn's `flash_attn_with_kvcache`: new rows `k` and `v` are written to the cache behind
    `cache_seqlens` rows, then `q` attends to the cache. With `return_softmax_lse`, `(out, lse)`.

    Nothing is written unless all of it fits. On a GPU the values of lengths and tables are not read back;
    rows that do not fit are left out there, and the output of their sequence means nothing.

    >>> import torch
    >>> from sixwarp.torch import flash_attn_func, flash_attn_with_kvcache
    >>> cache, new = torch.randn(1, 16, 2, 32), torch.randn(1, 1, 2, 32)
    >>> out = flash_attn_with_kvcache(new, cache, cache, new, new, cache_seqlens=4)
    >>> torch.allclose(out, flash_attn_func(new, cache[:, :5], cache[:, :5]), atol=1e-6)
    True
    """
    refuse("flash_attn_with_kvcache", num_splits=num_splits, **others)
    refuse_gradients(*(x for x in (q, k_cache, v_cache, k, v) if x is not None))
    batch = q.shape[0] if cu_seqlens_q is None else cu_seqlens_q.shape[0] - 1
    cache = _cache(k_cache, v_cache, batch, block_table, page_table, cache_batch_idx)
    lengths = lengths_of(cache, cache_seqlens)
    new = _new_rows(cache, k, v, lengths, cu_seqlens_k_new)
    if rotary_cos is not None or rotary_sin is not None:
        moves = causal or window_of(window_size) is not None
        start = lengths if rotary_seqlens is None else lengths_of(cache, rotary_seqlens, "rotary_seqlens")
        q = _rotated(q, new, cu_seqlens_q, start, moves, rotary_cos, rotary_sin, rotary_interleaved)
    options = options_of(causal, window_size, softcap, softmax_scale, s_aux, k_descale, v_descale)
    options.update(cu_seqlens_q=cu_seqlens_q, max_seqlen_q=max_seqlen_q)
    lengths = lengths if new is None else new.grown
    options.update(cache.keys(lengths, cache_leftpad, new is not None))
    if alibi_slopes is not None:
        _refuse_packed("alibi_slopes", cu_seqlens_q=cu_seqlens_q, cache_leftpad=cache_leftpad)
        options.update(attn_mask=alibi(alibi_slopes, q.shape[1], cache.capacity, q.shape[2], lengths))
    if new is not None:
        _check_plan(q, out, options)
        new.write()
    result = attend(q, options.pop("k"), options.pop("v"), out, return_softmax_lse, options)
    return result if return_softmax_lse else result[0]


def _refuse_packed(name: str, **packed: Optional[Tensor]) -> None:
    for other, given in packed.items():
        if given is not None:
            raise NotImplementedError(f"flash_attn_with_kvcache: {name} is not supported together with {other}")


def _cache(
    k: Tensor, v: Tensor, batch: int, block_table: Optional[Tensor], page_table: Optional[Tensor],
    cache_batch_idx: Optional[Tensor],
) -> Cache:  # fmt: skip
    """The cache; a row of it that `cache_batch_idx` names is a sequence of one page."""
    tables = {"block_table": block_table, "page_table": page_table}
    if cache_batch_idx is not None:
        tables["cache_batch_idx"] = cache_batch_idx.unsqueeze(-1)
    given = {name: table for name, table in tables.items() if table is not None}
    if len(given) > 1:
        raise ValueError(f"{' and '.join(given)} are given: each says where sequences lie, one is enough")
    name, table = next(iter(given.items()), ("block_table", None))
    return Cache(k, v, table, name, batch)


def _new_rows(
    cache: Cache, k: Optional[Tensor], v: Optional[Tensor], lengths: Optional[Tensor], offsets: Optional[Tensor]
) -> Optional[NewRows]:
    if k is None and v is None:
        return None
    if k is None or v is None:
        raise ValueError("k and v are given together, or neither")
    if lengths is None:
        raise ValueError("new rows need cache_seqlens to say where they go")
    return NewRows(cache, k, v, lengths, offsets)


def _rotated(
    q: Tensor, new: Optional[NewRows], offsets: Optional[Tensor], start: Tensor, moves: bool,
    cos: Optional[Tensor], sin: Optional[Tensor], interleaved: bool,
) -> Tensor:  # fmt: skip
    """Rotates new keys in `new`, and returns rotated queries.

    Queries are at the positions of the new rows under a causal mask or a window; else all at the first.
    """
    if cos is None or sin is None:
        raise ValueError("rotary_cos and rotary_sin are given together, or neither")
    if new is None:
        raise ValueError("rotary_cos needs new rows, k and v: only they and their queries are rotated")
    sequence, number = rows_of(q, new.cache.batch, offsets)
    position = new.cache.positions(start, sequence, number if moves else 0)
    rows = q.reshape(-1, *q.shape[-2:])
    rotated = rotate(rows, cos, sin, position, interleaved, "q").view(q.shape)
    position = new.cache.positions(start, new.sequence, new.number)
    new.k = rotate(new.k, cos, sin, position, interleaved, "k")
    return rotated


def _check_plan(q: Tensor, out: Optional[Tensor], options: Dict[str, Any]) -> None:
    """Raises what the attention would raise, before the cache is written."""
    if torch.compiler.is_compiling():
        return
    key = tuple(
        (x.shape, x.stride(), x.dtype, x.device) if isinstance(x, Tensor) else x for x in (q, out, *options.values())
    )
    if key in _planned:
        return
    plan(q, out=out, return_lse=True, **options)
    if len(_planned) >= 4096:
        _planned.clear()
    _planned.add(key)

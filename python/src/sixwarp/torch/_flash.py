"""flash-attn's functions, by its signatures. Causal and windows are aligned at the bottom right there too."""

from __future__ import annotations

from typing import Any, Optional, Tuple, Union

import torch
from torch import Tensor

from ._op import attention


def _window(window_size: Tuple[int, int]) -> Optional[Tuple[Optional[int], Optional[int]]]:
    """flash-attn writes -1 for no limit."""
    left, right = (None if side is None or side < 0 else side for side in window_size)
    return None if left is None and right is None else (left, right)


def _refuse(**given: Any) -> None:
    for name, value in given.items():
        if value is not None and value is not False and not (isinstance(value, float) and value == 0.0):
            raise NotImplementedError(f"{name} is not supported, and it is {value!r}")


def flash_attn_func(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    dropout_p: float = 0.0,
    softmax_scale: Optional[float] = None,
    causal: bool = False,
    window_size: Tuple[int, int] = (-1, -1),
    softcap: float = 0.0,
    alibi_slopes: Optional[Tensor] = None,
    deterministic: bool = False,
    return_attn_probs: bool = False,
) -> Union[Tensor, Tuple[Tensor, Tensor, None]]:
    """flash-attn's `flash_attn_func`; with `return_attn_probs`, `(out, lse, None)`.

    >>> import torch
    >>> from sixwarp.torch import flash_attn_func
    >>> x = torch.randn(1, 5, 2, 32)
    >>> flash_attn_func(x, x, x, causal=True, window_size=(2, 0)).shape
    torch.Size([1, 5, 2, 32])
    """
    _refuse(dropout_p=dropout_p, alibi_slopes=alibi_slopes)
    out, lse = attention(
        q, k, v, causal=causal, window=_window(window_size), softcap=softcap or None,
        scale=softmax_scale, return_lse=True,
    )  # fmt: skip
    return (out, lse, None) if return_attn_probs else out


def flash_attn_varlen_func(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    cu_seqlens_q: Tensor,
    cu_seqlens_k: Optional[Tensor],
    max_seqlen_q: int,
    max_seqlen_k: int,
    dropout_p: float = 0.0,
    softmax_scale: Optional[float] = None,
    causal: bool = False,
    window_size: Tuple[int, int] = (-1, -1),
    softcap: float = 0.0,
    alibi_slopes: Optional[Tensor] = None,
    deterministic: bool = False,
    return_attn_probs: bool = False,
    block_table: Optional[Tensor] = None,
    seqused_k: Optional[Tensor] = None,
) -> Union[Tensor, Tuple[Tensor, Tensor, None]]:
    """flash-attn's `flash_attn_varlen_func`. With a `block_table`, keys are pages and each sequence's
    length comes from `seqused_k` or from `cu_seqlens_k`.

    >>> import torch
    >>> from sixwarp.torch import flash_attn_func, flash_attn_varlen_func
    >>> x, ends = torch.randn(7, 2, 32), torch.tensor([0, 3, 7], dtype=torch.int32)
    >>> out = flash_attn_varlen_func(x, x, x, ends, ends, 4, 4, causal=True)
    >>> first = flash_attn_func(*[x[None, :3]] * 3, causal=True)[0]
    >>> torch.allclose(out[:3], first, atol=1e-6)
    True
    """
    _refuse(dropout_p=dropout_p, alibi_slopes=alibi_slopes)
    if block_table is not None and seqused_k is None and cu_seqlens_k is not None:
        seqused_k = cu_seqlens_k.diff()
    if block_table is not None:
        cu_seqlens_k = None
    out, lse = attention(
        q, k, v, causal=causal, window=_window(window_size), softcap=softcap or None,
        scale=softmax_scale, cu_seqlens_q=cu_seqlens_q, cu_seqlens_k=cu_seqlens_k,
        max_seqlen_q=max_seqlen_q, max_seqlen_k=None if cu_seqlens_k is None else max_seqlen_k,
        seqused_k=seqused_k, page_table=block_table, return_lse=True,
    )  # fmt: skip
    return (out, lse, None) if return_attn_probs else out


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
    window_size: Tuple[int, int] = (-1, -1),
    softcap: float = 0.0,
    rotary_interleaved: bool = True,
    alibi_slopes: Optional[Tensor] = None,
    num_splits: int = 0,
    return_softmax_lse: bool = False,
) -> Union[Tensor, Tuple[Tensor, Tensor]]:
    """flash-attn's `flash_attn_with_kvcache`: new rows `k` and `v` are written to the cache at
    `cache_seqlens` first, then `q` attends to the cache. Rotary embeddings are applied beforehand.

    >>> import torch
    >>> from sixwarp.torch import flash_attn_func, flash_attn_with_kvcache
    >>> cache, new = torch.randn(1, 16, 2, 32), torch.randn(1, 1, 2, 32)
    >>> out = flash_attn_with_kvcache(new, cache, cache, new, new, cache_seqlens=4)
    >>> torch.allclose(out, flash_attn_func(new, cache[:, :5], cache[:, :5]), atol=1e-6)
    True
    """
    _refuse(rotary_cos=rotary_cos, rotary_sin=rotary_sin, cache_batch_idx=cache_batch_idx)
    _refuse(cache_leftpad=cache_leftpad, alibi_slopes=alibi_slopes)
    if isinstance(cache_seqlens, int):
        cache_seqlens = torch.full((q.shape[0],), cache_seqlens, dtype=torch.int32, device=q.device)
    if (k is None) != (v is None):
        raise ValueError("k and v are given together")
    if k is not None and v is not None:
        if cache_seqlens is None:
            raise ValueError("new rows need cache_seqlens to say where they go")
        _append(k_cache, k, cache_seqlens, block_table)
        _append(v_cache, v, cache_seqlens, block_table)
        cache_seqlens = cache_seqlens + k.shape[1]
    out, lse = attention(
        q, k_cache, v_cache, causal=causal, window=_window(window_size), softcap=softcap or None,
        scale=softmax_scale, seqused_k=cache_seqlens, page_table=block_table, return_lse=True,
    )  # fmt: skip
    return (out, lse) if return_softmax_lse else out


def _append(cache: Tensor, rows: Tensor, lengths: Tensor, block_table: Optional[Tensor]) -> None:
    """Writes each sequence's new rows behind its `lengths` rows, without waiting for a GPU."""
    positions = lengths.long().unsqueeze(1) + torch.arange(rows.shape[1], device=rows.device)
    if block_table is None:
        batch = torch.arange(rows.shape[0], device=rows.device).unsqueeze(1)
        cache.index_put_((batch.expand_as(positions), positions), rows)
        return
    page_rows = cache.shape[1]
    pages = block_table.long().gather(1, positions // page_rows)
    cache.index_put_((pages, positions % page_rows), rows)

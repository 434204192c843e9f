"""A stand-in for `torch.nn.functional.scaled_dot_product_attention`."""

from __future__ import annotations

from typing import Optional

from torch import Tensor

from ._op import attention


def sdpa(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Optional[Tensor] = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: Optional[float] = None,
    enable_gqa: bool = False,
) -> Tensor:
    """`scaled_dot_product_attention` with the same arguments and the same meaning.

    torch aligns `is_causal` at the top left (the first query sees the first key) where the rest of
    sixwarp aligns at the bottom right; this function keeps torch's meaning.

    >>> import torch, sixwarp.torch
    >>> q, k = torch.randn(2, 4, 3, 64), torch.randn(2, 4, 7, 64)
    >>> ours = sixwarp.torch.sdpa(q, k, k, is_causal=True)
    >>> theirs = torch.nn.functional.scaled_dot_product_attention(q, k, k, is_causal=True)
    >>> torch.allclose(ours, theirs, atol=1e-5)
    True
    """
    if attn_mask is not None:
        raise NotImplementedError("sdpa: attn_mask is not read: is_causal, or sixwarp.attention's window")
    if dropout_p:
        raise NotImplementedError(f"sdpa: dropout_p is {dropout_p}: there is no dropout")
    if query.dim() not in (3, 4):
        raise ValueError(f"sdpa: query has shape {tuple(query.shape)}: 3 or 4 dimensions are needed")
    heads, kv_heads = query.shape[-3], key.shape[-3]
    if heads != kv_heads and not enable_gqa:
        raise ValueError(f"sdpa: {heads} query heads on {kv_heads} KV heads need enable_gqa=True")
    queries, keys = query.shape[-2], key.shape[-2]
    window = None
    if is_causal and keys > queries:
        key, value = key[..., :queries, :], value[..., :queries, :]
    elif is_causal and keys < queries:
        is_causal, window = False, (None, queries - keys)
    return attention(
        query, key, value, layout="bhsd", causal=is_causal, window=window, scale=scale
    )

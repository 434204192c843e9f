"""A stand-in for `torch.nn.functional.scaled_dot_product_attention`."""

from __future__ import annotations

from typing import Optional, Tuple

import torch
from torch import Tensor

from .._attention import checked
from .._prepare import Tensors
from ._eager import are_plain, is_watched, known, run
from ._attention import attention

# What calls of `sdpa` are known by, before their arguments.
_NAME = "sdpa"


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
    """`scaled_dot_product_attention` with the same arguments and the same meaning, but for dropout.

    torch aligns `is_causal` at the top left (the first query sees the first key) where the rest of
    sixwarp aligns at the bottom right; this function keeps torch's meaning. Batches, heads and masks broadcast as
    torch's do. A row that sees no key is 0, as it is in torch.

    >>> import torch, sixwarp.torch
    >>> q, k = torch.randn(2, 4, 3, 64), torch.randn(2, 4, 7, 64)
    >>> ours = sixwarp.torch.sdpa(q, k, k, is_causal=True)
    >>> theirs = torch.nn.functional.scaled_dot_product_attention(q, k, k, is_causal=True)
    >>> torch.allclose(ours, theirs, atol=1e-5)
    True
    """
    result = known(
        # spell: tensors with q=query; k=key; v=value; attn_mask
        query, key, value, None, None, None, None, None, attn_mask, None, None, None,
        # spelled
        _NAME, dropout_p, is_causal, scale, enable_gqa,
    )  # fmt: skip
    if result is not None:
        return result
    if dropout_p:
        raise NotImplementedError(f"sdpa: dropout_p is {dropout_p}: there is no dropout")
    if is_causal and attn_mask is not None:
        raise ValueError("sdpa: attn_mask and is_causal=True are not given together")
    shape = _result_shape(query, key, value, enable_gqa)
    if 0 in shape:
        return query.new_empty(shape)
    given = Tensors(
        # spell: tensors with q=query; k=key; v=value; attn_mask
        query, key, value, None, None, None, None, None, attn_mask, None, None, None,
        # spelled
    )  # fmt: skip
    query, key, value = _expanded(shape, query, key, value, enable_gqa)
    if attn_mask is not None and attn_mask.dim() > 4:
        attn_mask = attn_mask.expand(*shape[:-3], *attn_mask.shape[-3:]).flatten(0, -4)
    queries, keys = query.shape[-2], key.shape[-2]
    causal, window = is_causal, None
    if is_causal and keys > queries:
        key, value = key[..., :queries, :], value[..., :queries, :]
    elif is_causal and keys < queries:
        causal, window = False, (None, queries - keys)
    if not is_watched() and are_plain(given):
        options = checked(
            # spell: options with layout="bhsd"; causal; window; scale
            "bhsd", causal, window, None, scale, None, None, False, None, None,
            # spelled
        )  # fmt: skip
        used = given._replace(q=query, k=key, v=value, attn_mask=attn_mask)
        return run(given, used, options, (_NAME, 0.0, bool(is_causal), options.scale, bool(enable_gqa)), shape)
    out = attention(query, key, value, layout="bhsd", causal=causal, window=window, scale=scale, attn_mask=attn_mask)
    return out if out.shape == shape else out.view(shape)


def _result_shape(query: Tensor, key: Tensor, value: Tensor, enable_gqa: bool) -> torch.Size:
    """The result's shape: batch and heads broadcast, but for heads that share keys."""
    for name, x in (("query", query), ("key", key), ("value", value)):
        if x.dim() < 2:
            raise ValueError(f"sdpa: {name} has shape {tuple(x.shape)}: at least 2 dimensions are needed")
    shapes = [x.shape[:-2] for x in (query, key, value)]
    if enable_gqa and min(map(len, shapes)) > 0:
        heads, *others = (shape[-1] for shape in shapes)
        if any(kv_heads == 0 or heads % kv_heads for kv_heads in others):
            raise ValueError(f"sdpa: {heads} query heads are no multiple of {others[0]} and {others[1]} KV heads")
        shapes = [shapes[0], *(shape[:-1] + (1,) for shape in shapes[1:])]
    try:
        outer = torch.broadcast_shapes(*shapes)
    except RuntimeError:
        names = ", ".join(str(tuple(x.shape)) for x in (query, key, value))
        hint = "" if enable_gqa else "; query heads that share KV heads need enable_gqa=True"
        raise ValueError(f"sdpa: batch and heads of {names} do not broadcast{hint}") from None
    return torch.Size((*outer, query.shape[-2], value.shape[-1]))


def _expanded(
    shape: torch.Size, query: Tensor, key: Tensor, value: Tensor, enable_gqa: bool
) -> Tuple[Tensor, Tensor, Tensor]:
    """Tensors of 4 dimensions, or 3 without a batch; KV heads stay as few as they are."""
    *batch, heads = shape[:-2] or (1,)
    if enable_gqa and _heads(key) != _heads(value):
        key, value = (x.repeat_interleave(heads // _heads(x), -3) for x in (key, value))
    kv_heads = max(_heads(key), _heads(value))
    tensors = (
        x.expand(*batch, count, *x.shape[-2:]) for x, count in ((query, heads), (key, kv_heads), (value, kv_heads))
    )
    query, key, value = (x if x.dim() <= 4 else x.flatten(0, -4) for x in tensors)
    return query, key, value


def _heads(x: Tensor) -> int:
    return x.shape[-3] if x.dim() > 2 else 1

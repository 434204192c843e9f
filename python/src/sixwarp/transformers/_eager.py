"""Attention by torch's operations, for training: they have gradients."""

from __future__ import annotations

import math
from typing import Optional

import torch
from torch import Tensor


def eager(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor, scaling: Optional[float], softcap: Optional[float],
    sinks: Optional[Tensor], dropout: float,
) -> Tensor:  # fmt: skip
    """`[batch, heads, tokens, dim]` in, `[batch, tokens, heads, dim]` out; `mask` is added to scores, or hides them where false."""
    group = query.shape[1] // key.shape[1]
    key, value = (x.repeat_interleave(group, 1) for x in (key, value))
    scale = 1 / math.sqrt(query.shape[-1]) if scaling is None else scaling
    scores = (query @ key.transpose(2, 3)) * scale
    if softcap is not None:
        scores = softcap * torch.tanh(scores / softcap)
    masked = scores + mask if mask.dtype != torch.bool else scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    scores = masked.float()
    if sinks is not None:
        column = sinks.float().view(1, -1, 1, 1).expand(*scores.shape[:3], 1)
        scores = torch.cat([scores, column], -1)
    weights = scores.softmax(-1)[..., : key.shape[2]].to(value.dtype)
    weights = torch.nn.functional.dropout(weights, dropout)
    return (weights @ value).transpose(1, 2).contiguous()

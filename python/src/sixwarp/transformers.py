"""`attn_implementation="sixwarp"` for Hugging Face transformers.

    import sixwarp.transformers
    sixwarp.transformers.register()
    model = AutoModelForCausalLM.from_pretrained(..., attn_implementation="sixwarp")

Causal and full attention, sliding windows, soft caps, attention sinks (`s_aux`) and padded batches; inference
only.
"""

from __future__ import annotations

from typing import Any, Dict, Optional, Tuple

import torch
from torch import Tensor

from .torch import attention

NAME = "sixwarp"


def register() -> None:
    """Makes the implementation known to transformers."""
    from transformers import AttentionInterface

    AttentionInterface.register(NAME, attention_forward)
    from transformers.masking_utils import AttentionMaskInterface, flash_attention_mask

    # Padding as a mask of two dimensions, or none where nothing is padded.
    AttentionMaskInterface.register(NAME, flash_attention_mask)


def attention_forward(
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Optional[Tensor] = None,
    scaling: Optional[float] = None,
    dropout: float = 0.0,
    softcap: Optional[float] = None,
    sliding_window: Optional[int] = None,
    s_aux: Optional[Tensor] = None,
    is_causal: Optional[bool] = None,
    **_: Any,
) -> Tuple[Tensor, None]:
    """What transformers calls: `[batch, heads, tokens, dim]` in, `[batch, tokens, heads, dim]` out."""
    if dropout:
        raise NotImplementedError(f"sixwarp has no dropout, and it is {dropout}: call model.eval()")
    causal = getattr(module, "is_causal", True) if is_causal is None else is_causal
    window = None if sliding_window is None else (sliding_window - 1, 0 if causal else sliding_window - 1)
    options: Dict[str, Any] = dict(causal=causal, window=window, scale=scaling, softcap=softcap, sinks=s_aux)
    if attention_mask is not None:
        return _padded(query, key, value, attention_mask, options), None
    query, key, value = (x.detach() for x in (query, key, value))
    out = attention(query, key, value, layout="bhsd", **options)
    return out.transpose(1, 2).contiguous(), None


def _padded(query: Tensor, key: Tensor, value: Tensor, mask: Tensor, options: dict) -> Tensor:
    """Packs the rows that `mask` (`[batch, keys]`, true for tokens) keeps, attends, unpacks.

    How many rows there are is known only after reading the mask, so this waits for a GPU.
    """
    if mask.dim() != 2:
        raise NotImplementedError(f"attention_mask has shape {tuple(mask.shape)}: [batch, keys] is read")
    mask = mask.bool()
    keep_k = mask[:, -key.shape[2] :]
    keep_q = mask[:, -query.shape[2] :]
    query, key, value = (x.detach().transpose(1, 2) for x in (query, key, value))
    packed = attention(
        query[keep_q], key[keep_k], value[keep_k], cu_seqlens_q=_offsets(keep_q),
        cu_seqlens_k=_offsets(keep_k), max_seqlen_q=query.shape[1], max_seqlen_k=key.shape[1], **options,
    )  # fmt: skip
    out = query.new_zeros((*query.shape[:-1], value.shape[-1]))
    out[keep_q] = packed
    return out


def _offsets(keep: Tensor) -> Tensor:
    lengths = keep.sum(1, dtype=torch.int32)
    return torch.nn.functional.pad(lengths.cumsum(0, dtype=torch.int32), (1, 0))

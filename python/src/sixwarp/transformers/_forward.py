"""The attention function that models call."""

from __future__ import annotations

from functools import partial
from typing import Any, Dict, Optional, Tuple, Union

import torch
from torch import Tensor
from transformers.masking_utils import bidirectional_mask_function, causal_mask_function, eager_mask
from transformers.utils import output_capturing

from ..torch import attention
from ._eager import eager
from ._mask import Mask
from ._packing import Packing, Rows
from ._pattern import Pattern
from ._visible import Visible

# Keywords that models hand on to their attention layers, and that change nothing of what attention computes.
_NOT_ATTENTIONS = frozenset(
    "deterministic num_items_in_batch output_hidden_states output_router_logits past_key_values position_ids "
    "return_dict seq_idx use_cache".split()
)

Seen = Union[Visible, Tensor]


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
    position_bias: Optional[Tensor] = None,
    cu_seq_lens_q: Optional[Tensor] = None,
    cu_seq_lens_k: Optional[Tensor] = None,
    max_length_q: Optional[int] = None,
    max_length_k: Optional[int] = None,
    gradients: str = "refuse",
    **others: Any,
) -> Tuple[Tensor, None]:
    """What transformers calls: `[batch, heads, tokens, dim]` in, `[batch, tokens, heads, dim]` out."""
    _refuse(module, others)
    seen = _seen(module, query, key, attention_mask, is_causal, sliding_window)
    if cu_seq_lens_q is not None or cu_seq_lens_k is not None:
        seen = _packed(seen, query, key, cu_seq_lens_q, cu_seq_lens_k, max_length_q, max_length_k)
    learns = torch.is_grad_enabled() and any(
        x is not None and x.requires_grad for x in (query, key, value, s_aux, position_bias)
    )
    if learns and gradients == "eager":
        mask = _dense(seen, position_bias)
        return eager(query, key, value, mask, scaling, softcap, s_aux, dropout), None
    _refuse_training(learns, dropout)
    options: Dict[str, Any] = dict(scale=scaling, softcap=softcap, sinks=s_aux)
    return _attend(seen, query, key, value, position_bias, options), None


def _attend(
    seen: Seen, query: Tensor, key: Tensor, value: Tensor, bias: Optional[Tensor], options: Dict[str, Any]
) -> Tensor:
    if isinstance(seen, Visible) and seen.takes(bias):
        return seen.attend(query, key, value, bias, options)
    out = attention(query, key, value, layout="bhsd", attn_mask=_dense(seen, bias), **options)
    return out.transpose(1, 2).contiguous()


def _refuse(module: Any, others: Dict[str, Any]) -> None:
    """Raises for what is asked for and not done."""
    if others.pop("output_attentions", None) or _weights_are_collected():
        raise NotImplementedError(
            'sixwarp never has the attention weights that output_attentions=True asks for: use attn_implementation="eager"'
        )
    for name, value in others.items():
        if value is not None and name not in _NOT_ATTENTIONS:
            raise NotImplementedError(f"sixwarp: {type(module).__name__} gives the keyword {name}, which is not supported")


def _weights_are_collected() -> bool:
    """Whether the model's forward was asked for attention weights, which hooks collect behind its layers' backs."""
    collected = output_capturing._active_collector.get()
    return collected is not None and any(key.endswith("attentions") for key in collected)


def _refuse_training(learns: bool, dropout: float) -> None:
    if learns:
        raise NotImplementedError(
            "sixwarp computes the forward pass only, and gradients are asked for: use torch.no_grad() or "
            'model.requires_grad_(False), or sixwarp.transformers.register(gradients="eager") to train with torch\'s operations'
        )
    if dropout:
        raise NotImplementedError(f"sixwarp has no dropout, and it is {dropout}: call model.eval()")


def _seen(
    module: Any, query: Tensor, key: Tensor, mask: Optional[Tensor], is_causal: Optional[bool], window: Optional[int]
) -> Seen:
    """What the mask says. It alone does where there is one: `is_causal` and `sliding_window` repeat it."""
    if mask is None:
        causal = getattr(module, "is_causal", True) if is_causal is None else is_causal
        return _without_mask(query, key, causal, window)
    if not isinstance(mask, Tensor) or mask.dim() != 4:
        what = f"shape {tuple(mask.shape)}" if isinstance(mask, Tensor) else f"type {type(mask).__name__}"
        raise ValueError(f"attention_mask has {what}, and [batch, heads or 1, queries, keys] is needed")
    scores = (query.shape[0], query.shape[1], query.shape[2], key.shape[2])
    if any(n not in (1, wanted) for n, wanted in zip(mask.shape, scores)):
        raise ValueError(f"attention_mask has shape {tuple(mask.shape)}, and scores have {scores}")
    if isinstance(mask, Mask):
        return mask.dense() if mask.visible is None else mask.visible
    return mask


def _without_mask(query: Tensor, key: Tensor, causal: bool, window: Optional[int]) -> Visible:
    """Without a mask a model means every key, or with `is_causal` the keys up to the query's own."""
    queries, keys = query.shape[2], key.shape[2]
    if window is not None and keys > window:
        raise ValueError(f"sliding_window is {window} for {keys} keys, and attention_mask is None: the mask must say it")
    if causal and queries > 1 and queries != keys:
        raise ValueError(f"attention_mask is None for {queries} queries on {keys} keys: a mask must say what they see")
    causal = causal and queries > 1
    function = causal_mask_function if causal else bidirectional_mask_function
    dense = partial(_dense_of, query, key, function)
    return Visible(Pattern(right=0 if causal else None), queries, keys, dense)


def _dense_of(query: Tensor, key: Tensor, function: Any) -> Tensor:
    return eager_mask(
        query.shape[0], query.shape[2], key.shape[2], mask_function=function, dtype=query.dtype, device=query.device
    )


def _packed(
    seen: Seen, query: Tensor, key: Tensor, cu_q: Optional[Tensor], cu_k: Optional[Tensor], max_q: Any, max_k: Any
) -> Visible:
    """What is seen within each of the sequences that offsets delimit."""
    if cu_q is None or cu_k is None:
        raise ValueError("cu_seq_lens_q and cu_seq_lens_k are given together, or neither")
    if not isinstance(seen, Visible):
        raise NotImplementedError("cu_seq_lens_q is not supported together with a mask of every element")
    if query.shape[0] != 1:
        raise ValueError(f"cu_seq_lens_q: packed sequences are one item of a batch, and there are {query.shape[0]}")
    rows = (Rows(None, cu_q.int(), _longest(max_q, query)), Rows(None, cu_k.int(), _longest(max_k, key)))
    return seen.packed(Packing(*rows))


def _longest(given: Any, x: Tensor) -> int:
    return x.shape[2] if given is None else int(given)


def _dense(seen: Seen, bias: Optional[Tensor]) -> Tensor:
    """What is seen, and a bias, as numbers to be added to scores; or without a bias, as booleans if it is such."""
    mask = seen.dense() if isinstance(seen, Visible) else seen
    if bias is None:
        return mask
    if mask.dtype == torch.bool:
        return torch.where(mask, bias, torch.finfo(bias.dtype).min)
    return mask + bias

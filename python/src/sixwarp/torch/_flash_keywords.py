"""Keywords of flash-attn, FlashAttention-3 and vLLM's fork: taken, or refused by name."""

from __future__ import annotations

from typing import Any, Dict, Optional, Tuple

import torch
from torch import Tensor

from .. import attention as _raw
from ._attention import attention

Window = Optional[Tuple[Optional[int], Optional[int]]]

# These choose how a result is computed, never what it is; sixwarp chooses for itself.
_HINTS = frozenset(("deterministic", "fa_version", "num_splits", "pack_gqa", "scheduler_metadata", "sm_margin"))

# What is not supported, and the value that does not ask for it.
_REFUSED: Dict[str, Any] = {
    "dropout_p": 0.0,
    "alibi_slopes": None,
    "attention_chunk": 0,
    "qv": None,
    "q_v": None,
    "q_descale": None,
    "seqused_q": None,
    "cp_world_size": 1,
    "cp_rank": 0,
    "cp_tot_seqused_k": None,
}


def refuse(function: str, **given: Any) -> None:
    """Raises for a keyword that is unknown, or known and not supported; hints pass."""
    for name, value in given.items():
        if name in _HINTS:
            continue
        if name not in _REFUSED:
            raise TypeError(f"{function}() got an unexpected keyword argument '{name}'")
        if value is not None and (isinstance(value, Tensor) or value != _REFUSED[name]):
            what = f"a tensor {tuple(value.shape)}" if isinstance(value, Tensor) else repr(value)
            raise NotImplementedError(f"{function}: {name} is not supported, and it is {what}")


def window_of(window_size: Any) -> Window:
    """flash-attn writes -1 for no limit, vLLM's fork also None for no window."""
    if window_size is None or window_size == (-1, -1):
        return None
    left, right = (None if side is None or side < 0 else side for side in window_size)
    return None if left is None and right is None else (left, right)


def cap_of(softcap: Optional[float]) -> Optional[float]:
    """flash-attn writes 0 for no cap."""
    return None if softcap is None or softcap <= 0 else softcap


def options_of(
    causal: bool, window_size: Any, softcap: Optional[float], softmax_scale: Optional[float], s_aux: Optional[Tensor],
    k_descale: Optional[Tensor] = None, v_descale: Optional[Tensor] = None,
) -> Dict[str, Any]:  # fmt: skip
    """Options by the names of `sixwarp.attention`."""
    return dict(
        causal=causal, window=window_of(window_size), softcap=cap_of(softcap), scale=softmax_scale, sinks=s_aux,
        k_descale=k_descale, v_descale=v_descale,
    )  # fmt: skip


def attend(
    q: Tensor, k: Tensor, v: Tensor, out: Optional[Tensor], return_lse: bool, options: Dict[str, Any]
) -> Tuple[Tensor, Optional[Tensor]]:
    """The output and, if it is asked for, the log-sum-exp by flash-attn's convention."""
    # The operator returns new tensors only.
    if out is None:
        result = attention(q, k, v, return_lse=return_lse, **options)
    else:
        result = _raw(q, k, v, out=out, return_lse=return_lse, **options)
    return (result[0], flash_lse(result[1], options["sinks"])) if return_lse else (result, None)


def alibi(slopes: Tensor, queries: int, keys: int, heads: int, lengths: Optional[Tensor] = None) -> Tensor:
    """flash-attn's bias of every element, `-slope · distance`; the last query is at the last of `lengths` keys."""
    if slopes.dim() not in (1, 2) or slopes.shape[-1] != heads:
        raise ValueError(f"alibi_slopes has shape {tuple(slopes.shape)}: [heads] or [batch, heads], and heads are {heads}")
    last = torch.tensor(keys, device=slopes.device) if lengths is None else lengths
    row = last.view(-1, 1, 1) + torch.arange(-queries, 0, device=slopes.device).view(-1, 1)
    distance = (row - torch.arange(keys, device=slopes.device)).abs()
    return slopes.float().view(-1, heads, 1, 1) * -distance.unsqueeze(1)


def flash_lse(lse: Tensor, s_aux: Optional[Tensor]) -> Tensor:
    """The log-sum-exp by flash-attn's convention: +inf for a row without keys, and with sinks, the sink counts.

    sixwarp's own is -inf for a row without keys, and never counts the sink.
    """
    if s_aux is not None:
        return torch.logaddexp(lse, s_aux.to(lse.dtype).unsqueeze(-1))
    return lse.masked_fill(lse == float("-inf"), float("inf"))

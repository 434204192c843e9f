"""flash-attn's functions, by its signatures. Causal masks and windows are aligned at the bottom right, as there.

After flash-attn's own arguments come keywords of FlashAttention-3 and of vLLM's fork. `s_aux` (sinks), `out`,
`return_softmax_lse`, and `k_descale` and `v_descale` of 8-bit keys and values do what they say. Hints such as `num_splits` are taken and change nothing. What is not
supported is refused by name. `alibi_slopes` become a bias of every element, which takes memory.

The log-sum-exp follows flash-attn: +inf for a row without keys (FlashAttention-3 has -inf, as sixwarp has), and
where there are sinks, they count.
"""

from __future__ import annotations

from typing import Any, Dict, Optional, Tuple, Union

from torch import Tensor

from ._eager import known
from ._flash_keywords import alibi, attend, cap_of, options_of, refuse, window_of

Result = Union[Tensor, Tuple[Tensor, Tensor], Tuple[Tensor, Tensor, None]]


def _attend(
    q: Tensor, k: Tensor, v: Tensor, out: Optional[Tensor], probs: bool, lse: bool, options: Dict[str, Any]
) -> Result:
    """flash-attn returns three things where it is asked for probabilities, vLLM's fork two for the log-sum-exp."""
    result = attend(q, k, v, out, probs or lse, options)
    if probs:
        return (*result, None)
    return result if lse else result[0]


def flash_attn_func(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    dropout_p: float = 0.0,
    softmax_scale: Optional[float] = None,
    causal: bool = False,
    window_size: Any = (-1, -1),
    softcap: float = 0.0,
    alibi_slopes: Optional[Tensor] = None,
    deterministic: bool = False,
    return_attn_probs: bool = False,
    *,
    return_softmax_lse: bool = False,
    s_aux: Optional[Tensor] = None,
    k_descale: Optional[Tensor] = None,
    v_descale: Optional[Tensor] = None,
    out: Optional[Tensor] = None,
    **others: Any,
) -> Result:
    """flash-attn's `flash_attn_func`; with `return_attn_probs`, `(out, lse, None)`.

    >>> import torch
    >>> from sixwarp.torch import flash_attn_func
    >>> x = torch.randn(1, 5, 2, 32)
    >>> flash_attn_func(x, x, x, causal=True, window_size=(2, 0)).shape
    torch.Size([1, 5, 2, 32])
    """
    if dropout_p or others:
        refuse("flash_attn_func", dropout_p=dropout_p, **others)
    if alibi_slopes is None and not return_attn_probs and not return_softmax_lse:
        result = known(
            # spell: call with q; k; v; sinks=s_aux; k_descale; v_descale; out; causal; window=window_of(window_size); softcap=cap_of(softcap); scale=softmax_scale
            q, k, v, s_aux, None, None, None, None, None, k_descale, v_descale, out, "bshd", causal,
            window_of(window_size), cap_of(softcap), softmax_scale, None, None, False, None, None,
            # spelled
        )  # fmt: skip
        if result is not None:
            return result
    options = options_of(causal, window_size, softcap, softmax_scale, s_aux, k_descale, v_descale)
    if alibi_slopes is not None:
        options.update(attn_mask=alibi(alibi_slopes, q.shape[1], k.shape[1], q.shape[2]))
    return _attend(q, k, v, out, return_attn_probs, return_softmax_lse, options)


def flash_attn_qkvpacked_func(qkv: Tensor, *arguments: Any, num_heads_q: Optional[int] = None, **named: Any) -> Result:
    """flash-attn's `flash_attn_qkvpacked_func`: `flash_attn_func` of `qkv`, `[batch, tokens, 3, heads, dim]`.

    With FlashAttention-3's `num_heads_q`, `qkv` is `[batch, tokens, query heads + 2 · KV heads, dim]`.

    >>> import torch
    >>> from sixwarp.torch import flash_attn_qkvpacked_func
    >>> flash_attn_qkvpacked_func(torch.randn(1, 5, 3, 2, 32), causal=True).shape
    torch.Size([1, 5, 2, 32])
    """
    return flash_attn_func(*_unpacked("qkv", qkv, 5, num_heads_q), *arguments, **named)


def flash_attn_kvpacked_func(q: Tensor, kv: Tensor, *arguments: Any, **named: Any) -> Result:
    """flash-attn's `flash_attn_kvpacked_func`: `flash_attn_func` of `kv`, `[batch, tokens, 2, KV heads, dim]`."""
    return flash_attn_func(q, *_unstacked("kv", kv, 2, 5), *arguments, **named)


def flash_attn_varlen_func(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    cu_seqlens_q: Tensor,
    cu_seqlens_k: Optional[Tensor] = None,
    max_seqlen_q: Optional[int] = None,
    max_seqlen_k: Optional[int] = None,
    dropout_p: float = 0.0,
    softmax_scale: Optional[float] = None,
    causal: bool = False,
    window_size: Any = (-1, -1),
    softcap: float = 0.0,
    alibi_slopes: Optional[Tensor] = None,
    deterministic: bool = False,
    return_attn_probs: bool = False,
    block_table: Optional[Tensor] = None,
    seqused_k: Optional[Tensor] = None,
    *,
    return_softmax_lse: bool = False,
    s_aux: Optional[Tensor] = None,
    k_descale: Optional[Tensor] = None,
    v_descale: Optional[Tensor] = None,
    out: Optional[Tensor] = None,
    **others: Any,
) -> Result:
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
    if dropout_p or alibi_slopes is not None or others:
        refuse("flash_attn_varlen_func", dropout_p=dropout_p, alibi_slopes=alibi_slopes, **others)
    if cu_seqlens_k is None and seqused_k is None:
        raise ValueError("flash_attn_varlen_func: cu_seqlens_k or seqused_k must say how long sequences are")
    if block_table is not None and cu_seqlens_k is not None:
        seqused_k = cu_seqlens_k.diff() if seqused_k is None else seqused_k
        cu_seqlens_k = None
    options = options_of(causal, window_size, softcap, softmax_scale, s_aux, k_descale, v_descale)
    options.update(cu_seqlens_q=cu_seqlens_q, max_seqlen_q=max_seqlen_q, seqused_k=seqused_k, page_table=block_table)
    if cu_seqlens_k is not None:
        options.update(cu_seqlens_k=cu_seqlens_k, max_seqlen_k=max_seqlen_k)
    return _attend(q, k, v, out, return_attn_probs, return_softmax_lse, options)


def flash_attn_varlen_qkvpacked_func(
    qkv: Tensor, cu_seqlens: Tensor, max_seqlen: int, *arguments: Any, num_heads_q: Optional[int] = None, **named: Any
) -> Result:
    """flash-attn's `flash_attn_varlen_qkvpacked_func`: `flash_attn_varlen_func` of `qkv`, `[tokens, 3, heads, dim]`."""
    q, k, v = _unpacked("qkv", qkv, 4, num_heads_q)
    return flash_attn_varlen_func(q, k, v, cu_seqlens, cu_seqlens, max_seqlen, max_seqlen, *arguments, **named)


def flash_attn_varlen_kvpacked_func(q: Tensor, kv: Tensor, *arguments: Any, **named: Any) -> Result:
    """flash-attn's `flash_attn_varlen_kvpacked_func`: `flash_attn_varlen_func` of `kv`, `[tokens, 2, KV heads, dim]`."""
    return flash_attn_varlen_func(q, *_unstacked("kv", kv, 2, 4), *arguments, **named)


def _unpacked(name: str, x: Tensor, dimensions: int, num_heads_q: Optional[int]) -> Tuple[Tensor, ...]:
    if num_heads_q is None:
        return _unstacked(name, x, 3, dimensions)
    rest = x.shape[-2] - num_heads_q
    if x.dim() != dimensions - 1 or rest <= 0 or rest % 2:
        raise ValueError(f"{name} has shape {tuple(x.shape)}: {num_heads_q} query heads, then those of keys and values")
    return x.split((num_heads_q, rest // 2, rest // 2), dim=-2)


def _unstacked(name: str, x: Tensor, count: int, dimensions: int) -> Tuple[Tensor, ...]:
    if x.dim() != dimensions or x.shape[-3] != count:
        raise ValueError(f"{name} has shape {tuple(x.shape)}: [{'batch, ' * (dimensions - 4)}tokens, {count}, heads, dim]")
    return x.unbind(-3)

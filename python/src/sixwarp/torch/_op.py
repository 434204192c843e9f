"""The operator `torch.ops.sixwarp.attention`."""

from typing import Literal, Optional, Tuple, Union, overload

import torch
from torch import Tensor

from .. import _quick
from .. import attention as _raw
from .._attention import Window
from .._torch_tensor import refuse_forward_mode, refuse_gradients, without_tangents
from ._eager import are_plain, is_watched, known


# Registered by hand: a call through `torch.library.custom_op` costs the host about twice as much.
_LIBRARY = torch.library.Library("sixwarp", "FRAGMENT")
_LIBRARY.define(
    "attention(Tensor q, Tensor k, Tensor v, Tensor? sinks, Tensor? cu_seqlens_q, Tensor? cu_seqlens_k, "
    "Tensor? seqused_k, Tensor? page_table, Tensor? attn_mask, str layout, bool causal, SymInt? window_left, "
    "SymInt? window_right, float? softcap, float? scale, SymInt? max_seqlen_q, SymInt? max_seqlen_k, "
    "SymInt? split) -> (Tensor, Tensor)",
    tags=(torch.Tag.pt2_compliant_tag,),
)


def _op(
    q, k, v, sinks, cu_seqlens_q, cu_seqlens_k, seqused_k, page_table, attn_mask, layout, causal,
    window_left, window_right, softcap, scale, max_seqlen_q, max_seqlen_k, split,
):  # fmt: skip
    window = None if window_left is None and window_right is None else (window_left, window_right)
    result = _quick.attention(
        q, k, v, sinks, cu_seqlens_q, cu_seqlens_k, seqused_k, page_table, attn_mask, None, None, layout, causal,
        window, softcap, scale, max_seqlen_q, max_seqlen_k, True, split,
    )  # fmt: skip
    if result is not None:
        return result
    refuse_forward_mode()
    return _raw(
        q,
        k,
        v,
        layout=layout,
        causal=causal,
        window=window,
        sinks=sinks,
        softcap=softcap,
        scale=scale,
        cu_seqlens_q=cu_seqlens_q,
        cu_seqlens_k=cu_seqlens_k,
        max_seqlen_q=max_seqlen_q,
        max_seqlen_k=max_seqlen_k,
        seqused_k=seqused_k,
        page_table=page_table,
        attn_mask=attn_mask,
        return_lse=True,
        split=split,
    )


for _device in ("CPU", "CUDA"):
    _LIBRARY.impl("attention", _op, _device)


@torch.library.register_fake("sixwarp::attention", lib=_LIBRARY)
def _fake(q, k, v, sinks, cu_seqlens_q, cu_seqlens_k, seqused_k, page_table, attn_mask, layout, *_):
    out = q.new_empty((*q.shape[:-1], v.shape[-1]))
    batch, (tokens, heads) = q.shape[:-3], q.shape[-3:-1]
    if layout == "bhsd":
        tokens, heads = heads, tokens
    return out, q.new_empty((*batch, heads, tokens), dtype=torch.float32)


@overload
def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    layout: str = "bshd",
    causal: bool = False,
    window: Window = None,
    sinks: Optional[Tensor] = None,
    softcap: Optional[float] = None,
    scale: Optional[float] = None,
    cu_seqlens_q: Optional[Tensor] = None,
    cu_seqlens_k: Optional[Tensor] = None,
    max_seqlen_q: Optional[int] = None,
    max_seqlen_k: Optional[int] = None,
    seqused_k: Optional[Tensor] = None,
    page_table: Optional[Tensor] = None,
    attn_mask: Optional[Tensor] = None,
    return_lse: Literal[False] = False,
    split: Optional[int] = None,
) -> Tensor: ...
@overload
def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    layout: str = "bshd",
    causal: bool = False,
    window: Window = None,
    sinks: Optional[Tensor] = None,
    softcap: Optional[float] = None,
    scale: Optional[float] = None,
    cu_seqlens_q: Optional[Tensor] = None,
    cu_seqlens_k: Optional[Tensor] = None,
    max_seqlen_q: Optional[int] = None,
    max_seqlen_k: Optional[int] = None,
    seqused_k: Optional[Tensor] = None,
    page_table: Optional[Tensor] = None,
    attn_mask: Optional[Tensor] = None,
    return_lse: Literal[True],
    split: Optional[int] = None,
) -> Tuple[Tensor, Tensor]: ...
@overload
def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    layout: str = "bshd",
    causal: bool = False,
    window: Window = None,
    sinks: Optional[Tensor] = None,
    softcap: Optional[float] = None,
    scale: Optional[float] = None,
    cu_seqlens_q: Optional[Tensor] = None,
    cu_seqlens_k: Optional[Tensor] = None,
    max_seqlen_q: Optional[int] = None,
    max_seqlen_k: Optional[int] = None,
    seqused_k: Optional[Tensor] = None,
    page_table: Optional[Tensor] = None,
    attn_mask: Optional[Tensor] = None,
    return_lse: bool,
    split: Optional[int] = None,
) -> Union[Tensor, Tuple[Tensor, Tensor]]: ...
def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    layout: str = "bshd",
    causal: bool = False,
    window: Window = None,
    sinks: Optional[Tensor] = None,
    softcap: Optional[float] = None,
    scale: Optional[float] = None,
    cu_seqlens_q: Optional[Tensor] = None,
    cu_seqlens_k: Optional[Tensor] = None,
    max_seqlen_q: Optional[int] = None,
    max_seqlen_k: Optional[int] = None,
    seqused_k: Optional[Tensor] = None,
    page_table: Optional[Tensor] = None,
    attn_mask: Optional[Tensor] = None,
    return_lse: bool = False,
    split: Optional[int] = None,
) -> Union[Tensor, Tuple[Tensor, Tensor]]:
    """`sixwarp.attention` as an operator that torch.compile knows.

    Where nothing has to see the operator (a compiler, a dispatch mode, the profiler), the library is called directly.

    >>> import torch, sixwarp.torch
    >>> q = torch.randn(1, 5, 4, 64)
    >>> sixwarp.torch.attention(q, q, q, causal=True).shape
    torch.Size([1, 5, 4, 64])
    """
    result = known(
        q, k, v, sinks, cu_seqlens_q, cu_seqlens_k, seqused_k, page_table, attn_mask, None, layout, causal, window,
        softcap, scale, max_seqlen_q, max_seqlen_k, return_lse, split,
    )  # fmt: skip
    if result is not None:
        return result
    tensors = (q, k, v, sinks, cu_seqlens_q, cu_seqlens_k, seqused_k, page_table, attn_mask)
    if not is_watched() and are_plain(tensors):
        return _raw(
            q, k, v, layout=layout, causal=causal, window=window, sinks=sinks, softcap=softcap, scale=scale,
            cu_seqlens_q=cu_seqlens_q, cu_seqlens_k=cu_seqlens_k, max_seqlen_q=max_seqlen_q,
            max_seqlen_k=max_seqlen_k, seqused_k=seqused_k, page_table=page_table, attn_mask=attn_mask,
            return_lse=return_lse, split=split,
        )  # fmt: skip
    refuse_gradients(q, k, v, sinks, attn_mask)
    left, right = window if window is not None else (None, None)
    with without_tangents():
        out, lse = torch.ops.sixwarp.attention.default(
            q, k, v, sinks, cu_seqlens_q, cu_seqlens_k, seqused_k, page_table, attn_mask, layout, causal,
            left, right, softcap, scale, max_seqlen_q, max_seqlen_k, split,
        )  # fmt: skip
    return (out, lse) if return_lse else out

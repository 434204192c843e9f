"""Types of `attention` for torch."""

from typing import Literal, Optional, Sequence, SupportsFloat, SupportsIndex, Tuple, Union, overload

from torch import Tensor

_Layout = Literal["bshd", "bhsd"]
_Window = Sequence[Optional[SupportsIndex]]

# spell: overloads of torch attention
@overload
def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    layout: _Layout = ...,
    causal: bool = ...,
    window: Optional[_Window] = ...,
    sinks: Optional[Tensor] = ...,
    softcap: Optional[SupportsFloat] = ...,
    scale: Optional[SupportsFloat] = ...,
    cu_seqlens_q: Optional[Tensor] = ...,
    cu_seqlens_k: Optional[Tensor] = ...,
    max_seqlen_q: Optional[SupportsIndex] = ...,
    max_seqlen_k: Optional[SupportsIndex] = ...,
    seqused_k: Optional[Tensor] = ...,
    page_table: Optional[Tensor] = ...,
    attn_mask: Optional[Tensor] = ...,
    k_descale: Optional[Tensor] = ...,
    v_descale: Optional[Tensor] = ...,
    return_lse: Literal[False] = ...,
    split: Optional[SupportsIndex] = ...,
    arch: Optional[str] = ...,
) -> Tensor: ...
@overload
def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    layout: _Layout = ...,
    causal: bool = ...,
    window: Optional[_Window] = ...,
    sinks: Optional[Tensor] = ...,
    softcap: Optional[SupportsFloat] = ...,
    scale: Optional[SupportsFloat] = ...,
    cu_seqlens_q: Optional[Tensor] = ...,
    cu_seqlens_k: Optional[Tensor] = ...,
    max_seqlen_q: Optional[SupportsIndex] = ...,
    max_seqlen_k: Optional[SupportsIndex] = ...,
    seqused_k: Optional[Tensor] = ...,
    page_table: Optional[Tensor] = ...,
    attn_mask: Optional[Tensor] = ...,
    k_descale: Optional[Tensor] = ...,
    v_descale: Optional[Tensor] = ...,
    return_lse: Literal[True],
    split: Optional[SupportsIndex] = ...,
    arch: Optional[str] = ...,
) -> Tuple[Tensor, Tensor]: ...
@overload
def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    layout: _Layout = ...,
    causal: bool = ...,
    window: Optional[_Window] = ...,
    sinks: Optional[Tensor] = ...,
    softcap: Optional[SupportsFloat] = ...,
    scale: Optional[SupportsFloat] = ...,
    cu_seqlens_q: Optional[Tensor] = ...,
    cu_seqlens_k: Optional[Tensor] = ...,
    max_seqlen_q: Optional[SupportsIndex] = ...,
    max_seqlen_k: Optional[SupportsIndex] = ...,
    seqused_k: Optional[Tensor] = ...,
    page_table: Optional[Tensor] = ...,
    attn_mask: Optional[Tensor] = ...,
    k_descale: Optional[Tensor] = ...,
    v_descale: Optional[Tensor] = ...,
    return_lse: bool,
    split: Optional[SupportsIndex] = ...,
    arch: Optional[str] = ...,
) -> Union[Tensor, Tuple[Tensor, Tensor]]: ...
# spelled

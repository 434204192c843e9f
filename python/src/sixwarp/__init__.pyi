"""Types of the package's functions; `T` is whatever tensor type the caller has."""

from typing import Any, Generic, Literal, Optional, Sequence, Tuple, TypeVar, Union, overload

from . import dsv4 as dsv4
from . import torch as torch
from . import transformers as transformers
from ._library import Unsupported as Unsupported

__version__: str

T = TypeVar("T")
R = TypeVar("R")
Window = Optional[Tuple[Optional[int], Optional[int]]]

@overload
def attention(
    q: T,
    k: T,
    v: T,
    *,
    layout: Literal["bshd", "bhsd"] = ...,
    causal: bool = ...,
    window: Window = ...,
    sinks: Optional[T] = ...,
    softcap: Optional[float] = ...,
    scale: Optional[float] = ...,
    cu_seqlens_q: Optional[T] = ...,
    cu_seqlens_k: Optional[T] = ...,
    max_seqlen_q: Optional[int] = ...,
    max_seqlen_k: Optional[int] = ...,
    seqused_k: Optional[T] = ...,
    page_table: Optional[T] = ...,
    attn_mask: Optional[T] = ...,
    return_lse: Literal[False] = ...,
    out: Optional[T] = ...,
    stream: Any = ...,
    split: Optional[int] = ...,
) -> T: ...
@overload
def attention(
    q: T,
    k: T,
    v: T,
    *,
    layout: Literal["bshd", "bhsd"] = ...,
    causal: bool = ...,
    window: Window = ...,
    sinks: Optional[T] = ...,
    softcap: Optional[float] = ...,
    scale: Optional[float] = ...,
    cu_seqlens_q: Optional[T] = ...,
    cu_seqlens_k: Optional[T] = ...,
    max_seqlen_q: Optional[int] = ...,
    max_seqlen_k: Optional[int] = ...,
    seqused_k: Optional[T] = ...,
    page_table: Optional[T] = ...,
    attn_mask: Optional[T] = ...,
    return_lse: Literal[True],
    out: Optional[T] = ...,
    stream: Any = ...,
    split: Optional[int] = ...,
) -> Tuple[T, T]: ...
@overload
def attention(
    q: T,
    k: T,
    v: T,
    *,
    layout: Literal["bshd", "bhsd"] = ...,
    causal: bool = ...,
    window: Window = ...,
    sinks: Optional[T] = ...,
    softcap: Optional[float] = ...,
    scale: Optional[float] = ...,
    cu_seqlens_q: Optional[T] = ...,
    cu_seqlens_k: Optional[T] = ...,
    max_seqlen_q: Optional[int] = ...,
    max_seqlen_k: Optional[int] = ...,
    seqused_k: Optional[T] = ...,
    page_table: Optional[T] = ...,
    attn_mask: Optional[T] = ...,
    return_lse: bool,
    out: Optional[T] = ...,
    stream: Any = ...,
    split: Optional[int] = ...,
) -> Union[T, Tuple[T, T]]: ...
@overload
def plan(
    q: T,
    k: T,
    v: T,
    *,
    layout: Literal["bshd", "bhsd"] = ...,
    causal: bool = ...,
    window: Window = ...,
    sinks: Optional[T] = ...,
    softcap: Optional[float] = ...,
    scale: Optional[float] = ...,
    cu_seqlens_q: Optional[T] = ...,
    cu_seqlens_k: Optional[T] = ...,
    max_seqlen_q: Optional[int] = ...,
    max_seqlen_k: Optional[int] = ...,
    seqused_k: Optional[T] = ...,
    page_table: Optional[T] = ...,
    attn_mask: Optional[T] = ...,
    return_lse: Literal[False] = ...,
    out: Optional[T] = ...,
    split: Optional[int] = ...,
) -> PlannedAttention[T, T]: ...
@overload
def plan(
    q: T,
    k: T,
    v: T,
    *,
    layout: Literal["bshd", "bhsd"] = ...,
    causal: bool = ...,
    window: Window = ...,
    sinks: Optional[T] = ...,
    softcap: Optional[float] = ...,
    scale: Optional[float] = ...,
    cu_seqlens_q: Optional[T] = ...,
    cu_seqlens_k: Optional[T] = ...,
    max_seqlen_q: Optional[int] = ...,
    max_seqlen_k: Optional[int] = ...,
    seqused_k: Optional[T] = ...,
    page_table: Optional[T] = ...,
    attn_mask: Optional[T] = ...,
    return_lse: Literal[True],
    out: Optional[T] = ...,
    split: Optional[int] = ...,
) -> PlannedAttention[T, Tuple[T, T]]: ...

class PlannedAttention(Generic[T, R]):
    @property
    def workspace_bytes(self) -> int: ...
    @property
    def summary(self) -> str: ...
    @property
    def flops(self) -> float: ...
    def __call__(
        self,
        q: T,
        k: T,
        v: T,
        *,
        sinks: Optional[T] = ...,
        cu_seqlens_q: Optional[T] = ...,
        cu_seqlens_k: Optional[T] = ...,
        seqused_k: Optional[T] = ...,
        page_table: Optional[T] = ...,
        attn_mask: Optional[T] = ...,
        out: Optional[T] = ...,
        lse: Optional[T] = ...,
        workspace: Optional[T] = ...,
        stream: Any = ...,
    ) -> R: ...

def merge(
    outs: Sequence[T],
    lses: Sequence[T],
    *,
    sinks: Optional[T] = ...,
    layout: Literal["bshd", "bhsd"] = ...,
) -> Tuple[T, T]: ...

"""Types of the package's functions.

`_T` is the type of the caller's tensors. Those that may have another element type than `q` (lengths, tables, sinks) are
an `_Array`: of the same library, which type checkers cannot say.
"""

from typing import (
    Any,
    Generic,
    Iterable,
    Literal,
    Optional,
    Protocol,
    Sequence,
    SupportsFloat,
    SupportsIndex,
    Tuple,
    TypeVar,
    Union,
    overload,
)

from . import dsv4 as dsv4
from . import flash_mla as flash_mla
from . import torch as torch
from . import transformers as transformers
from ._library import Unsupported as Unsupported

__version__: str

_T = TypeVar("_T", bound="_Array")
_R = TypeVar("_R")
_Layout = Literal["bshd", "bhsd"]
_Window = Sequence[Optional[SupportsIndex]]

class _Array(Protocol):
    @property
    def shape(self) -> Any: ...
    @property
    def dtype(self) -> Any: ...

# spell: overloads of attention
@overload
def attention(
    q: _T,
    k: _T,
    v: _T,
    *,
    layout: _Layout = ...,
    causal: bool = ...,
    window: Optional[_Window] = ...,
    sinks: Optional[_Array] = ...,
    softcap: Optional[SupportsFloat] = ...,
    scale: Optional[SupportsFloat] = ...,
    cu_seqlens_q: Optional[_Array] = ...,
    cu_seqlens_k: Optional[_Array] = ...,
    max_seqlen_q: Optional[SupportsIndex] = ...,
    max_seqlen_k: Optional[SupportsIndex] = ...,
    seqused_k: Optional[_Array] = ...,
    page_table: Optional[_Array] = ...,
    attn_mask: Optional[_Array] = ...,
    k_descale: Optional[_Array] = ...,
    v_descale: Optional[_Array] = ...,
    return_lse: Literal[False] = ...,
    out: Optional[_T] = ...,
    stream: Any = ...,
    split: Optional[SupportsIndex] = ...,
    arch: Optional[str] = ...,
) -> _T: ...
@overload
def attention(
    q: _T,
    k: _T,
    v: _T,
    *,
    layout: _Layout = ...,
    causal: bool = ...,
    window: Optional[_Window] = ...,
    sinks: Optional[_Array] = ...,
    softcap: Optional[SupportsFloat] = ...,
    scale: Optional[SupportsFloat] = ...,
    cu_seqlens_q: Optional[_Array] = ...,
    cu_seqlens_k: Optional[_Array] = ...,
    max_seqlen_q: Optional[SupportsIndex] = ...,
    max_seqlen_k: Optional[SupportsIndex] = ...,
    seqused_k: Optional[_Array] = ...,
    page_table: Optional[_Array] = ...,
    attn_mask: Optional[_Array] = ...,
    k_descale: Optional[_Array] = ...,
    v_descale: Optional[_Array] = ...,
    return_lse: Literal[True],
    out: Optional[_T] = ...,
    stream: Any = ...,
    split: Optional[SupportsIndex] = ...,
    arch: Optional[str] = ...,
) -> Tuple[_T, _T]: ...
@overload
def attention(
    q: _T,
    k: _T,
    v: _T,
    *,
    layout: _Layout = ...,
    causal: bool = ...,
    window: Optional[_Window] = ...,
    sinks: Optional[_Array] = ...,
    softcap: Optional[SupportsFloat] = ...,
    scale: Optional[SupportsFloat] = ...,
    cu_seqlens_q: Optional[_Array] = ...,
    cu_seqlens_k: Optional[_Array] = ...,
    max_seqlen_q: Optional[SupportsIndex] = ...,
    max_seqlen_k: Optional[SupportsIndex] = ...,
    seqused_k: Optional[_Array] = ...,
    page_table: Optional[_Array] = ...,
    attn_mask: Optional[_Array] = ...,
    k_descale: Optional[_Array] = ...,
    v_descale: Optional[_Array] = ...,
    return_lse: bool,
    out: Optional[_T] = ...,
    stream: Any = ...,
    split: Optional[SupportsIndex] = ...,
    arch: Optional[str] = ...,
) -> Union[_T, Tuple[_T, _T]]: ...
# spelled
# spell: overloads of plan
@overload
def plan(
    q: _T,
    k: _T,
    v: _T,
    *,
    layout: _Layout = ...,
    causal: bool = ...,
    window: Optional[_Window] = ...,
    sinks: Optional[_Array] = ...,
    softcap: Optional[SupportsFloat] = ...,
    scale: Optional[SupportsFloat] = ...,
    cu_seqlens_q: Optional[_Array] = ...,
    cu_seqlens_k: Optional[_Array] = ...,
    max_seqlen_q: Optional[SupportsIndex] = ...,
    max_seqlen_k: Optional[SupportsIndex] = ...,
    seqused_k: Optional[_Array] = ...,
    page_table: Optional[_Array] = ...,
    attn_mask: Optional[_Array] = ...,
    k_descale: Optional[_Array] = ...,
    v_descale: Optional[_Array] = ...,
    return_lse: Literal[False] = ...,
    out: Optional[_T] = ...,
    split: Optional[SupportsIndex] = ...,
    arch: Optional[str] = ...,
) -> PlannedAttention[_T, _T]: ...
@overload
def plan(
    q: _T,
    k: _T,
    v: _T,
    *,
    layout: _Layout = ...,
    causal: bool = ...,
    window: Optional[_Window] = ...,
    sinks: Optional[_Array] = ...,
    softcap: Optional[SupportsFloat] = ...,
    scale: Optional[SupportsFloat] = ...,
    cu_seqlens_q: Optional[_Array] = ...,
    cu_seqlens_k: Optional[_Array] = ...,
    max_seqlen_q: Optional[SupportsIndex] = ...,
    max_seqlen_k: Optional[SupportsIndex] = ...,
    seqused_k: Optional[_Array] = ...,
    page_table: Optional[_Array] = ...,
    attn_mask: Optional[_Array] = ...,
    k_descale: Optional[_Array] = ...,
    v_descale: Optional[_Array] = ...,
    return_lse: Literal[True],
    out: Optional[_T] = ...,
    split: Optional[SupportsIndex] = ...,
    arch: Optional[str] = ...,
) -> PlannedAttention[_T, Tuple[_T, _T]]: ...
@overload
def plan(
    q: _T,
    k: _T,
    v: _T,
    *,
    layout: _Layout = ...,
    causal: bool = ...,
    window: Optional[_Window] = ...,
    sinks: Optional[_Array] = ...,
    softcap: Optional[SupportsFloat] = ...,
    scale: Optional[SupportsFloat] = ...,
    cu_seqlens_q: Optional[_Array] = ...,
    cu_seqlens_k: Optional[_Array] = ...,
    max_seqlen_q: Optional[SupportsIndex] = ...,
    max_seqlen_k: Optional[SupportsIndex] = ...,
    seqused_k: Optional[_Array] = ...,
    page_table: Optional[_Array] = ...,
    attn_mask: Optional[_Array] = ...,
    k_descale: Optional[_Array] = ...,
    v_descale: Optional[_Array] = ...,
    return_lse: bool,
    out: Optional[_T] = ...,
    split: Optional[SupportsIndex] = ...,
    arch: Optional[str] = ...,
) -> PlannedAttention[_T, Union[_T, Tuple[_T, _T]]]: ...
# spelled

class PlannedAttention(Generic[_T, _R]):
    @property
    def workspace_bytes(self) -> int: ...
    @property
    def summary(self) -> str: ...
    @property
    def flops(self) -> float: ...
    def __call__(
        self,
        q: _T,
        k: _T,
        v: _T,
        *,
        # spell: tensors of a stub
        sinks: Optional[_Array] = ...,
        cu_seqlens_q: Optional[_Array] = ...,
        cu_seqlens_k: Optional[_Array] = ...,
        seqused_k: Optional[_Array] = ...,
        page_table: Optional[_Array] = ...,
        attn_mask: Optional[_Array] = ...,
        k_descale: Optional[_Array] = ...,
        v_descale: Optional[_Array] = ...,
        out: Optional[_T] = ...,
        # spelled
        lse: Optional[_Array] = ...,
        workspace: Optional[_Array] = ...,
        stream: Any = ...,
    ) -> _R: ...

def merge(
    outs: Iterable[_T],
    lses: Iterable[_Array],
    *,
    sinks: Optional[_Array] = ...,
    layout: _Layout = ...,
) -> Tuple[_T, _T]: ...
def supports(
    q: _T,
    k: _T,
    v: _T,
    *,
    device: Optional[str] = ...,
    # spell: stub without stream
    layout: _Layout = ...,
    causal: bool = ...,
    window: Optional[_Window] = ...,
    sinks: Optional[_Array] = ...,
    softcap: Optional[SupportsFloat] = ...,
    scale: Optional[SupportsFloat] = ...,
    cu_seqlens_q: Optional[_Array] = ...,
    cu_seqlens_k: Optional[_Array] = ...,
    max_seqlen_q: Optional[SupportsIndex] = ...,
    max_seqlen_k: Optional[SupportsIndex] = ...,
    seqused_k: Optional[_Array] = ...,
    page_table: Optional[_Array] = ...,
    attn_mask: Optional[_Array] = ...,
    k_descale: Optional[_Array] = ...,
    v_descale: Optional[_Array] = ...,
    return_lse: bool = ...,
    out: Optional[_T] = ...,
    split: Optional[SupportsIndex] = ...,
    arch: Optional[str] = ...,
    # spelled
) -> Optional[str]: ...

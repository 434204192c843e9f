"""`sixwarp.attention` for torch."""

from typing import Optional, Tuple, Union

import torch
from torch import Tensor

from .._attention import Window, checked, long_way
from .._parameters import to_operator
from .._prepare import Tensors
from .._torch_tensor import refuse_gradients, without_tangents
from . import _op as _op  # Registers the operator.
from ._eager import are_plain, is_watched, known


def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    # spell: signature of torch
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
    k_descale: Optional[Tensor] = None,
    v_descale: Optional[Tensor] = None,
    return_lse: bool = False,
    split: Optional[int] = None,
    arch: Optional[str] = None,
    # spelled
) -> Union[Tensor, Tuple[Tensor, Tensor]]:
    """`sixwarp.attention` as an operator that torch.compile knows.

    Where nothing has to see the operator (a compiler, a dispatch mode, the profiler), the library is called directly.

    >>> import torch, sixwarp.torch
    >>> q = torch.randn(1, 5, 4, 64)
    >>> sixwarp.torch.attention(q, q, q, causal=True).shape
    torch.Size([1, 5, 4, 64])
    """
    if type(window) is list:
        window = tuple(window)
    result = known(
        # spell: operator tensors, None, options
        q, k, v, sinks, cu_seqlens_q, cu_seqlens_k, seqused_k, page_table, attn_mask, k_descale, v_descale,
        None, layout, causal, window, softcap, scale, max_seqlen_q, max_seqlen_k, return_lse, split, arch,
        # spelled
    )  # fmt: skip
    if result is not None:
        return result
    tensors = (
        # spell: operator tensors
        q, k, v, sinks, cu_seqlens_q, cu_seqlens_k, seqused_k, page_table, attn_mask, k_descale, v_descale,
        # spelled
    )  # fmt: skip
    options = (
        # spell: options
        layout, causal, window, softcap, scale, max_seqlen_q, max_seqlen_k, return_lse, split, arch,
        # spelled
    )  # fmt: skip
    if not is_watched() and are_plain(tensors):
        return long_way(Tensors(*tensors, None), checked(*options), None)
    refuse_gradients(q, k, v, sinks, attn_mask)
    with without_tangents():
        out, lse = torch.ops.sixwarp.attention.default(*tensors, *to_operator(options))
    return (out, lse) if return_lse else out

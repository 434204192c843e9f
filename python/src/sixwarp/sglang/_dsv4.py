"""DeepSeek-V4's sparse attention in SGLang: two functions through which its backend `dsv4` calls FlashMLA.

Both are wrapped, because other models use them as well: calls that are not DeepSeek-V4's go to SGLang's own. Heads come
padded to 64 or 128 here, because SGLang pads them before.
"""

from __future__ import annotations

from typing import Any, Optional, Tuple

from torch import Tensor

from .. import flash_mla

MODULE = "sglang.kernels.ops.attention.flash_mla_interface"
# Bytes of a row of DeepSeek-V4's caches, and numbers of one.
ROW_BYTES, DIM = 584, 512


def hook() -> None:
    """Wraps both functions; SGLang applies it when all plug-ins are loaded. It may be called again."""
    from sglang.srt.plugins.hook_registry import HookRegistry, HookType

    for function in (flash_mla_with_kvcache, flash_mla_sparse_fwd):
        target = f"{MODULE}.{function.__name__}"
        if not any(known is function for _, known, _ in HookRegistry._hooks.get(target, ())):
            HookRegistry.register(target, function, HookType.AROUND)


def flash_mla_with_kvcache(
    theirs: Any,
    q: Tensor,
    k_cache: Tensor,
    block_table: Optional[Tensor],
    cache_seqlens: Optional[Tensor],
    head_dim_v: int,
    tile_scheduler_metadata: Any,
    num_splits: Optional[Tensor] = None,
    softmax_scale: Optional[float] = None,
    causal: bool = False,
    descale_q: Optional[Tensor] = None,
    descale_k: Optional[Tensor] = None,
    is_fp8_kvcache: bool = False,
    indices: Optional[Tensor] = None,
    attn_sink: Optional[Tensor] = None,
    extra_k_cache: Optional[Tensor] = None,
    extra_indices_in_kvcache: Optional[Tensor] = None,
    topk_length: Optional[Tensor] = None,
    extra_topk_length: Optional[Tensor] = None,
    kv_format: Optional[str] = None,
    *,
    use_legacy: bool = True,
) -> Tuple[Tensor, Tensor]:
    """SGLang's signature, behind the function that is wrapped."""
    if indices is None or k_cache.shape[-1] != ROW_BYTES:
        return theirs(
            q, k_cache, block_table, cache_seqlens, head_dim_v, tile_scheduler_metadata, num_splits, softmax_scale,
            causal, descale_q, descale_k, is_fp8_kvcache, indices, attn_sink, extra_k_cache, extra_indices_in_kvcache,
            topk_length, extra_topk_length, kv_format, use_legacy=use_legacy,
        )  # fmt: skip
    return flash_mla.flash_mla_with_kvcache(
        q, k_cache, head_dim_v=head_dim_v, softmax_scale=softmax_scale, is_fp8_kvcache=is_fp8_kvcache, indices=indices,
        attn_sink=attn_sink, extra_k_cache=extra_k_cache, extra_indices_in_kvcache=extra_indices_in_kvcache,
        topk_length=topk_length, extra_topk_length=extra_topk_length, descale_q=descale_q, descale_k=descale_k,
    )  # fmt: skip


def flash_mla_sparse_fwd(
    theirs: Any,
    q: Tensor,
    kv: Tensor,
    indices: Tensor,
    sm_scale: float,
    d_v: int = DIM,
    attn_sink: Optional[Tensor] = None,
    topk_length: Optional[Tensor] = None,
    *,
    use_legacy: bool = True,
) -> Tuple[Tensor, Optional[Tensor], Tensor]:
    """SGLang's signature, behind the function that is wrapped. The largest logit is None: DeepSeek-V4 drops it."""
    if q.shape[-1] != DIM or not use_legacy:
        return theirs(q, kv, indices, sm_scale, d_v, attn_sink, topk_length, use_legacy=use_legacy)
    return flash_mla.flash_mla_sparse_fwd(
        q, kv, indices, sm_scale, d_v, attn_sink, topk_length, return_log2_lse=True, need_max_logits=False
    )

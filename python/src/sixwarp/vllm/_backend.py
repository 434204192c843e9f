"""What vLLM asks of a backend before it makes layers: what is supported, and by which classes."""

from __future__ import annotations

from typing import Any, List, Optional, Type

import torch
from vllm.v1.attention.backend import AttentionBackend, MultipleOf

from .._serving import EXACT, FP8, refusal
from . import NAME
from ._impl import SixwarpImpl
from ._metadata import SixwarpMetadataBuilder

# What `--kv-cache-dtype` may say, and the type that it means; `auto` is the model's own.
CACHES = {"auto": None, "float16": torch.float16, "bfloat16": torch.bfloat16, "fp8": FP8, "fp8_e4m3": FP8}
# Heads of up to so many columns share work out by lengths on the device, which can be told not to cut sequences.
WIDEST_INVARIANT = {(9, 0): 512, (10, 0): 256, (10, 3): 256}


class SixwarpBackend(AttentionBackend):
    """sixwarp's kernels for dense models."""

    supported_dtypes = [torch.float16, torch.bfloat16]
    supported_kv_cache_dtypes = list(CACHES)
    # vLLM calls `do_kv_cache_update` by itself.
    forward_includes_kv_cache_update = False

    @staticmethod
    def get_name() -> str:
        return NAME

    @staticmethod
    def get_impl_cls() -> Type[SixwarpImpl]:
        return SixwarpImpl

    @staticmethod
    def get_builder_cls() -> Type[SixwarpMetadataBuilder]:
        return SixwarpMetadataBuilder

    @staticmethod
    def get_supported_kernel_block_sizes(kv_cache_spec: Any = None) -> list:
        return [MultipleOf(16)]

    @classmethod
    def supports_sink(cls) -> bool:
        return True

    @classmethod
    def supports_sliding_window(cls) -> bool:
        return True

    @classmethod
    def supports_batch_invariance(cls) -> bool:
        """With `VLLM_BATCH_INVARIANT`, sequences are not cut; see `validate_configuration` for wide heads."""
        return True

    @classmethod
    def supports_combination(
        cls,
        head_size: int,
        dtype: torch.dtype,
        kv_cache_dtype: Optional[str],
        block_size: Optional[int],
        use_mla: bool,
        has_sink: bool,
        use_sparse: bool,
        use_mm_prefix: bool,
        device_capability: Any,
    ) -> Optional[str]:
        """Why the GPU cannot do this, in the planner's words."""
        cache = CACHES.get(kv_cache_dtype or "auto", dtype)
        if cache not in (None, dtype, FP8):
            return f"sixwarp: the KV cache is {kv_cache_dtype} and queries are {dtype}: they must agree"
        if kv_cache_dtype is not None and kv_cache_dtype not in CACHES:
            known = ", ".join(CACHES)
            return f"sixwarp has no kernels for dense KV caches of {kv_cache_dtype}: it has them for {known}"
        if use_mla or dtype not in cls.supported_dtypes:
            # The words of vLLM are enough.
            return None
        return refusal(tuple(device_capability), dtype, head_size, block_size or 16, cache)

    @classmethod
    def validate_configuration(cls, head_size: int, *args: Any, **kwargs: Any) -> List[str]:
        """vLLM's own checks, and ours for batch invariance."""
        reasons = super().validate_configuration(head_size, *args, **kwargs)
        if not kwargs.get("use_batch_invariant"):
            return reasons
        capability = tuple(kwargs.get("device_capability", ()))
        widest = WIDEST_INVARIANT.get(capability, 256)
        if head_size > widest:
            reasons.append(f"sixwarp: heads of {head_size} are not batch-invariant: those up to {widest} are")
        if capability not in EXACT:
            reasons.append("sixwarp: batch invariance needs Hopper or Blackwell (9.0, 10.0, 10.3)")
        if CACHES.get(kwargs.get("kv_cache_dtype") or "auto") is FP8:
            reasons.append("sixwarp: kernels that read fp8 caches are not batch-invariant")
        return reasons

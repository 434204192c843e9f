"""A dense layer's attention, and the writing of its cache."""

from __future__ import annotations

from typing import Any, List, Optional

import torch
from torch import Tensor
from vllm import envs
from vllm.v1.attention.backend import AttentionImpl

from .._serving import FP8, NEVER_CUT, Layer, Pages, as_bytes, as_floats, as_fp8, attend
from ._metadata import SixwarpMetadata


class SixwarpImpl(AttentionImpl):
    """One layer. vLLM calls `do_kv_cache_update` with new keys and values, then `forward`."""

    def __init__(
        self,
        num_heads: int,
        head_size: int,
        scale: float,
        num_kv_heads: Optional[int] = None,
        alibi_slopes: Optional[List[float]] = None,
        sliding_window: Optional[int] = None,
        kv_cache_dtype: str = "auto",
        logits_soft_cap: Optional[float] = None,
        attn_type: str = "decoder",
        kv_sharing_target_layer_name: Optional[str] = None,
        sinks: Optional[Tensor] = None,
    ) -> None:
        _refuse(alibi_slopes=alibi_slopes, attn_type=None if attn_type == "decoder" else attn_type)
        self.num_heads, self.head_size, self.scale = num_heads, head_size, float(scale)
        self.num_kv_heads = num_kv_heads or num_heads
        self.kv_cache_dtype = kv_cache_dtype
        self.fp8 = kv_cache_dtype in ("fp8", "fp8_e4m3")
        self.kv_sharing_target_layer_name = kv_sharing_target_layer_name
        split = NEVER_CUT if envs.VLLM_BATCH_INVARIANT else None
        self.layer = Layer(self.scale, sliding_window, logits_soft_cap or None, split)
        self._model_sinks, self.sinks = sinks, None

    def process_weights_after_loading(self, act_dtype: torch.dtype) -> None:
        """Sinks are loaded by now, also when weights are loaded again."""
        self.sinks = as_floats(self._model_sinks)

    def forward(
        self,
        layer: Any,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        kv_cache: Tensor,
        attn_metadata: Optional[SixwarpMetadata],
        output: Tensor,
        output_scale: Optional[Tensor] = None,
        output_block_scale: Optional[Tensor] = None,
    ) -> Tensor:
        """Attention of `query` `[tokens, heads, dim]` over the cache, into `output`."""
        if attn_metadata is None:
            # The profiling run.
            return output.fill_(0)
        if output_scale is not None or output_block_scale is not None:
            raise NotImplementedError("sixwarp: a quantised output is not supported")
        if self._model_sinks is not None and self.sinks is None:
            self.sinks = as_floats(self._model_sinks)
        keys, values = self._pages(kv_cache)
        scales = (layer._k_scale, layer._v_scale) if self.fp8 else (None, None)
        # Some models hand the output over as [tokens, heads * dim].
        out = output if output.dim() == 3 else output.view(query.shape)
        attend(query, Pages(keys, values, *scales), attn_metadata.batch, self.layer, self.sinks, out)
        return output

    def do_kv_cache_update(
        self, layer: Any, key: Tensor, value: Tensor, kv_cache: Tensor, slot_mapping: Tensor
    ) -> None:
        """Writes new keys and values to their slots; a slot of -1 is padding."""
        keys, values = self._pages(kv_cache)
        if kv_cache.device.type == "cpu":
            if self.fp8:
                key, value = as_fp8(key, layer._k_scale), as_fp8(value, layer._v_scale)
            write_rows(key, value, keys, values, slot_mapping)
            return
        from vllm import _custom_ops

        _custom_ops.reshape_and_cache_flash(
            key, value, keys, values, slot_mapping, self.kv_cache_dtype, layer._k_scale, layer._v_scale
        )

    def _pages(self, kv_cache: Tensor) -> Any:
        """The cache's keys and values; vLLM keeps 8-bit numbers as bytes."""
        return pages_of(kv_cache.view(FP8) if self.fp8 else kv_cache, self.head_size)


def pages_of(kv_cache: Tensor, dim: int) -> Any:
    """Keys and values `[pages, rows, heads, dim]` of a cache `[pages, heads, rows, 2 dim]` in any order of memory."""
    return kv_cache.transpose(1, 2).split(dim, dim=-1)


def write_rows(key: Tensor, value: Tensor, keys: Tensor, values: Tensor, slots: Tensor) -> None:
    """Writes rows on the CPU."""
    valid = slots >= 0
    places = slots[valid]
    place = (places // keys.shape[1], places % keys.shape[1])
    for rows, pages in ((key, keys), (value, values)):
        as_bytes(pages)[place] = as_bytes(rows)[: len(slots)][valid]


def _refuse(**given: Any) -> None:
    for name, value in given.items():
        if value is not None:
            raise NotImplementedError(f"sixwarp: {name} is not supported, and it is {value!r}")

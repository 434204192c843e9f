"""A step's lengths and tables, as vLLM's buffers have them.

The tensors of `CommonAttentionMetadata` live in buffers that vLLM fills anew for every step. They are referred to and
never read here, so that a captured graph replays with other lengths.
"""

from __future__ import annotations

import dataclasses
from typing import Any, List

import torch
from torch import Tensor
from vllm.v1.attention.backend import AttentionCGSupport, AttentionMetadataBuilder, CommonAttentionMetadata

from .._serving import Batch


@dataclasses.dataclass
class SixwarpMetadata:
    """What all layers of a group share in one step."""

    batch: Batch
    num_actual_tokens: int
    slot_mapping: Tensor


class SixwarpMetadataBuilder(AttentionMetadataBuilder):
    """Builds a step's metadata; nothing is computed or copied."""

    _cudagraph_support = AttentionCGSupport.ALWAYS
    # Tables are referred to, so another group's metadata is the same with another table.
    supports_update_block_table = True
    # So there is nothing to refresh between draft steps.
    supports_draft_decode_metadata_update = True

    def __init__(self, kv_cache_spec: Any, layer_names: List[str], vllm_config: Any, device: torch.device) -> None:
        super().__init__(kv_cache_spec, layer_names, vllm_config, device)

    def build(
        self, common_prefix_len: int, common_attn_metadata: CommonAttentionMetadata, fast_build: bool = False
    ) -> SixwarpMetadata:
        """The step's metadata, as references."""
        step = common_attn_metadata
        if not isinstance(step.causal, bool):
            raise NotImplementedError("sixwarp: `causal` differs between the requests of a batch: not supported")
        batch = Batch.of(step.query_start_loc, step.seq_lens, step.block_table_tensor, step.max_query_len, step.causal)
        return SixwarpMetadata(batch, step.num_actual_tokens, step.slot_mapping)

    def build_for_cudagraph_capture(self, common_attn_metadata: CommonAttentionMetadata) -> SixwarpMetadata:
        """The same; lengths are 1 while graphs are captured, because those that vLLM sets there take long."""
        metadata = self.build(0, common_attn_metadata)
        metadata.batch.lengths.fill_(1)
        return metadata

    def update_block_table(self, metadata: SixwarpMetadata, blk_table: Tensor, slot_mapping: Tensor) -> SixwarpMetadata:
        """The metadata of another group of layers."""
        old = metadata.batch
        batch = Batch.of(old.offsets, old.lengths, blk_table, old.longest, old.causal)
        return SixwarpMetadata(batch, metadata.num_actual_tokens, slot_mapping)

    def update_draft_decode_metadata(self, metadata: SixwarpMetadata) -> None:
        """Nothing: all fields are vLLM's own buffers."""

from dataclasses import dataclass
from enum import Enum

import torch


@dataclass(frozen=True)
class MultipleOf:
    base: int


class AttentionCGSupport(Enum):
    ALWAYS = 3
    NEVER = 0


class AttentionBackend:
    supported_dtypes = [torch.float16, torch.bfloat16]
    supported_kv_cache_dtypes = ["auto", "float16", "bfloat16"]
    forward_includes_kv_cache_update = True

    @staticmethod
    def get_supported_kernel_block_sizes(kv_cache_spec=None):
        return [MultipleOf(1)]

    @staticmethod
    def get_name():
        raise NotImplementedError

    @staticmethod
    def get_impl_cls():
        raise NotImplementedError

    @staticmethod
    def get_builder_cls():
        raise NotImplementedError

    @classmethod
    def supports_sink(cls):
        return False

    @classmethod
    def supports_sliding_window(cls):
        return False

    @classmethod
    def supports_batch_invariance(cls):
        return False

    @classmethod
    def supports_combination(
        cls, head_size, dtype, kv_cache_dtype, block_size, use_mla, has_sink, use_sparse, use_mm_prefix, device_capability
    ):
        return None

    @classmethod
    def validate_configuration(
        cls, head_size, dtype, kv_cache_dtype, block_size, use_mla, has_sink, use_sparse, use_mm_prefix,
        use_per_head_quant_scales, device_capability, attn_type, has_sliding_window=False, use_non_causal=False,
        use_batch_invariant=False, use_kv_connector=False, use_pcp=False, use_adaptive_verification=False, use_dcp=False,
        use_rswa=False,
    ):  # fmt: skip
        asked = {"sinks": has_sink and not cls.supports_sink(), "windows": has_sliding_window and not cls.supports_sliding_window()}
        asked["KV cache"] = kv_cache_dtype not in (None, *cls.supported_kv_cache_dtypes)
        asked["dtype"] = dtype not in cls.supported_dtypes
        asked["batch invariance"] = use_batch_invariant and not cls.supports_batch_invariance()
        own = cls.supports_combination(
            head_size, dtype, kv_cache_dtype, block_size, use_mla, has_sink, use_sparse, use_mm_prefix, device_capability
        )
        return [f"{name} not supported" for name, wrong in asked.items() if wrong] + ([own] if own else [])


@dataclass
class CommonAttentionMetadata:
    query_start_loc: torch.Tensor
    query_start_loc_cpu: torch.Tensor
    seq_lens: torch.Tensor
    num_reqs: int
    num_actual_tokens: int
    max_query_len: int
    max_seq_len: int
    block_table_tensor: torch.Tensor
    slot_mapping: torch.Tensor
    causal: object = True


class AttentionMetadataBuilder:
    _cudagraph_support = AttentionCGSupport.NEVER
    supports_update_block_table = False
    supports_draft_decode_metadata_update = False

    def __init__(self, kv_cache_spec, layer_names, vllm_config, device):
        self.kv_cache_spec, self.layer_names, self.vllm_config, self.device = kv_cache_spec, layer_names, vllm_config, device

    def build(self, common_prefix_len, common_attn_metadata, fast_build=False):
        raise NotImplementedError

    def update_block_table(self, metadata, blk_table, slot_mapping):
        raise NotImplementedError

    def build_for_cudagraph_capture(self, common_attn_metadata):
        return self.build(common_prefix_len=0, common_attn_metadata=common_attn_metadata)

    def update_draft_decode_metadata(self, metadata):
        raise NotImplementedError


class AttentionImpl:
    def __init__(
        self, num_heads, head_size, scale, num_kv_heads=None, alibi_slopes=None, sliding_window=None,
        kv_cache_dtype="auto", logits_soft_cap=None, attn_type="decoder", kv_sharing_target_layer_name=None,
    ):  # fmt: skip
        raise NotImplementedError

    def forward(
        self, layer, query, key, value, kv_cache, attn_metadata, output, output_scale=None, output_block_scale=None
    ):
        raise NotImplementedError

    def process_weights_after_loading(self, act_dtype):
        pass

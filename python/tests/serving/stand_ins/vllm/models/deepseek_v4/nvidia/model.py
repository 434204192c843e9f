from vllm.models.deepseek_v4.nvidia.flashmla import DeepseekV4FlashMLAAttention


def _select_dsv4_attn_cls(vllm_config):
    return DeepseekV4FlashMLAAttention

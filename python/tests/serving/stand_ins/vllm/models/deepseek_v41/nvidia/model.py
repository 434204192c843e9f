def _select_dsv4_attn_cls(vllm_config):
    return object

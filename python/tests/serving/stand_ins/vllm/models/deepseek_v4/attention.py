class DeepseekV4Attention:
    compress_ratio: int
    prefix: str
    swa_cache_layer: object
    kv_cache: object
    topk_indices_buffer: object
    attn_sink: object
    scale: float

    @classmethod
    def get_padded_num_q_heads(cls, num_heads):
        raise NotImplementedError

    def forward_mqa(self, q, kv, positions, output):
        raise NotImplementedError

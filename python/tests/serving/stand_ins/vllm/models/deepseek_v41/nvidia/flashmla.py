from vllm.models.deepseek_v41.attention import DeepseekV4Attention


class DeepseekV4FlashMLAAttention(DeepseekV4Attention):
    @classmethod
    def get_padded_num_q_heads(cls, num_heads):
        return 64 if num_heads <= 64 else 128

    def forward_mqa(self, q, kv, positions, output):
        raise NotImplementedError

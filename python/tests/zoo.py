"""Tiny models of many kinds, with random weights: two or three layers, four heads, windows of six tokens."""

import copy

import torch
import transformers

VOCABULARY = 97

_DENSE = dict(
    vocab_size=VOCABULARY, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
    max_position_embeddings=64, pad_token_id=0, bos_token_id=1, eos_token_id=1,
)  # fmt: skip
_GROUPED = dict(_DENSE, num_key_value_heads=2)
_WINDOW = dict(_GROUPED, sliding_window=6)
_WIDE = dict(_GROUPED, head_dim=16)
_MIXED = dict(_WIDE, sliding_window=6, layer_types=["sliding_attention", "full_attention"])
_EXPERTS = dict(num_experts=4, num_experts_per_tok=2, moe_intermediate_size=16)
_SMALL = dict(vocab_size=VOCABULARY, hidden_size=32, pad_token_id=0, bos_token_id=1, eos_token_id=1)

_DEEPSEEK_V3 = dict(
    _DENSE, q_lora_rank=16, kv_lora_rank=16, qk_rope_head_dim=8, qk_nope_head_dim=8, v_head_dim=12,
    n_routed_experts=4, num_experts_per_tok=2, n_group=1, topk_group=1, moe_intermediate_size=16,
    first_k_dense_replace=1, n_shared_experts=1, num_key_value_heads=4,
)  # fmt: skip
_DEEPSEEK_V4 = dict(
    _SMALL, num_hidden_layers=3, num_attention_heads=4, head_dim=16, q_lora_rank=16, max_position_embeddings=64,
    n_routed_experts=4, num_experts_per_tok=2, moe_intermediate_size=16, mlp_layer_types=["hash_moe", "moe", "moe"],
    layer_types=["sliding_attention", "compressed_sparse_attention", "heavily_compressed_attention"],
    compress_rates={"compressed_sparse_attention": 4, "heavily_compressed_attention": 8}, hc_mult=2, o_groups=2,
    sliding_window=6, o_lora_rank=8, index_n_heads=2, index_head_dim=8, index_topk=2, qk_rope_head_dim=8,
)  # fmt: skip
_LLAMA4 = dict(
    _GROUPED, head_dim=8, attention_chunk_size=6, intermediate_size_mlp=48, num_local_experts=2, num_hidden_layers=4,
    interleave_moe_layer_step=2,
)  # fmt: skip

# name -> the class's name without `Config` or `ForCausalLM`, and the configuration
MODELS = {
    "bert": ("Bert", _DENSE),
    "bloom": ("Bloom", dict(_SMALL, n_layer=2, n_head=4)),
    "cohere": ("Cohere", _GROUPED),
    "cohere2": ("Cohere2", _MIXED),
    "deepseek_v3": ("DeepseekV3", _DEEPSEEK_V3),
    "deepseek_v4": ("DeepseekV4", _DEEPSEEK_V4),
    "falcon": ("Falcon", dict(_SMALL, num_hidden_layers=2, num_attention_heads=4)),
    "gemma": ("Gemma", _WIDE),
    "gemma2": ("Gemma2", dict(_MIXED, query_pre_attn_scalar=16)),
    "gemma3": ("Gemma3", dict(_MIXED, query_pre_attn_scalar=16)),
    "gpt2": ("GPT2", dict(_SMALL, n_embd=32, n_layer=2, n_head=4, n_positions=64)),
    "gpt_neox": ("GPTNeoX", _DENSE),
    "gpt_oss": ("GptOss", dict(_MIXED, num_local_experts=4, num_experts_per_tok=2)),
    "granite": ("Granite", _GROUPED),
    "llama": ("Llama", _GROUPED),
    "llama4": ("Llama4", _LLAMA4),
    "mistral": ("Mistral", _WINDOW),
    "mixtral": ("Mixtral", dict(_WINDOW, num_local_experts=4)),
    "olmo2": ("Olmo2", _GROUPED),
    "opt": ("OPT", dict(_DENSE, ffn_dim=48, word_embed_proj_dim=32)),
    "phi": ("Phi", _DENSE),
    "phi3": ("Phi3", _WINDOW),
    "qwen2": ("Qwen2", _GROUPED),
    "qwen2_moe": ("Qwen2Moe", dict(_GROUPED, **_EXPERTS, shared_expert_intermediate_size=16)),
    "qwen3": ("Qwen3", _WIDE),
    "qwen3_moe": ("Qwen3Moe", dict(_WIDE, **_EXPERTS)),
    "smollm3": ("SmolLM3", _GROUPED),
    "starcoder2": ("Starcoder2", _WINDOW),
    "t5": ("T5", dict(_SMALL, d_model=32, d_kv=8, d_ff=48, num_layers=2, num_heads=4, decoder_start_token_id=0)),
}

_CONFIGS = {"Gemma3": "Gemma3TextConfig", "Llama4": "Llama4TextConfig"}
_CLASSES = {"Bert": "BertModel", "GPT2": "GPT2LMHeadModel", "T5": "T5ForConditionalGeneration"}


def make(name, implementation, **changed):
    """A model in evaluation mode, the same for every implementation."""
    kind, options = MODELS[name]
    config = getattr(transformers, _CONFIGS.get(kind, f"{kind}Config"))
    model = getattr(transformers, _CLASSES.get(kind, f"{kind}ForCausalLM"))
    torch.manual_seed(0)
    made = model(config(**{**copy.deepcopy(options), **changed}, attn_implementation=implementation)).eval()
    with torch.no_grad():
        for parameter in made.parameters():
            if parameter.is_floating_point():
                parameter.normal_(0, 0.3)
    return made

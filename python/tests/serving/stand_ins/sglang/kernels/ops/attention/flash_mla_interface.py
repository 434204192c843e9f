def flash_mla_with_kvcache(
    q, k_cache, block_table, cache_seqlens, head_dim_v, tile_scheduler_metadata, num_splits=None, softmax_scale=None,
    causal=False, descale_q=None, descale_k=None, is_fp8_kvcache=False, indices=None, attn_sink=None, extra_k_cache=None,
    extra_indices_in_kvcache=None, topk_length=None, extra_topk_length=None, kv_format=None, *, use_legacy=True,
):  # fmt: skip
    return "theirs"


def flash_mla_sparse_fwd(q, kv, indices, sm_scale, d_v=512, attn_sink=None, topk_length=None, *, use_legacy=True):
    return "theirs"

from dataclasses import dataclass


@dataclass
class DeepseekV4FlashMLAMetadata:
    block_table: object
    block_size: int
    c128a_global_decode_topk_indices: object = None
    c128a_decode_topk_lens: object = None
    c128a_prefill_topk_indices: object = None

from dataclasses import dataclass


@dataclass
class DeepseekSparseSWAMetadata:
    block_table: object
    slot_mapping: object
    block_size: int
    is_valid_token: object = None
    token_to_req_indices: object = None
    decode_swa_indices: object = None
    decode_swa_lens: object = None
    prefill_swa_indices: object = None
    prefill_swa_lens: object = None
    num_decode_tokens: int = 0
    num_prefill_tokens: int = 0

import torch


def compute_global_topk_indices_and_lens(topk_indices, token_to_req_indices, block_table, block_size, is_valid_token):
    local = topk_indices.long()
    pages = block_table[token_to_req_indices.long()].gather(1, (local.clamp(min=0) // block_size))
    places = torch.where(local >= 0, pages * block_size + local % block_size, -1)
    return places.int(), ((local >= 0).sum(1) * is_valid_token).int()

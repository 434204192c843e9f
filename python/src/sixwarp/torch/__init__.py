"""torch: a registered operator, and drop-in functions.

- `attention` is `sixwarp.attention` as the operator `torch.ops.sixwarp.attention`: it works under
  `torch.compile(fullgraph=True)` and in CUDA graphs.
- `sdpa` stands in for `torch.nn.functional.scaled_dot_product_attention`.
- `flash_attn_func` and its family have flash-attn's signatures, and take keywords of FlashAttention-3.

There is no backward: tensors that require a gradient are refused.
"""

from ._flash import (
    flash_attn_func,
    flash_attn_kvpacked_func,
    flash_attn_qkvpacked_func,
    flash_attn_varlen_func,
    flash_attn_varlen_kvpacked_func,
    flash_attn_varlen_qkvpacked_func,
)
from ._flash_cache import flash_attn_with_kvcache
from ._attention import attention
from ._sdpa import sdpa

__all__ = [
    "attention",
    "flash_attn_func",
    "flash_attn_kvpacked_func",
    "flash_attn_qkvpacked_func",
    "flash_attn_varlen_func",
    "flash_attn_varlen_kvpacked_func",
    "flash_attn_varlen_qkvpacked_func",
    "flash_attn_with_kvcache",
    "sdpa",
]

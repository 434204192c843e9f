"""FlashMLA's functions, by its signatures: paged MLA decode, sparse decode over packed caches, sparse prefill.

`flash_mla_with_kvcache` takes what FlashMLA, vLLM and SGLang call it with, on the CPU as on a GPU:

- dense MLA decode (576/512) over pages of 16-bit rows, by `block_table` and `cache_seqlens`;
- sparse decode by `indices`, over one cache or two under one softmax with one sink per head. Rows are told apart by
  their bytes: 584 (DeepSeek-V4, MODEL1), 656 (V3.2), 528 and 288 (V4.1); or they are 16-bit numbers.

Any number of heads, any width of lists at any strides, any page size and distance of pages are taken. An index that
names no row, such as -1, is skipped and never read. The log-sum-exp is a natural logarithm without the sink, and +inf
for a row without keys, as FlashMLA's. Scheduling metadata is taken and not needed. What a device cannot do is refused
by name, before anything is computed (`sixwarp.Unsupported`).
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any, Optional, Tuple

import torch
from torch import Tensor

from . import _describe as describe
from ._attention import attention
from ._caches import Cache, Call, decode
from ._options import real, whole
from ._tensor import adapter_for


LOG2_E = math.log2(math.e)


@dataclasses.dataclass
class FlashMLASchedMeta:
    """What FlashMLA keeps between calls. sixwarp needs nothing of it: it is there to be handed on."""

    have_initialized: bool = False
    config: Any = None
    tile_scheduler_metadata: Optional[Tensor] = None
    num_splits: Optional[Tensor] = None


def get_mla_metadata(*args: Any, **kwargs: Any) -> Tuple[FlashMLASchedMeta, None]:
    """An empty `FlashMLASchedMeta`, and None; arguments are those of older versions, and not looked at."""
    return FlashMLASchedMeta(), None


def flash_mla_with_kvcache(
    q: Tensor,
    k_cache: Tensor,
    block_table: Optional[Tensor] = None,
    cache_seqlens: Optional[Tensor] = None,
    head_dim_v: int = 512,
    tile_scheduler_metadata: Any = None,
    num_splits: Any = None,
    softmax_scale: Optional[float] = None,
    causal: bool = False,
    is_fp8_kvcache: bool = False,
    indices: Optional[Tensor] = None,
    attn_sink: Optional[Tensor] = None,
    extra_k_cache: Optional[Tensor] = None,
    extra_indices_in_kvcache: Optional[Tensor] = None,
    topk_length: Optional[Tensor] = None,
    extra_topk_length: Optional[Tensor] = None,
    *,
    out: Optional[Tensor] = None,
    use_legacy: bool = True,
    descale_q: Optional[Tensor] = None,
    descale_k: Optional[Tensor] = None,
) -> Tuple[Tensor, Tensor]:
    """FlashMLA's `flash_mla_with_kvcache`: `(out, lse)` for `q` of `[batch, s_q, heads, dim]`.

    `out` is `[batch, s_q, heads, head_dim_v]`, and written where it is given; `lse` is float32 `[batch, heads, s_q]`.
    `indices` and `extra_indices_in_kvcache` are int32 `[batch, s_q, topk]`; lengths are `[batch]`, or `[batch, s_q]`.
    `use_legacy` is SGLang's: without it, scales of DeepSeek-V4.1's rows lie behind each row, as in DeepSeek's own
    release, and not behind all rows of a page, as in vLLM. `num_splits` and metadata are not looked at.

    >>> import torch
    >>> from sixwarp import dsv4
    >>> from sixwarp.flash_mla import flash_mla_with_kvcache, get_mla_metadata
    >>> rows = torch.randn(2 * 64, 512).bfloat16()
    >>> pages = dsv4.pack_rows(rows)[:, : 64 * 584].unflatten(1, (64, 1, 584))   # as a serving engine views them
    >>> q = torch.randn(3, 2, 16, 512).bfloat16()                               # 3 requests, 2 tokens each, 16 heads
    >>> indices = torch.randint(-1, 128, (3, 2, 128), dtype=torch.int32)
    >>> out, lse = flash_mla_with_kvcache(
    ...     q, pages, None, None, 512, get_mla_metadata()[0], is_fp8_kvcache=True, indices=indices,
    ...     attn_sink=torch.zeros(16), topk_length=torch.tensor([128, 5, 0], dtype=torch.int32))
    >>> out.shape, lse.shape, bool(lse[2].isposinf().all())                      # the last request has no keys
    (torch.Size([3, 2, 16, 512]), torch.Size([3, 16, 2]), True)
    """
    name = "flash_mla_with_kvcache"
    _refuse(name, descale_q=descale_q, descale_k=descale_k)
    _ensure_tensors(q=q, k_cache=k_cache)
    width = whole("head_dim_v", head_dim_v, 1)
    if q.dim() != 4:
        raise ValueError(f"q has shape {tuple(q.shape)}: [batch, s_q, heads, dim] is needed")
    if indices is None:
        _refuse(
            f"{name} without indices", attn_sink=attn_sink, extra_k_cache=extra_k_cache, topk_length=topk_length,
            extra_indices_in_kvcache=extra_indices_in_kvcache, extra_topk_length=extra_topk_length,
            is_fp8_kvcache=is_fp8_kvcache or None,
        )  # fmt: skip
        return _dense(q, k_cache, block_table, cache_seqlens, width, softmax_scale, causal, out)
    _refuse(f"{name} with indices", causal=causal or None)
    caches = (Cache("k_cache", "indices", "", "topk_length", None, not use_legacy),)
    _ensure_kind("k_cache", k_cache, is_fp8_kvcache)
    if (extra_k_cache is None) != (extra_indices_in_kvcache is None):
        raise ValueError("extra_k_cache and extra_indices_in_kvcache are given together, and one of them is None")
    if extra_k_cache is None:
        _refuse(f"{name} without extra_k_cache", extra_topk_length=extra_topk_length)
    else:
        _ensure_kind("extra_k_cache", extra_k_cache, is_fp8_kvcache)
        names = ("extra_k_cache", "extra_indices_in_kvcache", "", "extra_topk_length")
        caches += (Cache(*names, None, not use_legacy),)
    tensors = {
        "q": q, "k_cache": k_cache, "indices": indices, "topk_length": topk_length, "attn_sink": attn_sink,
        "extra_k_cache": extra_k_cache, "extra_indices_in_kvcache": extra_indices_in_kvcache,
        "extra_topk_length": extra_topk_length, "out": out,
    }  # fmt: skip
    result, lse = _call(tensors, caches, width, softmax_scale).run()
    return result, _positive(lse)


def flash_mla_sparse_fwd(
    q: Tensor,
    kv: Tensor,
    indices: Tensor,
    sm_scale: float,
    d_v: int = 512,
    attn_sink: Optional[Tensor] = None,
    topk_length: Optional[Tensor] = None,
    indexer_topk: int = 0,
    *,
    out: Optional[Tensor] = None,
    return_log2_lse: bool = False,
    need_max_logits: bool = True,
) -> Tuple[Tensor, Optional[Tensor], Tensor]:
    """FlashMLA's `flash_mla_sparse_fwd`: `(out, max_logits, lse)` for `q` of `[s_q, heads, dim]`.

    `kv` is `[s_kv, 1, dim]` of `q`'s type, `indices` int32 `[s_q, 1, topk]`, `topk_length` int32 `[s_q]`. `out` is
    `[s_q, heads, d_v]`; `max_logits` (-inf for a row without keys) and `lse` (+inf) are float32 `[s_q, heads]`,
    natural logarithms without the sink. With SGLang's `return_log2_lse` both are to base 2.

    Beyond FlashMLA, `kv` may be pages of packed rows as `flash_mla_with_kvcache` takes them (`[pages, rows, 1, bytes]`);
    an index is then `page · rows + row`, and no pass has to gather or unpack rows before.

    sixwarp has no use for the largest logit: it is computed by torch, which takes as long again. vLLM and SGLang drop
    it; with `need_max_logits=False` it is None. Of packed rows it is not computed.

    >>> import torch
    >>> from sixwarp.flash_mla import flash_mla_sparse_fwd
    >>> q, kv = torch.randn(4, 16, 512).bfloat16(), torch.randn(300, 1, 512).bfloat16()
    >>> indices = torch.randint(-1, 300, (4, 1, 128), dtype=torch.int32)
    >>> out, max_logits, lse = flash_mla_sparse_fwd(q, kv, indices, 512**-0.5)
    >>> out.shape, max_logits.shape, bool((lse >= max_logits).all())
    (torch.Size([4, 16, 512]), torch.Size([4, 16]), True)
    """
    _refuse("flash_mla_sparse_fwd", indexer_topk=indexer_topk or None)
    _ensure_tensors(q=q, kv=kv, indices=indices)
    if q.dim() != 3:
        raise ValueError(f"q has shape {tuple(q.shape)}: [s_q, heads, dim] is needed")
    width, tokens = whole("d_v", d_v, 1), q.shape[0]
    packed = kv.element_size() == 1 and kv.dim() == 4
    if not packed and (kv.dim() != 3 or kv.shape[1] != 1 or kv.dtype is not q.dtype):
        raise ValueError(f"kv is {kv.dtype} of shape {tuple(kv.shape)}: {q.dtype} of [s_kv, 1, {q.shape[2]}] is needed")
    if tuple(indices.shape[:2]) != (tokens, 1) or indices.dim() != 3:
        raise ValueError(f"indices has shape {tuple(indices.shape)}: [{tokens}, 1, topk] is needed")
    if packed and need_max_logits:
        raise NotImplementedError("flash_mla_sparse_fwd: max_logits of packed rows is not supported: need_max_logits=False")
    if kv.shape[0] == 0 and not packed:
        kv, indices = kv.new_zeros(1, 1, kv.shape[2]), torch.full_like(indices, -1)
    # All rows are one page.
    tensors = {
        "q": q, "kv": kv if packed else kv.transpose(0, 1), "indices": indices[:, 0], "topk_length": topk_length,
        "attn_sink": attn_sink, "out": out,
    }  # fmt: skip
    cache = Cache("kv", "indices", "", "topk_length")
    result, lse = _call(tensors, (cache,), width, real("sm_scale", sm_scale)).run()
    lse = lse.reshape(lse.shape[:2])
    largest = _max_logits(q, kv[:, 0], indices[:, 0], sm_scale, topk_length) if need_max_logits else None
    if return_log2_lse:
        lse = lse * LOG2_E
        largest = None if largest is None else largest * LOG2_E
    return result, largest, _positive(lse)


def _call(tensors: dict, caches: Tuple[Cache, ...], width: int, scale: Any) -> Call:
    """The call over caches, of tensors that are on one device and differentiated by nobody."""
    a = adapter_for([*tensors], [*tensors.values()])
    describe.ensure_one_device(a, tensors)
    a.refuse_gradients(*tensors.values())
    return decode(a, tensors, caches, "attn_sink", width, None if scale is None else real("softmax_scale", scale))


def _dense(
    q: Tensor, k_cache: Tensor, block_table: Any, lengths: Any, width: int, scale: Any, causal: bool, out: Any
) -> Tuple[Tensor, Tensor]:
    """Decode over whole sequences of pages."""
    if block_table is None or lengths is None:
        raise ValueError("block_table and cache_seqlens are needed without indices, and one of them is None")
    if k_cache.dim() != 4 or k_cache.shape[3] != q.shape[3] or width > q.shape[3]:
        rows = f"[blocks, page, KV heads, {q.shape[3]}] with head_dim_v of at most as much"
        raise ValueError(f"k_cache has shape {tuple(k_cache.shape)} and head_dim_v is {width}: {rows} is needed")
    result, lse = attention(
        q, k_cache, k_cache[..., :width], causal=causal, page_table=block_table, seqused_k=lengths, scale=scale,
        return_lse=True, out=out,
    )  # fmt: skip
    return result, _positive(lse)


def _positive(lse: Tensor) -> Tensor:
    """FlashMLA writes +inf for a row without keys, sixwarp -inf."""
    return lse.masked_fill_(lse == float("-inf"), float("inf"))


def _ensure_tensors(**tensors: Any) -> None:
    for name, x in tensors.items():
        if not isinstance(x, Tensor):
            raise TypeError(f"{name} is {type(x).__name__}: a torch tensor is needed")


def _ensure_kind(name: str, pages: Any, fp8: bool) -> None:
    packed = isinstance(pages, Tensor) and pages.element_size() == 1
    if packed != bool(fp8):
        raise ValueError(f"{name} is {pages.dtype}, and is_fp8_kvcache is {fp8}")


def _refuse(where: str, **given: Any) -> None:
    """Raises for what is given and not supported."""
    for name, value in given.items():
        if value is not None:
            what = f"a tensor {tuple(value.shape)}" if isinstance(value, Tensor) else repr(value)
            raise NotImplementedError(f"{where}: {name} is not supported, and it is {what}")


# Elements of keys that are gathered at a time.
_AT_ONCE = 1 << 24


def _max_logits(q: Tensor, rows: Tensor, lists: Tensor, scale: float, lengths: Optional[Tensor]) -> Tensor:
    """The largest logit of every row and head, in float32."""
    seen = (lists >= 0) & (lists < len(rows))
    if lengths is not None:
        seen &= torch.arange(lists.shape[1], device=lists.device) < lengths[:, None]
    most = q.new_empty(q.shape[:2], dtype=torch.float32)
    step = max(1, _AT_ONCE // max(1, lists.shape[1] * rows.shape[1]))
    for at in range(0, len(q), step):
        some = slice(at, at + step)
        keys = rows[lists[some].clamp(0, len(rows) - 1).long()].float()
        logits = torch.einsum("thd,tkd->thk", q[some].float(), keys) * scale
        most[some] = logits.masked_fill(~seen[some, None], float("-inf")).amax(-1)
    return most

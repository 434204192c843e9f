"""The attention backend for dense models.

Keys and values are read where SGLang's pool has them, through a page table of each request. Lengths stay on the
device. Steps that decode can be captured: their tables, lengths and offsets then lie in buffers that are filled before
a replay.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Optional

import torch
from sglang.srt.layers.attention.base_attn_backend import AttentionBackend
from sglang.srt.mem_cache.memory_pool import KVWriteLoc
from sglang.srt.mem_cache.swa_memory_pool import SWAKVPool
from torch import Tensor

from .._serving import FP8, Batch, Layer, Pages, as_floats, attend, refusal
from ._tables import Tables


class Step(NamedTuple):
    """What all layers share in one step."""

    full: Batch
    # For layers whose windows have a pool of their own.
    window: Optional[Batch]
    # Where new rows go in that pool.
    window_slots: Optional[Tensor]


class SixwarpAttnBackend(AttentionBackend):
    """sixwarp's kernels behind SGLang's interface."""

    def __init__(self, model_runner: Any) -> None:
        super().__init__()
        _refuse_model(model_runner)
        self.pool, self.page = model_runner.token_to_kv_pool, model_runner.page_size
        self.req_to_token = model_runner.req_to_token_pool.req_to_token
        self.hybrid = isinstance(self.pool, SWAKVPool) and self.pool.swa_layer_nums > 0
        self.fp8 = model_runner.kv_cache_dtype is FP8
        self.tables = self._tables(0)
        self.forward_metadata: Optional[Step] = None

    def _tables(self, requests: int) -> Tables:
        translate = self.pool.translate_loc_from_full_to_swa if self.hybrid else None
        return Tables(self.req_to_token, self.page, translate, requests)

    def get_cuda_graph_seq_len_fill_value(self) -> int:
        """The length of padded requests: one key, of which nobody reads the result."""
        return 1

    def init_cuda_graph_state(self, max_bs: int, max_num_tokens: int) -> None:
        """Makes the buffers that captured graphs read."""
        self.tables = self._tables(max_bs)
        device = self.req_to_token.device
        self.lengths = torch.ones(max_bs, dtype=torch.int32, device=device)
        self.offsets = torch.arange(max_bs + 1, dtype=torch.int32, device=device)
        self.window_slots = torch.zeros(max_num_tokens, dtype=torch.int64, device=device) if self.hybrid else None

    def init_forward_metadata_out_graph(self, forward_batch: Any, in_capture: bool = False) -> None:
        """Fills the buffers of a captured graph; only graphs that decode are captured."""
        mode, count = forward_batch.forward_mode, forward_batch.batch_size
        if not mode.is_decode_or_idle():
            raise NotImplementedError(f"sixwarp: graphs of {mode} are not captured: --disable-prefill-cuda-graph")
        self.lengths[:count] = forward_batch.seq_lens[:count]
        longest = None if in_capture else _longest(forward_batch.seq_lens_cpu)
        self.tables.fill(forward_batch.req_pool_indices[:count], self.tables.pages_in_use(longest))
        offsets, lengths = self.offsets[: count + 1], self.lengths[:count]
        batch = lambda table: None if table is None else Batch.of(offsets, lengths, table[:count], 1)
        slots = self._translated(forward_batch.out_cache_loc)
        if slots is not None and self.window_slots is not None:
            self.window_slots[: len(slots)] = slots
            slots = self.window_slots[: len(slots)]
        self.forward_metadata = Step(batch(self.tables.full), batch(self.tables.window), slots)

    def init_forward_metadata(self, forward_batch: Any) -> None:
        """The metadata of a step that runs eagerly."""
        count = forward_batch.batch_size
        requests, lengths = forward_batch.req_pool_indices[:count], forward_batch.seq_lens[:count].to(torch.int32)
        if forward_batch.forward_mode.is_decode_or_idle():
            offsets, longest = torch.arange(count + 1, dtype=torch.int32, device=lengths.device), 1
        else:
            ends = forward_batch.extend_seq_lens[:count].cumsum(0)
            offsets = torch.nn.functional.pad(ends, (1, 0)).to(torch.int32)
            longest = max(forward_batch.extend_seq_lens_cpu, default=1)
        slots = self.tables.slots(requests, self.tables.pages_in_use(_longest(forward_batch.seq_lens_cpu)))
        batch = lambda window: Batch.of(offsets, lengths, self.tables.pages_of(slots, window), longest)
        window_slots = self._translated(forward_batch.out_cache_loc)
        self.forward_metadata = Step(batch(False), batch(True) if self.hybrid else None, window_slots)

    def _translated(self, slots: Optional[Tensor]) -> Optional[Tensor]:
        if slots is None or not self.hybrid:
            return None
        return self.pool.translate_loc_from_full_to_swa(slots)

    def forward_decode(
        self, q: Tensor, k: Tensor, v: Tensor, layer: Any, forward_batch: Any, save_kv_cache: bool = True, **kwargs: Any
    ) -> Tensor:
        """Attention of one token per request."""
        return self._forward(q, k, v, layer, forward_batch, save_kv_cache, **kwargs)

    def forward_extend(
        self, q: Tensor, k: Tensor, v: Tensor, layer: Any, forward_batch: Any, save_kv_cache: bool = True, **kwargs: Any
    ) -> Tensor:
        """Attention of new tokens, also mixed with decodes."""
        return self._forward(q, k, v, layer, forward_batch, save_kv_cache, **kwargs)

    def _forward(
        self, q: Tensor, k: Any, v: Any, layer: Any, forward_batch: Any, save: bool, sinks: Any = None, **others: Any
    ) -> Tensor:
        _refuse_layer(layer, others)
        step = self.forward_metadata
        assert step is not None, "init_forward_metadata comes first"
        scales = (layer.k_scale, layer.v_scale) if self.fp8 else ()
        if save and k is not None:
            # The pool rounds to 8 bits, and divides by scales where there are any.
            self.pool.set_kv_buffer(layer, KVWriteLoc(forward_batch.out_cache_loc, step.window_slots), k, v, *scales)
        own_pool = self.hybrid and self.pool.layers_mapping[layer.layer_id][1]
        keys, values = (
            _paged(buffer, self.page)
            for buffer in (self.pool.get_key_buffer(layer.layer_id), self.pool.get_value_buffer(layer.layer_id))
        )
        q = q.reshape(-1, layer.tp_q_head_num, layer.qk_head_dim)
        out = q.new_empty(q.shape[0], layer.tp_q_head_num, layer.v_head_dim)
        batch = step.window if own_pool else step.full
        attend(q, Pages(keys, values, *scales), batch, _layer(layer), as_floats(sinks), out)
        return out.view(q.shape[0], -1)

    def support_triton(self) -> bool:
        """Whether SGLang may use its Triton kernels beside these."""
        return True


def _layer(layer: Any) -> Layer:
    """SGLang's window counts the keys before the query's own; -1 is none."""
    window = layer.sliding_window_size
    window = None if window is None or window < 0 else window + 1
    return Layer(layer.scaling, window, layer.logit_cap or None)


def _paged(buffer: Tensor, page: int) -> Tensor:
    """Slots `[slots, heads, dim]` as pages."""
    return buffer.unsqueeze(1) if page == 1 else buffer.unflatten(0, (-1, page))


def _longest(lengths: Optional[Tensor]) -> Optional[int]:
    return None if lengths is None or not len(lengths) else int(lengths.max())


def _refuse_model(runner: Any) -> None:
    """Raises for models and options that the kernels do not have."""
    if runner.use_mla_backend:
        raise NotImplementedError("sixwarp: models with MLA are not supported by this backend")
    if not runner.spec_algorithm.is_none():
        raise NotImplementedError(f"sixwarp: speculative decoding ({runner.spec_algorithm}) is not supported")
    if runner.model_config.is_encoder_decoder:
        raise NotImplementedError("sixwarp: encoder-decoder models are not supported")
    if runner.kv_cache_dtype not in (runner.dtype, FP8):
        types = f"the KV cache is {runner.kv_cache_dtype} and the model {runner.dtype}"
        raise NotImplementedError(f"sixwarp: {types}: they must agree, or the cache be {FP8}")
    if torch.device(runner.device).type == "cuda":
        capability = torch.cuda.get_device_capability()
        reason = refusal(capability, runner.dtype, runner.model_config.head_dim, runner.page_size, runner.kv_cache_dtype)
        if reason is not None:
            raise NotImplementedError(reason)


def _refuse_layer(layer: Any, others: dict) -> None:
    for name, value in others.items():
        if value is not None and value is not False:
            raise NotImplementedError(f"sixwarp: attention with {name} is not supported")
    kind = getattr(layer.attn_type, "value", layer.attn_type)
    if layer.is_cross_attention or kind != "decoder":
        what = "cross-attention" if layer.is_cross_attention else f"attention of type {kind}"
        raise NotImplementedError(f"sixwarp: {what} is not supported")

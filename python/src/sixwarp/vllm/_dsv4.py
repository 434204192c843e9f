"""DeepSeek-V4's attention layer on sixwarp, in place of vLLM's own where `SIXWARP` is the chosen backend.

vLLM's layer pads queries to 64 or 128 heads, and gathers caches into a workspace of 16-bit rows before a prefill. This
one does neither. Decodes and prefills read the packed pages through the lists of rows that vLLM computes for both.

vLLM chooses the layer's class by a function of the model's module, which knows no names but its own. That function is
replaced when its module is imported, which is not before a DeepSeek-V4 model is loaded.
"""

from __future__ import annotations

import functools
from typing import Any, Optional, Tuple

from torch import Tensor

from . import NAME
from ._after_import import after_import
from ._packed import Rows, attend

V4, V41 = "vllm.models.deepseek_v4.nvidia.model", "vllm.models.deepseek_v41.nvidia.model"
CHOICE = "_select_dsv4_attn_cls"


def install() -> None:
    """Replaces the choice of the layer's class, once it is there. It may be called again."""
    after_import(V4, functools.partial(_replace_choice, choose=layer_class))
    after_import(V41, functools.partial(_replace_choice, choose=_refuse_v41))


def _replace_choice(module: Any, choose: Any) -> None:
    theirs = getattr(module, CHOICE)
    if getattr(theirs, "is_sixwarps", False):
        return

    @functools.wraps(theirs)
    def select(vllm_config: Any) -> Any:
        chosen = vllm_config.attention_config.backend
        return choose() if getattr(chosen, "name", None) == NAME else theirs(vllm_config)

    select.is_sixwarps = True  # type: ignore[attr-defined]
    setattr(module, CHOICE, select)


def _refuse_v41() -> Any:
    raise NotImplementedError(f"{NAME} has no layer for DeepSeek-V4.1: choose another --attention-backend")


@functools.lru_cache(maxsize=None)
def layer_class() -> Any:
    """The layer: vLLM's for FlashMLA, with another number of heads and another `forward_mqa`."""
    from vllm.models.deepseek_v4.nvidia.flashmla import DeepseekV4FlashMLAAttention

    class DeepseekV4SixwarpAttention(Forward, DeepseekV4FlashMLAAttention):
        """DeepSeek-V4's attention on sixwarp."""

    return DeepseekV4SixwarpAttention


class Forward:
    """What differs from vLLM's layer. Attributes are those of `DeepseekV4Attention`."""

    compress_ratio: int
    prefix: str
    swa_cache_layer: Any
    kv_cache: Tensor
    topk_indices_buffer: Optional[Tensor]
    attn_sink: Tensor
    scale: float

    @classmethod
    def get_padded_num_q_heads(cls, num_heads: int) -> int:
        """As many as there are."""
        return num_heads

    def forward_mqa(self, q: Tensor, kv: Tensor, positions: Tensor, output: Tensor) -> None:
        """Attention of `q` `[tokens, heads, 512]` over the window and compressed rows, into `output`."""
        from vllm.forward_context import get_forward_context

        metadata = get_forward_context().attn_metadata
        if metadata is None:
            # The profiling run.
            output.zero_()
            return
        step, own = metadata[self.swa_cache_layer.prefix], metadata.get(self.prefix)
        decodes = slice(0, step.num_decode_tokens)
        prefills = slice(decodes.stop, decodes.stop + step.num_prefill_tokens)
        if decodes.stop > 0:
            lists = (step.decode_swa_indices, step.decode_swa_lens)
            self._attend(q[decodes], lists, self._decode_lists(step, own, decodes), output[decodes])
        if prefills.stop > prefills.start:
            lists = (step.prefill_swa_indices, step.prefill_swa_lens)
            self._attend(q[prefills], lists, self._prefill_lists(step, own, prefills), output[prefills])

    def _attend(self, q: Tensor, window: Tuple[Tensor, Tensor], compressed: Optional[Tuple], out: Tensor) -> None:
        """Every token is a request of its own, with a list of window rows and one of compressed rows."""
        caches: Tuple[Rows, ...] = (Rows(self.swa_cache_layer.kv_cache, *window),)
        if compressed is not None:
            caches += (Rows(self.kv_cache, *compressed),)
        attend(q.unsqueeze(1), caches, self.attn_sink, self.scale, out.unsqueeze(1))

    def _decode_lists(self, step: Any, own: Any, tokens: slice) -> Optional[Tuple[Tensor, Tensor]]:
        if self._kind() == 128:
            # vLLM has computed these once for all layers.
            return own.c128a_global_decode_topk_indices, own.c128a_decode_topk_lens
        return self._lists(step, own, tokens, None)

    def _prefill_lists(self, step: Any, own: Any, tokens: slice) -> Optional[Tuple[Tensor, Tensor]]:
        return self._lists(step, own, tokens, own.c128a_prefill_topk_indices if self._kind() == 128 else None)

    def _lists(self, step: Any, own: Any, tokens: slice, local: Optional[Tensor]) -> Optional[Tuple[Tensor, Tensor]]:
        """Lists of compressed rows as places in the pages; `local` counts them within each request."""
        if self._kind() == 1:
            return None
        from vllm.models.deepseek_v4.common.ops import compute_global_topk_indices_and_lens

        if local is None:
            # The indexer's choice, which differs from layer to layer.
            assert self.topk_indices_buffer is not None
            local = self.topk_indices_buffer[tokens]
        rows, lengths = compute_global_topk_indices_and_lens(
            local, step.token_to_req_indices[tokens], own.block_table, own.block_size // self.compress_ratio,
            step.is_valid_token[tokens],
        )  # fmt: skip
        return rows.unsqueeze(1), lengths

    def _kind(self) -> int:
        """1 for layers of a window alone, or how many tokens one compressed row stands for."""
        ratio = max(self.compress_ratio, 1)
        if ratio not in (1, 4, 128):
            raise ValueError(f"compress_ratio is {ratio}: 1, 4 or 128 is needed")
        return ratio

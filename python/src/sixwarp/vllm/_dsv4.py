"""DeepSeek-V4's and V4.1's attention layers on sixwarp, in place of vLLM's own where `SIXWARP` is the chosen backend.

vLLM's layers pad queries to 64 or 128 heads, and gather caches into a workspace of 16-bit rows before a prefill. These
do neither. Decodes and prefills read the packed pages through the lists of rows that vLLM computes for both.

vLLM chooses a layer's class by a function of the model's module, which knows no names but its own. That function is
replaced when its module is imported, which is not before such a model is loaded.
"""

from __future__ import annotations

import functools
import importlib
from typing import Any, Optional, Tuple

from torch import Tensor

from . import NAME
from ._after_import import after_import
from ._packed import Rows, attend

V4, V41 = "vllm.models.deepseek_v4", "vllm.models.deepseek_v41"
CHOICE = "_select_dsv4_attn_cls"

# Places of each token's compressed rows in the pages, and how many there are.
Lists = Optional[Tuple[Tensor, Tensor]]


def install() -> None:
    """Replaces the choice of the layers' classes, once it is there. It may be called again."""
    for model in (V4, V41):
        after_import(f"{model}.nvidia.model", functools.partial(_replace_choice, model))


def _replace_choice(model: str, module: Any) -> None:
    theirs = getattr(module, CHOICE)
    if getattr(theirs, "is_sixwarps", False):
        return

    @functools.wraps(theirs)
    def select(vllm_config: Any) -> Any:
        chosen = vllm_config.attention_config.backend
        return layer_class(model) if getattr(chosen, "name", None) == NAME else theirs(vllm_config)

    select.is_sixwarps = True  # type: ignore[attr-defined]
    setattr(module, CHOICE, select)


@functools.lru_cache(maxsize=None)
def layer_class(model: str) -> Any:
    """The layer: vLLM's for FlashMLA, with another number of heads and another `forward_mqa`."""
    theirs = importlib.import_module(f"{model}.nvidia.flashmla").DeepseekV4FlashMLAAttention
    return type("DeepseekV4SixwarpAttention", (LayerV4 if model == V4 else LayerV41, theirs), {})


class Layer:
    """What differs from vLLM's layers. Attributes are those of `DeepseekV4Attention`."""

    # Where vLLM's functions for this model are.
    model: str
    compress_ratio: int
    swa_cache_layer: Any
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
        step, own = metadata[self.swa_cache_layer.prefix], self.own_metadata(metadata)
        decodes = slice(0, step.num_decode_tokens)
        prefills = slice(decodes.stop, decodes.stop + step.num_prefill_tokens)
        if decodes.stop > 0:
            window = (step.decode_swa_indices, step.decode_swa_lens)
            self._attend(q[decodes], window, self.decode_lists(step, own, decodes), output[decodes])
        if prefills.stop > prefills.start:
            window = (step.prefill_swa_indices, step.prefill_swa_lens)
            self._attend(q[prefills], window, self.prefill_lists(step, own, prefills), output[prefills])

    def _attend(self, q: Tensor, window: Tuple[Tensor, Tensor], compressed: Lists, out: Tensor) -> None:
        """Every token is a request of its own, with a list of window rows and one of compressed rows."""
        caches: Tuple[Rows, ...] = (Rows(self.swa_cache_layer.kv_cache, *window),)
        if compressed is not None:
            caches += (Rows(self.compressed_pages(), *compressed),)
        attend(q.unsqueeze(1), caches, self.attn_sink, self.scale, out.unsqueeze(1))

    def own_metadata(self, metadata: dict) -> Any:
        """The metadata of the layer's compressed rows, or None."""
        raise NotImplementedError

    def compressed_pages(self) -> Tensor:
        """The cache of the layer's compressed rows."""
        raise NotImplementedError

    def decode_lists(self, step: Any, own: Any, tokens: slice) -> Lists:
        """The compressed rows of tokens that decode."""
        raise NotImplementedError

    def prefill_lists(self, step: Any, own: Any, tokens: slice) -> Lists:
        """The compressed rows of tokens of prefills."""
        raise NotImplementedError

    def chosen(self, step: Any, own: Any, tokens: slice) -> Lists:
        """The indexer's choice of rows, which differs from layer to layer."""
        assert self.topk_indices_buffer is not None
        return self.placed(step, own, tokens, self.topk_indices_buffer[tokens])

    def placed(self, step: Any, own: Any, tokens: slice, local: Tensor) -> Lists:
        """Lists that count rows within each request, as places in the pages."""
        ops = importlib.import_module(f"{self.model}.common.ops")
        rows, lengths = ops.compute_global_topk_indices_and_lens(
            local, step.token_to_req_indices[tokens], own.block_table, own.block_size // self.compress_ratio,
            step.is_valid_token[tokens],
        )  # fmt: skip
        return rows.unsqueeze(1), lengths

    def _ensure_ratio(self, *known: int) -> int:
        if self.compress_ratio not in known:
            raise ValueError(f"compress_ratio is {self.compress_ratio}: one of {known} is needed")
        return self.compress_ratio


class LayerV4(Layer):
    """DeepSeek-V4: a window alone, or beside it rows of 4 tokens that an indexer chooses, or all rows of 128."""

    model = V4
    prefix: str
    kv_cache: Tensor

    def own_metadata(self, metadata: dict) -> Any:
        return metadata.get(self.prefix)

    def compressed_pages(self) -> Tensor:
        return self.kv_cache

    def decode_lists(self, step: Any, own: Any, tokens: slice) -> Lists:
        ratio = self._ensure_ratio(0, 1, 4, 128)
        if ratio == 128:
            # vLLM has computed these once for all layers.
            return own.c128a_global_decode_topk_indices, own.c128a_decode_topk_lens
        return self.chosen(step, own, tokens) if ratio == 4 else None

    def prefill_lists(self, step: Any, own: Any, tokens: slice) -> Lists:
        ratio = self._ensure_ratio(0, 1, 4, 128)
        if ratio == 128:
            return self.placed(step, own, tokens, own.c128a_prefill_topk_indices)
        return self.chosen(step, own, tokens) if ratio == 4 else None


class LayerV41(Layer):
    """DeepSeek-V4.1: a window alone, or beside it chosen rows of one or two tokens, in a cache that layers share."""

    model = V41
    compressed_cache_prefix: Optional[str]

    def own_metadata(self, metadata: dict) -> Any:
        return None if self.compressed_cache_prefix is None else metadata.get(self.compressed_cache_prefix)

    def compressed_pages(self) -> Tensor:
        return self._compressed_kv_cache()  # type: ignore[attr-defined]

    def decode_lists(self, step: Any, own: Any, tokens: slice) -> Lists:
        return self.chosen(step, own, tokens) if self._ensure_ratio(0, 1, 2) else None

    prefill_lists = decode_lists

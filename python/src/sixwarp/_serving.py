"""What the plug-ins for serving engines share: paged attention of a packed batch, and why a GPU cannot do it.

Lengths, offsets and page tables stay on the device. Nothing here waits for the GPU, so calls can be captured.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple, Optional, Tuple

import torch
from torch import Tensor

from ._attention import attention, supports

# Generations whose kernels run on exactly one compute capability.
EXACT = {(9, 0): "sm_90a", (10, 0): "sm_100a", (10, 3): "sm_103a"}
# More keys than a sequence can have: no sequence is cut, so its bits do not depend on the batch.
NEVER_CUT = 1 << 30


class Layer(NamedTuple):
    """What a layer's attention is, beside its tensors."""

    scale: float
    window: Optional[int] = None
    softcap: Optional[float] = None
    # As `attention` takes it: the fewest keys of one part.
    split: Optional[int] = None

    def sides(self, causal: bool) -> Optional[Tuple[Optional[int], Optional[int]]]:
        """The window as keys before and behind the query's own; `window` counts the query's own key."""
        if self.window is None:
            return None
        return self.window - 1, 0 if causal else self.window - 1


class Batch(NamedTuple):
    """Sequences of a step: where their queries begin, how many keys each has, and their pages.

    All are contiguous int32.
    """

    offsets: Tensor
    lengths: Tensor
    table: Tensor
    # A bound of one sequence's queries.
    longest: int
    causal: bool = True

    @staticmethod
    def of(offsets: Tensor, lengths: Tensor, table: Tensor, longest: int, causal: bool = True) -> Batch:
        """A batch whose tensors are as the kernels read them; the bound is rounded up, so that plans are few."""
        for name, x in (("query offsets", offsets), ("lengths", lengths), ("page table", table)):
            if x.dtype is not torch.int32 or not x.is_contiguous():
                # A copy would be stale when a captured graph is replayed.
                raise ValueError(f"{name} are {x.dtype} with strides {x.stride()}: contiguous int32 is needed")
        return Batch(offsets, lengths, table, power_of_two(longest), causal)


def power_of_two(n: int) -> int:
    """The least power of two that is not below `n`."""
    return 1 << max(n - 1, 0).bit_length()


# 8-bit pages that kernels read, and the largest number that they hold.
FP8 = torch.float8_e4m3fn
FP8_MOST = torch.finfo(FP8).max


class Pages(NamedTuple):
    """Keys and values `[pages, rows, heads, dim]`, and the factors on 8-bit ones: one, or one per KV head."""

    k: Tensor
    v: Tensor
    k_descale: Optional[Tensor] = None
    v_descale: Optional[Tensor] = None


def attend(q: Tensor, pages: Pages, batch: Batch, layer: Layer, sinks: Optional[Tensor], out: Tensor) -> None:
    """Attention of packed queries `[tokens, heads, dim]` over pages, into `out`.

    Rows of `q` and `out` behind the last offset are neither read nor written.
    """
    attention(
        q, pages.k, pages.v, causal=batch.causal, window=layer.sides(batch.causal), softcap=layer.softcap, scale=layer.scale,
        sinks=sinks, cu_seqlens_q=batch.offsets, max_seqlen_q=batch.longest, seqused_k=batch.lengths,
        page_table=batch.table, k_descale=pages.k_descale, v_descale=pages.v_descale, out=out, split=layer.split,
    )  # fmt: skip


def generation(capability: Tuple[int, int]) -> Optional[str]:
    """The generation whose kernels a GPU runs, as the library chooses it; None before Ampere."""
    major, minor = capability
    if (major, minor) in EXACT:
        return EXACT[major, minor]
    if (major, minor) in ((8, 6), (8, 8)):
        return "sm_86"
    if major == 12:
        return "sm_120"
    if (major, minor) == (8, 9) or major > 12:
        return "sm_89"
    return "sm_80" if major >= 8 else None


@functools.lru_cache(maxsize=None)
def refusal(
    capability: Tuple[int, int], dtype: torch.dtype, dim: int, page: int, cache: Optional[torch.dtype] = None
) -> Optional[str]:
    """Why a GPU cannot attend with such heads over such pages, in the planner's words; None if it can."""
    architecture = generation(capability)
    if architecture is None:
        major, minor = capability
        return f"sixwarp has no kernels for compute capability {major}.{minor}: it has them from 8.0 on"
    q, pages = torch.empty(2, 1, dim, dtype=dtype), torch.empty(1, page, 1, 2 * dim, dtype=cache or dtype)
    integers = functools.partial(torch.zeros, dtype=torch.int32)
    try:
        reason = supports(
            q, pages[..., :dim], pages[..., dim:], device=architecture, causal=True, cu_seqlens_q=integers(2),
            max_seqlen_q=2, seqused_k=integers(1), page_table=integers(1, 1),
        )  # fmt: skip
    except (TypeError, ValueError) as error:
        reason = str(error)
    return None if reason is None else f"sixwarp: {reason}"


def as_bytes(x: Tensor) -> Tensor:
    """The same memory; torch indexes few 8-bit floats."""
    return x.view(torch.uint8) if x.dtype is FP8 else x


def as_fp8(rows: Tensor, descale: Optional[Tensor]) -> Tensor:
    """Rows as 8-bit numbers that `descale` multiplies; larger ones than there are become the largest."""
    rows = rows.float() if descale is None else rows.float() / descale.reshape(-1, 1)
    return rows.clamp(-FP8_MOST, FP8_MOST).to(FP8)


def as_floats(sinks: Optional[Any]) -> Optional[Tensor]:
    """Sinks as kernels read them; a model's own may be of 16 bits."""
    return None if sinks is None else sinks.detach().float().contiguous()

"""`attn_implementation="sixwarp"` for Hugging Face transformers (5.22 or later).

    import sixwarp.transformers
    sixwarp.transformers.register()
    model = AutoModelForCausalLM.from_pretrained(..., attn_implementation="sixwarp")

Causal and full attention, sliding windows, soft caps and sinks; padded batches, packed sequences, dynamic and
static caches. What is not supported is refused before anything is computed. Where rows of padding have no meaning,
their output is 0.
"""

from __future__ import annotations

from functools import partial

NAME = "sixwarp"

__all__ = ["NAME", "register"]


def register(gradients: str = "refuse") -> None:
    """Makes the implementation known to transformers.

    sixwarp computes the forward pass only. With `gradients="refuse"`, layers whose inputs require a gradient raise.
    With `gradients="eager"` they are computed by torch's operations instead, as `attn_implementation="eager"` does;
    everything else still runs on sixwarp.
    """
    from transformers import AttentionInterface
    from transformers.masking_utils import AttentionMaskInterface

    from ._forward import attention_forward
    from ._mask import mask

    if gradients not in ("refuse", "eager"):
        raise ValueError(f'gradients is {gradients!r}: "refuse" or "eager"')
    AttentionInterface.register(NAME, partial(attention_forward, gradients=gradients))
    AttentionMaskInterface.register(NAME, mask)

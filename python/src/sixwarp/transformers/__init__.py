"""`attn_implementation="sixwarp"` for Hugging Face transformers (5.22 or later).

    import sixwarp.transformers
    sixwarp.transformers.register()
    model = AutoModelForCausalLM.from_pretrained(..., attn_implementation="sixwarp")

Causal and full attention, sliding windows, soft caps and sinks; padded batches, packed sequences (`position_ids` that
begin again, or `cu_seq_lens_q` and `cu_seq_lens_k`), dynamic and static caches. Masks and biases that have no simpler
form (chunks, T5's positions, DeepSeek-V4's lists) are read element by element.

What is not supported is refused before anything is computed: attention weights, dropout, gradients unless `register` is
told otherwise, keywords that are not known, and models that compute attention themselves. Where the rows of padding have
no meaning, their output may be 0.
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

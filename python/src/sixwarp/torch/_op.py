"""The operator `torch.ops.sixwarp.attention`."""

from typing import Any, Tuple

import torch
from torch import Tensor

from .. import _quick
from .._attention import checked, long_way
from .._parameters import OPERATOR_TENSORS, from_operator, operator_schema
from .._prepare import Tensors
from .._torch_tensor import refuse_forward_mode

# Registered by hand: a call through `torch.library.custom_op` costs the host about twice as much.
_LIBRARY = torch.library.Library("sixwarp", "FRAGMENT")
_LIBRARY.define(operator_schema(), tags=(torch.Tag.pt2_compliant_tag,))


def _op(*arguments: Any) -> Tuple[Tensor, Tensor]:
    tensors = (*arguments[: len(OPERATOR_TENSORS)], None)
    options = from_operator(arguments[len(OPERATOR_TENSORS) :])
    result = _quick.attention(*tensors, None, *options)
    if result is not None:
        return result
    refuse_forward_mode()
    return long_way(Tensors(*tensors), checked(*options), None)


for _device in ("CPU", "CUDA"):
    _LIBRARY.impl("attention", _op, _device)


@torch.library.register_fake("sixwarp::attention", lib=_LIBRARY)
def _fake(*arguments):
    q, _, v = arguments[:3]
    layout = arguments[len(OPERATOR_TENSORS)]
    out = q.new_empty((*q.shape[:-1], v.shape[-1]))
    batch, (tokens, heads) = q.shape[:-3], q.shape[-3:-1]
    if layout == "bhsd":
        tokens, heads = heads, tokens
    return out, q.new_empty((*batch, heads, tokens), dtype=torch.float32)

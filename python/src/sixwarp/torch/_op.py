"""The operator `torch.ops.sixwarp.attention`."""

import ctypes
from typing import Any, Tuple

import torch
from torch import Tensor

from .. import _quick, _torch_functions
from .._attention import checked, compute, remember
from .._parameters import OPERATOR_TENSORS, from_operator, operator_schema
from .._prepare import Tensors
from .._tensor import torch_adapter
from .._torch_tensor import refuse_forward_mode

# Registered by hand: a call through `torch.library.custom_op` costs the host about twice as much.
_LIBRARY = torch.library.Library("sixwarp", "FRAGMENT")
_LIBRARY.define(operator_schema(), tags=(torch.Tag.pt2_compliant_tag,))


# Calls are remembered by it and their arguments.
_NAME = "sixwarp::attention"


def _op(*arguments: Any) -> Tuple[Tensor, Tensor]:
    tensors, rest = Tensors(*arguments[: len(OPERATOR_TENSORS)], None), arguments[len(OPERATOR_TENSORS) :]
    result = _quick.attention(*tensors, None, _NAME, *rest)
    if result is not None:
        return result
    refuse_forward_mode()
    out, lse, bound = compute(tensors, checked(*from_operator(rest)), None)
    if bound is not None:
        remember(bound, tensors, out, lse, (_NAME, *rest))
    return out, lse


for _device in ("CPU", "CUDA"):
    _LIBRARY.impl("attention", _op, _device)


def _call_directly() -> None:
    """Lets calls by name that were made before pass by the dispatcher, which costs more than all the rest of them.

    torch keeps what enters the dispatcher in `_op`. Where that is not so, or torch does not say who watches its
    operators, calls go through the dispatcher as those of any operator.
    """
    torch_adapter()
    watchers = _torch_functions.watchers()
    if watchers is None:
        return
    table = (ctypes.c_size_t * len(watchers))(*watchers)
    for called in (torch.ops.sixwarp.attention, torch.ops.sixwarp.attention.default):
        function = _quick.operator(called._op, _NAME, ctypes.addressof(table))
        if function is not None:
            # TorchScript knows an operator by its function.
            torch.jit._builtins._register_builtin(function, _NAME)
            called._op = function


_call_directly()


@torch.library.register_fake("sixwarp::attention", lib=_LIBRARY)
def _fake(*arguments):
    q, _, v = arguments[:3]
    layout = arguments[len(OPERATOR_TENSORS)]
    out = q.new_empty((*q.shape[:-1], v.shape[-1]))
    batch, (tokens, heads) = q.shape[:-3], q.shape[-3:-1]
    if layout == "bhsd":
        tokens, heads = heads, tokens
    return out, q.new_empty((*batch, heads, tokens), dtype=torch.float32)

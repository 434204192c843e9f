"""Calls that need not go through torch's dispatcher, which costs more than all the rest of a short call.

The dispatcher is needed where something has to see the operator: a compiler or tracer, a dispatch mode, the profiler,
or a tensor that is more than its memory (subclasses, transforms of torch.func, the meta device). Elsewhere the library is
called directly. A function that was called before with tensors and arguments like these is known by them
(`_quick`), and then its own Python code is not run either.
"""

from __future__ import annotations

from typing import Any, Optional

import torch

from .. import _quick
from .._attention import compute, remember
from .._prepare import Options, Tensors

_PLAIN = (torch.Tensor, torch.nn.Parameter)
_is_compiled = torch.compiler.is_dynamo_compiling
_modes = torch._C._len_torch_dispatch_stack
_tracer = torch._C._get_tracing_state
_is_profiled = torch.autograd._profiler_enabled
_is_transformed = torch._C._functorch.is_functorch_wrapped_tensor


def is_watched() -> bool:
    """Whether something must see torch's operators run."""
    return _is_compiled() or _modes() > 0 or _tracer() is not None or _is_profiled()


def known(
    # spell: any tensors
    q: Any, k: Any, v: Any, sinks: Any, cu_seqlens_q: Any, cu_seqlens_k: Any, seqused_k: Any,
    page_table: Any, attn_mask: Any, k_descale: Any, v_descale: Any, out: Any,
    # spelled
    *arguments: Any,
) -> Any:  # fmt: skip
    """The result of a call like an earlier one, else None; `arguments` begin with the function's name."""
    if is_watched():
        return None
    return _quick.attention(
        # spell: tensors
        q, k, v, sinks, cu_seqlens_q, cu_seqlens_k, seqused_k, page_table, attn_mask, k_descale, v_descale,
        out,
        # spelled
        None, *arguments,
    )  # fmt: skip


def are_plain(tensors: tuple) -> bool:
    """Whether tensors (`None` is none) are just memory of the CPU or a GPU."""
    return all(
        type(x) in _PLAIN and x.device.type in ("cpu", "cuda") and not _is_transformed(x)
        for x in tensors
        if x is not None
    )  # fmt: skip


def run(given: Tensors, used: Tensors, options: Options, arguments: tuple, shape: torch.Size) -> Any:
    """The output of `used`, made of what the function was `given`, in this shape; `known` knows the call afterwards.

    How `given` becomes `used` must follow from shapes, strides, types and `arguments` alone.
    """
    out, _, bound = compute(used, options, None)
    out = out.view(shape)
    if bound is not None and all(map(_begin_together, given, used)):
        remember(bound, given, out, None, arguments)
    return out


def _begin_together(a: Optional[torch.Tensor], b: Optional[torch.Tensor]) -> bool:
    """Whether a plan for one tensor takes the address of the other."""
    return a is b or (a is not None and b is not None and a.data_ptr() == b.data_ptr())

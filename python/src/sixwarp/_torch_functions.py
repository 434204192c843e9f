"""Functions of torch's libraries that the quick way calls, in the order of `Torch` in crates/python/src/fast/torch.rs,
and of `Watchers` in operator.rs beside it.

DLPack lends a tensor's memory but does not say how much there is, whether it is to be negated, or whether anybody
differentiates it. Each function is tried on tensors whose answers are known; a torch that has not all of them, or
that answers differently, gets no quick way.
"""

from __future__ import annotations

import ctypes
from typing import Any, Optional

import torch
import torch.autograd.forward_ad as forward_ad
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

_TENSOR = ctypes.c_void_p
_ANSWER = ctypes.POINTER(ctypes.c_int64)
# Name, result, arguments.
_FUNCTIONS = (
    ("aoti_torch_get_storage_size", ctypes.c_int32, (_TENSOR, _ANSWER)),
    ("aoti_torch_get_storage_offset", ctypes.c_int32, (_TENSOR, _ANSWER)),
    ("_ZN2at6native6is_negERKNS_6TensorE", ctypes.c_bool, (_TENSOR,)),
    ("_ZN2at6native12is_inferenceERKNS_6TensorE", ctypes.c_bool, (_TENSOR,)),
    ("_ZN5torch8autograd4impl12bump_versionERKN2at6TensorE", None, (_TENSOR,)),
    ("_ZNK3c1010TensorImpl13requires_gradEv", ctypes.c_bool, (_TENSOR,)),
)
_WATCHERS = (
    ("_ZN3c104impl20TorchDispatchModeTLS9stack_lenEv", ctypes.c_int64, ()),
    ("_ZN2at4impl22PythonTorchFunctionTLS9stack_lenEv", ctypes.c_int64, ()),
    ("_ZN2at12hasCallbacksEv", ctypes.c_bool, ()),
    ("_ZN5torch3jit6tracer15getTracingStateEv", ctypes.POINTER(ctypes.c_void_p), ()),
)
# What the table points to stays.
_kept = (forward_ad, "_current_level", -1)


def table() -> Optional[list]:
    """Addresses of functions and objects; None where this torch has not all of them."""
    try:
        library = ctypes.CDLL(torch._C.__file__)
        functions = [_function(library, *declared) for declared in _FUNCTIONS]
        offset = _handle_offset()
    except (AttributeError, OSError):
        return None
    if offset is None or not hasattr(forward_ad, "_current_level") or not _answer_truly(functions, offset):
        return None
    addresses = [ctypes.cast(function, ctypes.c_void_p).value for function in functions]
    return [*addresses, offset, *(id(x) for x in _kept)]


def watchers() -> Optional[list]:
    """Addresses of functions that say who must see torch's operators run; None where this torch has not all of them."""
    try:
        library = ctypes.CDLL(torch._C.__file__)
        functions = [_function(library, *declared) for declared in _WATCHERS]
    except (AttributeError, OSError):
        return None
    if not _watch_truly(*functions):
        return None
    return [ctypes.cast(function, ctypes.c_void_p).value for function in functions]


def _function(library: ctypes.CDLL, name: str, result: Any, arguments: tuple) -> Any:
    function = getattr(library, name)
    function.restype, function.argtypes = result, arguments
    return function


def _handle_offset() -> Optional[int]:
    """Where in a Python tensor the pointer to its implementation is."""
    tensors = [torch.empty(2), torch.nn.Parameter(torch.empty(3), requires_grad=False)]
    found = [
        {8 * i for i, word in enumerate(_words(x)) if word == x._cdata}
        for x in tensors
    ]  # fmt: skip
    return min(set.intersection(*found), default=None)


def _words(x: Any) -> Any:
    return (ctypes.c_size_t * (type(x).__basicsize__ // 8)).from_address(id(x))


def _answer_truly(functions: list, offset: int) -> bool:
    size, start, is_negated, is_inference, bump_version, requires_grad = functions
    with torch.inference_mode(False):
        plain, negated = torch.zeros(5)[2:], torch._neg_view(torch.zeros(5))
        learned = torch.zeros(1, requires_grad=True)
    with torch.inference_mode():
        inferred = torch.zeros(1)
    handle = lambda x: id(x) + offset
    answer, version = ctypes.c_int64(), plain._version
    bump_version(handle(plain))
    return (
        size(handle(plain), answer) == 0 and answer.value == 20
        and start(handle(plain), answer) == 0 and answer.value == 2
        and is_negated(handle(negated)) and not is_negated(handle(plain))
        and is_inference(handle(inferred)) and not is_inference(handle(plain))
        and requires_grad(learned._cdata) and not requires_grad(plain._cdata)
        and plain._version == version + 1
    )  # fmt: skip


def _watch_truly(dispatch_modes: Any, function_modes: Any, has_callbacks: Any, tracer: Any) -> bool:
    """Whether the functions agree with what torch's own interface says, with a mode on each stack and without."""
    agree = lambda: dispatch_modes() == torch._C._len_torch_dispatch_stack() and (
        function_modes() == torch._C._len_torch_function_stack()
    )  # fmt: skip
    traced = tracer()[0] is not None
    before, profiled = agree(), torch.autograd._profiler_enabled()
    with TorchDispatchMode(), TorchFunctionMode():
        within = agree() and dispatch_modes() > 0 and function_modes() > 0
    return before and within and traced == (torch._C._get_tracing_state() is not None) and has_callbacks() >= profiled

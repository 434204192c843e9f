"""Attention over lists of packed rows, planned once for tensors like earlier ones.

`sixwarp.flash_mla` allocates results and returns a log-sum-exp. A layer of a served model makes the same call in every
step into memory of its own, and drops the latter.
"""

from __future__ import annotations

from typing import Any, Dict, NamedTuple, Tuple

from torch import Tensor

from .._caches import Cache, decode
from .._plan import Bound
from .._tensor import torch_adapter

# Values are all of a row's numbers.
VALUE_DIM = 512
_MOST = 1024
_known: Dict[tuple, Tuple[Bound, Tuple[str, ...]]] = {}


class Rows(NamedTuple):
    """Pages of packed rows, the list of each token, and how many of its entries count."""

    pages: Tensor
    lists: Tensor
    lengths: Tensor


def attend(q: Tensor, caches: Tuple[Rows, ...], sinks: Tensor, scale: float, out: Tensor) -> None:
    """Attention of `q` `[tokens, 1, heads, 512]` over one cache or two, under one softmax, into `out`."""
    tensors = (q, out, sinks, *(x for rows in caches for x in rows))
    key_of = torch_adapter().key
    key = (scale, *[key_of(x) for x in tensors])
    found = _known.get(key)
    if found is None:
        found = _plan(q, caches, sinks, scale, out, tensors)
        if len(_known) >= _MOST:
            _known.pop(next(iter(_known)))
        _known[key] = found
    bound, names = found
    bound.run(dict(zip(names, tensors)), q)


def _plan(q: Tensor, caches: Tuple[Rows, ...], sinks: Tensor, scale: float, out: Tensor, tensors: tuple) -> Any:
    """The plan, and the names of its slots in the order of the tensors."""
    a = torch_adapter()
    a.refuse_gradients(*tensors)
    names = [_cache(n) for n in range(len(caches))]
    arguments = ("q", "out", "attn_sink", *(name for cache in names for name in (cache.pages, cache.lists, cache.lengths)))
    call = decode(a, dict(zip(arguments, tensors)), tuple(names), "attn_sink", VALUE_DIM, scale, return_lse=False)
    copied = [x.argument for x in call.known.inputs if x.copies()] + ["out"] * call.known.out_is_apart
    if copied:
        raise ValueError(f"{copied[0]} would have to be copied in every step: give it as kernels read it")
    slots = {"out": "out", **{x.argument: x.slot for x in call.known.inputs}}
    return call.known.planned(a, a.device(q, "q")), tuple(slots[name] for name in arguments)


def _cache(n: int) -> Cache:
    prefix = "extra_" if n else ""
    return Cache(f"{prefix}k_cache", f"{prefix}indices", "", f"{prefix}topk_length")

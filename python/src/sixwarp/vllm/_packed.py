"""Attention over lists of packed rows, planned once for tensors like earlier ones.

`sixwarp.flash_mla` describes every call anew and returns a log-sum-exp. A layer of a served model makes the same call
in every step, and drops the latter.
"""

from __future__ import annotations

import json
from typing import Any, Dict, NamedTuple, Tuple

from torch import Tensor

from .._caches import Cache, Call, planned
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
    described = [_cache(n, rows) for n, rows in enumerate(caches)]
    call = Call(a, q, described, ("attn_sink", sinks), VALUE_DIM, scale, out)
    call.slots["out"] = call.out
    names = _names(len(caches))
    for name, x in zip(names, tensors):
        if call.slots[name] is not x:
            raise ValueError(f"{call.named(name)} would have to be copied in every step: give it as kernels read it")
    call.description["return_lse"] = False
    plan = planned(json.dumps(call.description), a.device(q, "q"))
    return Bound(plan, a, call.out_shape, (), call.description["q"]["dtype"], True), names


def _names(caches: int) -> Tuple[str, ...]:
    """The plan's slots in the order of a call's tensors."""
    parts = ("k", "indices", "seqused_k")
    return ("q", "out", "sinks", *parts, *(f"segment 1 {part}" for part in parts[: 3 * (caches - 1)]))


def _cache(n: int, rows: Rows) -> Cache:
    prefix = "extra_" if n else ""
    names = (f"{prefix}k_cache", f"{prefix}indices", "block_table", f"{prefix}topk_length")
    return Cache(names, rows.pages, rows.lists, None, rows.lengths)

"""Merging results over different keys of the same queries."""

from __future__ import annotations

import sys
from typing import Any, Sequence, Tuple

from . import _describe as describe
from ._exchange import is_foreign, through
from ._options import layout_name
from ._plan import merge_parts
from ._tensor import CPU, adapter_for, ensure_given


def merge(
    outs: Sequence[Any], lses: Sequence[Any], *, sinks: Any = None, layout: str = "bshd"
) -> Tuple[Any, Any]:
    """The result over all keys from results over parts of them, as `(out, lse)`.

    Parts are what `attention(..., return_lse=True)` returned, without sinks; one whose log-sum-exp is
    infinite or NaN saw no key. `sinks` are applied here, once.

    >>> import numpy as np, sixwarp
    >>> x = np.random.default_rng(0).standard_normal((1, 6, 2, 32), np.float32)
    >>> parts = [sixwarp.attention(x, x[:, i : i + 3], x[:, i : i + 3], return_lse=True) for i in (0, 3)]
    >>> out, lse = sixwarp.merge(*zip(*parts))
    >>> bool(np.allclose(out, sixwarp.attention(x, x, x), atol=1e-6))
    True
    """
    outs, lses = list(outs), list(lses)
    if not outs or len(outs) != len(lses):
        raise ValueError(f"{len(outs)} outputs and {len(lses)} log-sum-exps: as many of both, at least one")
    if is_foreign(outs[0]):
        count = len(outs)
        whole = lambda lent: merge(lent[:count], lent[count:-1], sinks=lent[-1], layout=layout)
        return through(whole, (*outs, *lses, sinks), outs[0])
    layout_name("layout", layout)
    tensors = {**_numbered("outs", outs), **_numbered("lses", lses)}
    ensure_given(**tensors)
    a = adapter_for((*tensors, "sinks"), (*tensors.values(), sinks))
    describe.ensure_one_device(a, {**tensors, "sinks": sinks})
    a.refuse_gradients(*outs, *lses, sinks)
    lses = [a.floats(name, lse) for name, lse in _numbered("lses", lses).items()]
    sinks = None if sinks is None else a.floats("sinks", sinks)
    rows = _ensure_alike(a, outs, lses, sinks, layout)
    most = _most(a.device(outs[0], "outs[0]"))
    while len(outs) > most:
        groups = [slice(i, i + most) for i in range(0, len(outs), most)]
        merged = [_merged(a, outs[group], lses[group], None, layout, rows) for group in groups]
        outs, lses = [out for out, _ in merged], [lse for _, lse in merged]
    return _merged(a, outs, lses, sinks, layout, rows)


def _most(device: Any) -> int:
    """How many parts are merged at once; more are merged in groups first. A kernel takes so many."""
    return sys.maxsize if device == CPU else 64


def _merged(a: Any, outs: list, lses: list, sinks: Any, layout: str, rows: tuple) -> Tuple[Any, Any]:
    """The merge of parts that are alike but for their strides, of which a kernel takes one kind."""
    out, lse = a.empty_like(outs[0]), a.empty(rows, "f32", lses[0])
    if any(a.strides(x, "outs") != a.strides(out, "out") for x in outs):
        outs = [a.contiguous(x) for x in outs]
        out = a.empty_like(outs[0])
    view = describe.view(a, out, layout, "out")
    parts = [a.memory(x) for part in zip(outs, lses) for x in part]
    device = a.device(out, "out")
    stream = 0 if device == CPU else a.stream(device)
    merge_parts(view, a.memory(out), a.memory(lse), None if sinks is None else a.memory(sinks), parts, stream)
    return out, lse


def _numbered(name: str, tensors: Sequence[Any]) -> dict:
    return {f"{name}[{i}]": x for i, x in enumerate(tensors)}


def _ensure_alike(a: Any, outs: list, lses: list, sinks: Any, layout: str) -> tuple:
    """The shape of all log-sum-exps."""
    views = [describe.view(a, out, layout, name) for name, out in _numbered("outs", outs).items()]
    kinds = {(tuple(view["shape"]), view["dtype"]) for view in views}
    if len(kinds) > 1:
        raise ValueError(f"outputs differ in shape or type: {sorted(kinds)}")
    shape = views[0]["shape"]
    rows = tuple(shape[:3]) if len(a.shape(outs[0])) == 4 else tuple(shape[1:3])
    for name, lse in _numbered("lses", lses).items():
        describe.ensure_shape(a, name, lse, rows)
    describe.ensure_shape(a, "sinks", sinks, (shape[1],))
    return rows

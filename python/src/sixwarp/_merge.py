"""Merging results over different keys of the same queries."""

from __future__ import annotations

from typing import Any, Sequence, Tuple

from . import _describe as describe
from ._exchange import is_foreign, through
from ._plan import merge_host
from ._tensor import CPU
from ._tensor import adapter as adapter_of


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
    if not outs or len(outs) != len(lses):
        raise ValueError(f"{len(outs)} outputs and {len(lses)} log-sum-exps: as many of both, at least one")
    if is_foreign(outs[0]):
        count = len(outs)
        whole = lambda lent: merge(lent[:count], lent[count:-1], sinks=lent[-1], layout=layout)
        return through(whole, (*outs, *lses, sinks), outs[0])
    a = adapter_of(outs[0])
    views = [describe.view(a, out, layout, "out") for out in outs]
    if any(view != views[0] for view in views):
        raise ValueError("outputs differ in shape, strides or type")
    shape = views[0]["shape"]
    lses = [a.floats(lse) for lse in lses]
    rows = tuple(shape[:3]) if len(a.shape(outs[0])) == 4 else tuple(shape[1:3])
    for lse in lses:
        describe.ensure_length(a, "lse", lse, rows)
    describe.ensure_length(a, "sinks", sinks, (shape[1],))
    if a.device(outs[0]) != CPU:
        return _merge_on_gpu(outs, lses, sinks, layout)
    out, lse = _like(a, outs[0]), a.empty(rows, "f32", lses[0])
    sinks = None if sinks is None else a.floats(sinks)
    pointers = [a.pointer(out), a.pointer(lse), 0 if sinks is None else a.pointer(sinks)]
    for part in zip(outs, lses):
        pointers += map(a.pointer, part)
    merge_host({**views[0], "parts": len(outs), "sinks": sinks is not None}, pointers)
    return out, lse


def _like(a: Any, out: Any) -> Any:
    """A new tensor in the strides of `out`."""
    if hasattr(out, "new_empty"):
        return out.new_empty(0).set_(
            out.new_empty(_span(out)).untyped_storage(), 0, out.shape, out.stride()
        )
    new = a.numpy.empty_like(out)
    if new.strides != out.strides:
        raise ValueError(f"outputs have strides {out.strides}: dense ones are merged")
    return new


def _span(out: Any) -> int:
    return 1 + sum((extent - 1) * stride for extent, stride in zip(out.shape, out.stride()))


def _merge_on_gpu(outs: Sequence[Any], lses: Sequence[Any], sinks: Any, layout: str) -> Tuple[Any, Any]:
    """On a GPU the merge is made of torch's own operations; CuPy's arrays are lent to it."""
    import torch

    if isinstance(outs[0], torch.Tensor):
        return merge_torch(outs, lses, sinks, layout)
    import cupy

    lend = torch.from_dlpack
    merged = merge_torch([*map(lend, outs)], [*map(lend, lses)], None if sinks is None else lend(sinks), layout)
    return tuple(map(cupy.from_dlpack, merged))


def merge_torch(outs: Sequence[Any], lses: Sequence[Any], sinks: Any, layout: str) -> Tuple[Any, Any]:
    """The merge in torch's operations, in float32."""
    import torch

    logits = torch.stack([lse.float() for lse in lses])
    logits = logits.masked_fill(~logits.isfinite(), float("-inf"))
    total = torch.logsumexp(logits, 0)
    weights = torch.exp(logits - total.masked_fill(total.isinf(), 0.0))
    if sinks is not None:
        sink = sinks.float().view(-1, 1)
        weights = weights * torch.sigmoid(total - sink).nan_to_num(0.0)
    if layout == "bshd":
        weights = weights.transpose(-1, -2)
    parts = torch.stack([out.float() for out in outs])
    weights = weights.unsqueeze(-1)
    parts = parts.masked_fill(weights == 0, 0.0)
    return (parts * weights).sum(0).to(outs[0].dtype), total

"""From a call's tensors and options to a plan."""

from __future__ import annotations

import operator
from typing import Any, NamedTuple, Optional

from . import _describe as describe
from ._parameters import DESCALES, INTEGERS
from ._plan import Bound, Plan


class Options(NamedTuple):
    """What a call says beside its tensors."""

    # spell: fields of options
    layout: str
    causal: bool
    window: Any
    softcap: Optional[float]
    scale: Optional[float]
    max_seqlen_q: Optional[int]
    max_seqlen_k: Optional[int]
    return_lse: bool
    split: Optional[int]
    arch: Optional[str]
    # spelled


class Tensors(NamedTuple):
    """The tensors of a call, by name."""

    # spell: fields of tensors
    q: Any
    k: Any
    v: Any
    sinks: Any
    cu_seqlens_q: Any
    cu_seqlens_k: Any
    seqused_k: Any
    page_table: Any
    attn_mask: Any
    k_descale: Any
    v_descale: Any
    out: Any
    # spelled

    def converted(self, a: Any) -> Tensors:
        """With lengths, offsets, tables and sinks as the library reads them."""
        integers = zip(INTEGERS, _integers(self))
        given = {name: a.integers(name, x) for name, x in integers if x is not None}
        if self.sinks is not None:
            given["sinks"] = a.floats("sinks", self.sinks)
        for name in DESCALES:
            # Factors may have any strides, so that one can stand for all.
            x = getattr(self, name)
            if x is not None and a.dtype(x) != "f32":
                given[name] = a.floats(name, x)
        return self._replace(**given) if given else self

    def slots(self, out: Any, lse: Any, shared: bool) -> dict:
        """By the names of a plan's slots, with its outputs."""
        slots = dict(zip(self._fields, self))
        slots["out"], slots["lse"] = out, lse
        if shared:
            del slots["v"]
        return slots


_integers = operator.attrgetter(*INTEGERS)


def prepare(a: Any, tensors: Tensors, options: Options) -> Bound:
    """The plan for these tensors, and what running it needs."""
    described = describe_call(a, tensors, options)
    plan = Plan(described.description, described.device)
    return Bound(plan, a, described.out_shape, described.lse_shape, described.dtype, described.shared)


class Described(NamedTuple):
    """A call as a problem, and what its results are like."""

    description: dict
    device: int
    out_shape: tuple
    lse_shape: tuple
    dtype: str
    # Whether values are the keys' own memory.
    shared: bool


def describe_call(a: Any, tensors: Tensors, options: Options) -> Described:
    """The problem that a call asks."""
    q, k, v, out = tensors.q, tensors.k, tensors.v, tensors.out
    layout = options.layout
    device = describe.ensure_one_device(a, tensors._asdict())
    queries = describe.view(a, q, layout, "q")
    shared = describe.is_shared(a, k, v)
    segment = describe.keys(a, k, v, shared, layout)
    batch, heads, tokens, _ = queries["shape"]
    packed = _packed_queries(a, tensors.cu_seqlens_q, options.max_seqlen_q, tokens)
    _add_lengths(a, segment, tensors, packed[0] if packed else batch, options.max_seqlen_k)
    segment["mask"] = describe.mask(options.causal, options.window)
    sequences = packed[0] if packed else batch
    for name in DESCALES:
        x = getattr(tensors, name)
        if x is not None:
            segment[name] = describe.descale(a, x, name, sequences, segment["k"]["shape"][1])
    if tensors.attn_mask is not None:
        segment["attn_mask"] = describe.attn_mask(a, tensors.attn_mask)
    describe.ensure_shape(a, "sinks", tensors.sinks, (heads,))
    out_shape = (*a.shape(q)[:-1], a.shape(v)[-1])
    describe.ensure_shape(a, "out", out, out_shape)
    dense_out = describe.dense(out_shape, layout, queries["dtype"])
    description = {
        "q": queries, "segments": [segment], "packed_queries": packed,
        "out": dense_out if out is None else describe.view(a, out, layout, "out"),
        "scale": options.scale, "softcap": options.softcap, "sinks": tensors.sinks is not None,
        "return_lse": options.return_lse, "split": options.split, "arch": options.arch,
    }  # fmt: skip
    lse_shape = (heads, tokens) if len(out_shape) == 3 else (batch, heads, tokens)
    return Described(description, device, out_shape, lse_shape, queries["dtype"], shared)


def _packed_queries(a: Any, offsets: Any, longest: Optional[int], tokens: int) -> Optional[list]:
    """Number of packed sequences and a bound of their queries."""
    if offsets is None:
        return None
    describe.ensure_rank(a, "cu_seqlens_q", offsets, "(batch + 1,)", 1)
    if a.shape(offsets)[0] < 2:
        raise ValueError(f"cu_seqlens_q has shape {tuple(a.shape(offsets))}: at least (2,) is needed")
    return [a.shape(offsets)[0] - 1, longest or a.longest(offsets) or tokens]


def _add_lengths(a: Any, segment: dict, tensors: Tensors, batch: int, longest: Optional[int]) -> None:
    """Says how keys are divided into sequences."""
    offsets, table = tensors.cu_seqlens_k, tensors.page_table
    if offsets is not None:
        describe.ensure_shape(a, "cu_seqlens_k", offsets, (batch + 1,))
        segment["packed"] = longest or a.longest(offsets) or segment["k"]["shape"][2]
    if table is not None:
        shape = tuple(a.shape(table))
        if len(shape) != 2 or shape[0] != batch:
            raise ValueError(f"page_table has shape {shape}: ({batch}, pages) is needed")
        segment["pages_per_sequence"] = shape[1]
    describe.ensure_shape(a, "seqused_k", tensors.seqused_k, (batch,))
    segment["used"] = tensors.seqused_k is not None

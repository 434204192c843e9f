"""The parameters of `attention`, declared once.

From this table come the types of options and the schema of torch's operator. Signatures, stubs, the fields of
`Tensors` and `Options`, and the positions in `crates/python/src/fast/recipe.rs` are source text: `python/spell_out.py`
writes it between comments, and a test holds it against the table.
"""

from __future__ import annotations

import functools
from typing import Any, Callable, NamedTuple, Optional, Sequence, Tuple

from ._options import arch_name, layout_name, real, sides, whole

Read = Callable[[str, Any], Any]


class Parameter(NamedTuple):
    """A keyword of `attention`."""

    name: str
    default: Any
    # The type in the package, and in the stubs, which are for tensors of any library.
    annotation: str
    stub: str
    # The arguments of torch's operator that it becomes.
    schema: Tuple[str, ...] = ()
    # Reads the value of an option, and words what is wrong with it; None for tensors and the stream.
    read: Optional[Read] = None


def _tensor(name: str) -> Parameter:
    return Parameter(name, None, "Any", "Optional[_Array]", (f"Tensor? {name}",))


def _real(name: str) -> Parameter:
    return Parameter(name, None, "Optional[float]", "Optional[SupportsFloat]", (f"float? {name}",), _optional(real))


def _whole(name: str, least: int = 0) -> Parameter:
    read = _optional(functools.partial(whole, least=least))
    return Parameter(name, None, "Optional[int]", "Optional[SupportsIndex]", (f"SymInt? {name}",), read)


def _optional(read: Read) -> Read:
    return lambda name, x: None if x is None else read(name, x)


def _truth(_: str, x: Any) -> bool:
    return bool(x)


_SIDES = ("SymInt? window_left", "SymInt? window_right")

# In the order of the signature. Tensors have this order among themselves everywhere, and so have options.
PARAMETERS = (
    Parameter("layout", "bshd", "str", "_Layout", ("str layout",), layout_name),
    Parameter("causal", False, "bool", "bool", ("bool causal",), _truth),
    Parameter("window", None, "Window", "Optional[_Window]", _SIDES, _optional(sides)),
    _tensor("sinks"),
    _real("softcap"),
    _real("scale"),
    _tensor("cu_seqlens_q"),
    _tensor("cu_seqlens_k"),
    _whole("max_seqlen_q"),
    _whole("max_seqlen_k"),
    _tensor("seqused_k"),
    _tensor("page_table"),
    _tensor("attn_mask"),
    _tensor("k_descale"),
    _tensor("v_descale"),
    # Torch's operator always returns the log-sum-exp, and writes new tensors on the current stream.
    Parameter("return_lse", False, "bool", "bool", (), _truth),
    Parameter("out", None, "Any", "Optional[_T]"),
    Parameter("stream", None, "Any", "Any"),
    _whole("split", least=1),
    Parameter("arch", None, "Optional[str]", "Optional[str]", ("str? arch",), _optional(arch_name)),
)

INPUTS = ("q", "k", "v")
TENSORS = (*INPUTS, *(p.name for p in PARAMETERS if p.read is None and p.name != "stream"))
OPTIONS = tuple(p.name for p in PARAMETERS if p.read is not None)
# Factors on 8-bit keys and values.
DESCALES = ("k_descale", "v_descale")
# Lengths, offsets and tables.
INTEGERS = ("cu_seqlens_q", "cu_seqlens_k", "seqused_k", "page_table")

_READERS = tuple((p.name, p.read) for p in PARAMETERS if p.read is not None)


def read_options(values: Sequence[Any]) -> list:
    """Options of the types they must have, in the order of `OPTIONS`."""
    return [read(name, x) for (name, read), x in zip(_READERS, values)]


# Torch's operator: its tensors come first, then its options.
_OPERATOR = tuple(p for p in PARAMETERS if p.schema)
OPERATOR_TENSORS = (*INPUTS, *(p.name for p in _OPERATOR if p.read is None))
_WINDOW, _RETURN_LSE = OPTIONS.index("window"), OPTIONS.index("return_lse")


def operator_schema() -> str:
    """What torch is told of the operator."""
    ordered = sorted(_OPERATOR, key=lambda p: p.read is not None)
    arguments = [f"Tensor {name}" for name in INPUTS] + [text for p in ordered for text in p.schema]
    return f"attention({', '.join(arguments)}) -> (Tensor, Tensor)"


def to_operator(options: Sequence[Any]) -> tuple:
    """Options as the operator's arguments: both sides of the window, and no `return_lse`."""
    window = options[_WINDOW]
    left, right = (None, None) if window is None else window
    return (*options[:_WINDOW], left, right, *options[_WINDOW + 1 : _RETURN_LSE], *options[_RETURN_LSE + 1 :])


def from_operator(arguments: Sequence[Any]) -> tuple:
    """The operator's arguments behind its tensors, as options."""
    left, right = arguments[_WINDOW : _WINDOW + 2]
    window = None if left is None and right is None else (left, right)
    return (*arguments[:_WINDOW], window, *arguments[_WINDOW + 2 : _RETURN_LSE + 1], True, *arguments[_RETURN_LSE + 1 :])

"""Calls of the library's `dsv4` on tensors: what `dsv4`, `flash_mla` and the serving plug-ins share.

The library is told what the tensors are like. It answers with the problem, and with what must be done with each tensor
before. Calls on tensors like earlier ones are not described again.
"""

from __future__ import annotations

import ctypes
import json
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple

from ._library import library, raise_error, reason
from ._options import arch_name
from ._plan import Bound, Plan
from ._tensor import CPU

# Calls that are remembered.
_MOST = 1024
_known: Dict[tuple, Known] = {}


class Input(NamedTuple):
    """A tensor of a call: the plan's slot, the caller's name, and what it must become."""

    slot: str
    argument: str
    # given, contiguous, integers or floats
    preparation: str
    # How often each entry of the first dimension is repeated.
    repeat: int

    def of(self, a: Any, tensors: dict) -> Any:
        """The tensor as kernels read it."""
        x = a.as_bytes(tensors[self.argument])
        if self.preparation == "contiguous":
            x = a.contiguous(x)
        elif self.preparation == "integers":
            x = a.integers(self.argument, x)
        elif self.preparation == "floats":
            x = a.floats(self.argument, x)
        return x if self.repeat == 1 else a.repeat(x, self.repeat)

    def copies(self) -> bool:
        """Whether every call makes a copy."""
        return self.preparation != "given" or self.repeat != 1


class Known:
    """What is known of calls on tensors like these."""

    __slots__ = ("bound", "inputs", "lse_shape", "out_is_apart", "out_shape", "per_token", "problem")

    def __init__(self, request: dict, arch: Optional[str]) -> None:
        kind = ctypes.c_int32()
        answer = library.sixwarp_dsv4(json.dumps(request).encode(), ctypes.byref(kind))
        if answer is None:
            raise_error(kind.value)
        call = json.loads(answer.decode())
        # With how it is planned.
        self.problem: dict = {**call["problem"], "arch": arch}
        self.inputs: List[Input] = [Input(**x) for x in call["inputs"]]
        self.out_shape, self.lse_shape = tuple(call["out_shape"]), tuple(self.problem["q"]["shape"][:3])
        self.out_is_apart: bool = call["out_is_apart"]
        self.per_token: bool = call["per_token"]
        self.bound: Optional[Bound] = None

    def planned(self, a: Any, device: int) -> Bound:
        """The plan, which is made once."""
        if self.bound is None:
            dtype = self.problem["q"]["dtype"]
            self.bound = Bound(Plan(self.problem, device), a, self.out_shape, self.lse_shape, dtype, True)
        return self.bound

    def named(self, error: str) -> str:
        """The library's words with the caller's names."""
        slot, colon, rest = error.partition(": ")
        return next((x.argument for x in self.inputs if x.slot == slot), slot) + colon + rest


class Call:
    """Attention on tensors by their names, described and not yet computed.

    `options` are all that `request` depends on beside the tensors. `request` is given a function that describes the
    tensor of a name, None where there is none. `arch` names the generation whose kernels are asked for.
    """

    def __init__(
        self, a: Any, tensors: dict, options: tuple, request: Callable[[Callable], dict], arch: Optional[str] = None
    ) -> None:
        self.a, self.tensors = a, tensors
        arch = None if arch is None else arch_name("arch", arch)
        key = (a, options, arch, *[None if x is None else a.key(x) for x in tensors.values()])
        known = _known.get(key)
        if known is None:
            known = Known(request(self._given), arch)
            if len(_known) >= _MOST:
                _known.pop(next(iter(_known)))
            _known[key] = known
        self.known = known

    def _given(self, name: str) -> Optional[dict]:
        """A tensor as the library reads its description."""
        x = self.tensors.get(name)
        if x is None:
            return None
        x, a = self.a.as_bytes(x), self.a
        return {"name": name, "shape": a.shape(x), "strides": a.strides(x, name), "numbers": a.dtype(x)}

    def run(self) -> Tuple[Any, Any]:
        """The output, and the log-sum-exp `[requests, heads, tokens]`."""
        a, known, q = self.a, self.known, self.tensors["q"]
        given = self.tensors.get("out")
        made = given is None or known.out_is_apart
        out = a.empty(known.out_shape, known.problem["q"]["dtype"], q) if made else given
        lse = a.empty(known.lse_shape, "f32", q)
        slots = {x.slot: x.of(a, self.tensors) for x in known.inputs}
        try:
            known.planned(a, a.device(q, "q")).run({**slots, "out": out, "lse": lse}, q)
        except ValueError as error:
            raise ValueError(known.named(str(error))) from None
        if given is not None:
            if made:
                given[...] = out
            a.written(given)
        return out if given is None else given, self._by_request(lse) if known.per_token else lse

    def _by_request(self, lse: Any) -> Any:
        """The log-sum-exp of tokens that became requests of their own."""
        shape = self.known.out_shape
        tokens = shape[1] if len(shape) == 4 else 1
        return lse.reshape(shape[0], tokens, shape[-2]).swapaxes(1, 2)

    def supports(self, device: Optional[str]) -> Optional[str]:
        """Why a device cannot do this; None if it can."""
        at = self.a.device(self.tensors["q"], "q")
        return reason(self.known.problem, device or ("cpu" if at == CPU else f"cuda:{at}"))


class Cache(NamedTuple):
    """The names of a cache's tensors, and how its pages lie."""

    pages: str
    lists: str
    table: str
    lengths: str
    # Needed where pages are plain bytes.
    page_rows: Optional[int] = None
    # Whether each row of DeepSeek-V4.1 has its scales behind it, instead of the page behind all rows.
    inline_scales: bool = False

    def request(self, given: Callable) -> dict:
        """As the library reads it."""
        tensors = {name: given(getattr(self, name)) for name in ("pages", "lists", "table", "lengths")}
        return {**tensors, "page_rows": self.page_rows, "inline_scales": self.inline_scales}


def decode(
    a: Any, tensors: dict, caches: Tuple[Cache, ...], sinks: str, value_dim: int, scale: Optional[float],
    dim: Optional[int] = None, return_lse: bool = True, arch: Optional[str] = None,
) -> Call:  # fmt: skip
    """The call of queries `q` over one or two caches, into `out` if it is given."""

    def request(given: Callable) -> dict:
        return {"decode": {
            "q": given("q"), "caches": [cache.request(given) for cache in caches], "sinks": given(sinks),
            "out": given("out"), "dim": dim, "value_dim": value_dim, "scale": scale, "return_lse": return_lse,
        }}  # fmt: skip

    options = ("decode", caches, dim, value_dim, scale, return_lse, tuple(tensors))
    return Call(a, tensors, options, request, arch)

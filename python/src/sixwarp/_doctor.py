"""`python -m sixwarp doctor`: what is installed, and a small attention on every device, compared with its definition."""

from __future__ import annotations

import importlib
import platform
from importlib import metadata
from typing import Any, Iterator, Optional, Tuple

from . import __version__, _quick, attention
from ._library import path

# The largest difference from float64 that rounding explains, on inputs of the size of 1.
TOLERANCE = {"float32": 1e-5, "bfloat16": 3e-2}


def examine(program: Optional[str], build: str) -> int:
    """Prints what there is; 1 if a device does not compute what it should."""
    library = path()
    print(f"sixwarp       {__version__}, {library} ({library.stat().st_size / 1e6:.1f} MB)")
    print(f"Python        {platform.python_version()}, {platform.python_implementation()} on {platform.platform()}")
    for name in ("numpy", "torch", "transformers", "jax", "cupy"):
        print(f"{name:13} {_installed(name)}")
    print(f"program       {program or 'not installed; ' + build}")
    failed = False
    for device, (is_well, words) in _devices():
        failed |= not is_well
        print(f"{device:13} {words}")
    return int(failed)


def _installed(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "not installed"


Finding = Tuple[bool, str]


def _devices() -> Iterator[Tuple[str, Finding]]:
    numpy = _module("numpy")
    if numpy is None:
        yield "CPU", (True, "not tried: that needs numpy")
        return
    inputs = _inputs(numpy)
    want = _definition(numpy, *inputs)
    yield "CPU", _compare(numpy, want, "float32", lambda: attention(*inputs))
    torch = _module("torch")
    if torch is None or not torch.cuda.is_available():
        yield "GPU", (True, "not tried: that needs torch" if torch is None else "torch sees none")
        return
    for i in range(torch.cuda.device_count()):
        there = [torch.from_numpy(x).to(f"cuda:{i}", torch.bfloat16) for x in inputs]
        # In bfloat16 inputs are others than those of the definition.
        want = _definition(numpy, *(x.double().cpu().numpy() for x in there))
        name = torch.cuda.get_device_name(i)
        is_well, words = _compare(numpy, want, "bfloat16", lambda: attention(*there).float().cpu().numpy())
        quick = "" if _quick.attention is not _quick.unknown else "; calls go through ctypes, which is slower"
        yield f"GPU {i}", (is_well, f"{name}: {words}{quick}")


def _module(name: str) -> Any:
    """A package, if it is there and in order."""
    try:
        return importlib.import_module(name)
    except Exception:  # What a broken package raises is anything.
        return None


def _inputs(numpy: Any) -> list:
    rng = numpy.random.default_rng(0)
    return [rng.standard_normal((2, tokens, 4, 64)).astype(numpy.float32) for tokens in (16, 300, 300)]


def _definition(numpy: Any, q: Any, k: Any, v: Any) -> Any:
    """Attention in float64."""
    q, k, v = (x.astype(numpy.float64) for x in (q, k, v))
    weights = numpy.exp(numpy.einsum("bqhd,bkhd->bhqk", q, k) / q.shape[-1] ** 0.5)
    return numpy.einsum("bhqk,bkhd->bqhd", weights / weights.sum(-1, keepdims=True), v)


def _compare(numpy: Any, want: Any, dtype: str, compute: Any) -> Finding:
    try:
        error = float(numpy.abs(compute() - want).max())
    except Exception as why:
        return False, f"FAILS: {type(why).__name__}: {why}"
    is_well = error <= TOLERANCE[dtype]
    return is_well, f"{'pass' if is_well else 'FAILS'}: {dtype}, largest error {error:.1e} of {TOLERANCE[dtype]:.0e} allowed"

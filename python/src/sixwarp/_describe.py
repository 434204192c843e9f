"""From tensors and options to the description of a problem."""

from __future__ import annotations

from typing import Any

FLOATS = ("f64", "f32", "f16", "bf16")
# Of keys and values only.
NARROW = ("e4m3",)


def view(adapter: Any, x: Any, layout: str, name: str) -> dict:
    """A tensor in name order (batch, heads, tokens, dim); three dimensions are a batch of one."""
    shape, strides, dtype = adapter.shape(x), adapter.strides(x, name), adapter.dtype(x)
    if dtype not in FLOATS and (name not in ("k", "v") or dtype not in NARROW):
        also = ", float8_e4m3fn" if name in ("k", "v") else ""
        raise TypeError(f"{name} is {dtype}: float32, float16, bfloat16{also} or, on the CPU, float64 is needed")
    if len(shape) == 3:
        shape, strides = (1, *shape), (0, *strides)
    if len(shape) != 4:
        raise ValueError(f"{name} has shape {shape}: {layout} with 4 dimensions, or 3 where packed")
    order = (0, 2, 1, 3) if layout == "bshd" else (0, 1, 2, 3)
    strides = [strides[i] if shape[i] > 1 else 0 for i in order]
    strides[3] = 1 if shape[3] == 1 else strides[3]
    if strides[3] != 1:
        raise ValueError(f"{name} has a last stride of {strides[3]}: rows must be contiguous")
    return {"shape": [shape[i] for i in order], "strides": strides, "dtype": dtype}


def attn_mask(adapter: Any, x: Any) -> dict:
    """A mask in name order (batch, heads, queries, keys); dimensions that are not there are broadcast."""
    shape, strides, dtype = tuple(adapter.shape(x)), adapter.strides(x, "attn_mask"), adapter.dtype(x)
    if dtype != "bool" and dtype not in FLOATS:
        raise TypeError(f"attn_mask is {dtype}: bool, float32, float16, bfloat16 or, on the CPU, float64 is needed")
    if len(shape) > 4:
        raise ValueError(f"attn_mask has shape {shape}: at most (batch, heads, queries, keys) is needed")
    missing = 4 - len(shape)
    strides = [stride if extent > 1 else 0 for extent, stride in zip(shape, strides)]
    return {"shape": [1] * missing + list(shape), "strides": [0] * missing + strides, "dtype": dtype}


def descale(adapter: Any, x: Any, name: str, batch: int, heads: int) -> list:
    """Strides of factors from one sequence, and from one KV head, to the next."""
    shape, strides = tuple(adapter.shape(x)), adapter.strides(x, name)
    if all(extent == 1 for extent in shape):
        return [0, 0]
    if shape == (heads,):
        return [0, strides[0]]
    if shape != (batch, heads):
        raise ValueError(f"{name} has shape {shape}: one factor, ({heads},) or ({batch}, {heads}) is needed")
    return [stride if extent > 1 else 0 for extent, stride in zip(shape, strides)]


def dense_strides(shape: tuple) -> list:
    """Strides of a new, contiguous tensor."""
    strides, step = [], 1
    for extent in reversed(shape):
        strides.append(step)
        step *= max(extent, 1)
    return strides[::-1]


def dense(shape: tuple, layout: str, dtype: str) -> dict:
    """The view of a new, contiguous tensor."""
    strides = dense_strides(shape)
    if len(shape) == 3:
        shape, strides = (1, *shape), [0, *strides]
    order = (0, 2, 1, 3) if layout == "bshd" else (0, 1, 2, 3)
    strides = [strides[i] if shape[i] > 1 or i == 3 else 0 for i in order]
    return {"shape": [shape[i] for i in order], "strides": strides, "dtype": dtype}


def mask(causal: bool, window: Any) -> str:
    """The mask's text; `window` is (left, right) with None for no limit."""
    if window is None:
        return "causal" if causal else "full"
    left, right = window
    if causal:
        right = 0 if right is None else min(right, 0)
    text = ["inf" if side is None else str(side) for side in (left, right)]
    return f"window({text[0]},{text[1]})"


def keys(adapter: Any, k: Any, v: Any, shared: bool, layout: str) -> dict:
    """The tensors of a segment."""
    segment = {"k": view(adapter, k, layout, "k")}
    if shared:
        segment["value_dim"] = adapter.shape(v)[-1]
    else:
        segment["v"] = view(adapter, v, layout, "v")
    return segment


def is_shared(adapter: Any, k: Any, v: Any) -> bool:
    """Whether values are the first columns of the keys' memory."""
    if v is k:
        return True
    if adapter.pointer(k) != adapter.pointer(v) or adapter.dtype(k) != adapter.dtype(v):
        return False
    same = adapter.strides(k, "k") == adapter.strides(v, "v")
    return same and adapter.shape(k)[:-1] == adapter.shape(v)[:-1]


def ensure_one_device(adapter: Any, tensors: dict) -> int:
    """The device of all tensors."""
    devices = {name: adapter.device(x, name) for name, x in tensors.items() if x is not None}
    first = next(iter(devices))
    for name, device in devices.items():
        if device != devices[first]:
            raise ValueError(
                f"{name} is on {place(device)} and {first} on {place(devices[first])}: they must be on the same"
            )
    return devices[first]


def place(device: int) -> str:
    """A device's name."""
    return "the CPU" if device < 0 else f"GPU {device}"


def ensure_shape(adapter: Any, name: str, x: Any, shape: tuple) -> None:
    """Checks the shape of outputs, lengths, offsets and tables."""
    if x is not None and tuple(adapter.shape(x)) != shape:
        raise ValueError(f"{name} has shape {tuple(adapter.shape(x))}: {shape} is needed")


def ensure_rank(adapter: Any, name: str, x: Any, words: str, rank: int) -> None:
    """Checks how many dimensions there are."""
    if x is not None and len(adapter.shape(x)) != rank:
        raise ValueError(f"{name} has shape {tuple(adapter.shape(x))}: {words} is needed")

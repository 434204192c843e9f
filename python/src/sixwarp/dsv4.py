"""DeepSeek-V4's attention layers: a window and compressed rows under one softmax with one sink per head.

A row of 512 numbers is key and value. Caches are pages of rows, in bfloat16 (`[pages, page_rows, 512]`) or
in the served fp8 format MODEL1 (`[pages, page_bytes]` uint8, see `pack_rows`).

- Window-only layers: no compressed rows.
- CSA layers: rows of 4 tokens each, chosen per query by an indexer (`compressed_lists`).
- HCA layers: all rows of 128 tokens each (`page_table` and `compressed_lengths` in decode).

All tensors of a call are on one device: the CPU or a Hopper GPU. GPUs of other generations decline lists and fp8
rows with `sixwarp.Unsupported`.
"""

from __future__ import annotations

import functools
import json
from typing import Any, Optional, Tuple

from . import _describe as describe
from ._library import check, library
from ._plan import Bound, Plan
from ._tensor import CPU
from ._tensor import adapter as adapter_of

DIM = 512
WINDOW = 128
ROW_BYTES, SCALE_BYTES = 576, 8


def page_bytes(page_rows: int) -> int:
    """Bytes of a MODEL1 page.

    >>> from sixwarp import dsv4
    >>> dsv4.page_bytes(64)
    37440
    """
    return -(-page_rows * (ROW_BYTES + SCALE_BYTES) // ROW_BYTES) * ROW_BYTES


def pack_rows(rows: Any, page_rows: int = 64) -> Any:
    """bfloat16 rows `[n, 512]` on the CPU as MODEL1 pages `[pages, page_bytes]`, in order."""
    a = _host(rows, "rows", "bf16")
    count = a.shape(rows)[0]
    pages = a.empty((-(-count // page_rows), page_bytes(page_rows)), "u8", rows)
    pages[...] = 0
    check(library.sixwarp_model1_pack(a.pointer(rows), count, page_rows, a.pointer(pages)))
    return pages


def unpack_rows(pages: Any, rows: int, page_rows: int = 64) -> Any:
    """The first `rows` rows of MODEL1 pages on the CPU, as float32 `[rows, 512]`."""
    a = _host(pages, "pages", "u8")
    wanted = (-(-rows // page_rows), page_bytes(page_rows))
    if a.shape(pages)[0] < wanted[0] or a.shape(pages)[1] != wanted[1]:
        raise ValueError(f"pages have shape {a.shape(pages)}: at least {wanted} is needed")
    out = a.empty((rows, DIM), "f32", pages)
    check(library.sixwarp_model1_unpack(a.pointer(pages), rows, page_rows, a.pointer(out)))
    return out


def decode(
    q: Any,
    window: Any,
    window_lists: Any,
    sinks: Any,
    *,
    page_rows: int = 64,
    compressed: Any = None,
    compressed_lists: Any = None,
    page_table: Any = None,
    compressed_lengths: Any = None,
    compressed_page_rows: Optional[int] = None,
    scale: Optional[float] = None,
) -> Tuple[Any, Any]:
    """One query for each of several requests: `(out, lse)` for `q` of `[requests, heads, 512]`.

    `window_lists` (`[requests, 128]` int32) names the rows of each window in the pages `window`
    (`page · page_rows + row`, -1 unused). A CSA layer gives `compressed` and `compressed_lists`
    (`[requests, top_k]`), an HCA layer `compressed`, `page_table` (`[requests, pages]`) and
    `compressed_lengths` (`[requests]`).

    >>> import numpy as np
    >>> from sixwarp import dsv4
    >>> q = np.zeros((1, 8, 512), np.float32)                    # one request, 8 heads
    >>> pages = np.ones((2, 64, 512), np.float32)                # two pages of 64 rows
    >>> lists = np.full((1, 128), -1, np.int32)
    >>> lists[0, :3] = [64, 65, 66]                              # a window of three rows
    >>> out, lse = dsv4.decode(q, pages, lists, np.full(8, -np.inf, np.float32))
    >>> out.shape, float(out[0, 0, 0]), lse.shape
    ((1, 8, 512), 1.0, (1, 8, 1))
    """
    a = adapter_of(q)
    describe.ensure_one_device(a, {
        "q": q, "window": window, "window_lists": window_lists, "sinks": sinks, "compressed": compressed,
        "compressed_lists": compressed_lists, "page_table": page_table,
        "compressed_lengths": compressed_lengths,
    })  # fmt: skip
    requests = a.shape(q)[0]
    segments = [_pages(a, window, page_rows, "window")]
    segments[0].update(pages_per_sequence=0, indices=_width(a, "window_lists", window_lists, requests))
    tensors = [window, a.integers(window_lists)]
    if compressed is not None:
        segment = _pages(a, compressed, compressed_page_rows or page_rows, "compressed")
        if compressed_lists is not None:
            width = _width(a, "compressed_lists", compressed_lists, requests)
            segment.update(pages_per_sequence=0, indices=width)
            tensors += [compressed, a.integers(compressed_lists)]
        elif page_table is not None and compressed_lengths is not None:
            describe.ensure_length(a, "compressed_lengths", compressed_lengths, (requests,))
            segment.update(pages_per_sequence=_width(a, "page_table", page_table, requests), used=True)
            tensors += [compressed, a.integers(compressed_lengths), a.integers(page_table)]
        else:
            raise ValueError(
                "compressed rows need compressed_lists (CSA), or page_table and compressed_lengths (HCA)"
            )
        segments.append(segment)
    query = _queries(a, q, one_each=True)
    return _run(a, q, query, segments, sinks, None, tensors, scale)


def prefill(
    q: Any,
    window: Any,
    sinks: Any,
    *,
    compressed: Any = None,
    compressed_lists: Any = None,
    position: int = 0,
    scale: Optional[float] = None,
) -> Tuple[Any, Any]:
    """New tokens of one request: `(out, lse)` for `q` of `[tokens, heads, 512]`, the first at `position`.

    `window` (`[rows, 512]`) holds the new tokens' rows after those of up to 127 tokens before them.
    `compressed` (`[rows, 512]`) is seen by position (HCA), or through `compressed_lists`
    (`[tokens, top_k]`, CSA).

    >>> import numpy as np
    >>> from sixwarp import dsv4
    >>> q = np.zeros((2, 8, 512), np.float32)                    # tokens 128 and 129, 8 heads
    >>> window = np.zeros((129, 512), np.float32)                # rows 1 … 129
    >>> compressed = np.ones((1, 512), np.float32)               # stands for rows 0 … 127
    >>> out, _ = dsv4.prefill(q, window, np.full(8, -np.inf, np.float32), compressed=compressed, position=128)
    >>> bool(np.allclose(out, 1 / 129))                          # one of 128 + 1 rows is not zero
    True
    """
    a = adapter_of(q)
    describe.ensure_one_device(a, {
        "q": q, "window": window, "sinks": sinks, "compressed": compressed,
        "compressed_lists": compressed_lists,
    })  # fmt: skip
    tokens = a.shape(q)[0]
    segments = [{**_rows(a, window, "window"), "mask": f"window({WINDOW - 1},0)"}]
    tensors, positions = [window], None
    if compressed is not None and compressed_lists is not None:
        width = _width(a, "compressed_lists", compressed_lists, tokens)
        segments.append({**_rows(a, compressed, "compressed"), "indices": width})
        tensors += [compressed, a.integers(compressed_lists)]
    elif compressed is not None:
        segments.append({**_rows(a, compressed, "compressed"), "mask": "compressed(128)"})
        tensors.append(compressed)
        positions = a.integers(_full(a, position, q))
    query = _queries(a, q, one_each=False)
    return _run(a, q, query, segments, sinks, positions, tensors, scale)


def _run(
    a: Any, q: Any, query: dict, segments: list, sinks: Any, positions: Any, tensors: list, scale: Any
) -> Tuple[Any, Any]:
    describe.ensure_length(a, "sinks", sinks, (query["shape"][1],))
    shape = tuple(a.shape(q))
    out = a.empty(shape, query["dtype"], q)
    description = {
        "q": query, "out": {**query, "strides": _dense(query)}, "segments": segments,
        "sinks": True, "return_lse": True, "scale": scale,
    }  # fmt: skip
    lse_shape = tuple(query["shape"][:3])
    lse = a.empty(lse_shape, "f32", q)
    plan = _planned(json.dumps(description), a.device(q))
    bound = Bound(plan, a, shape, lse_shape, query["dtype"], True)
    bound.run([q, out, lse, a.floats(sinks), positions, *tensors], q)
    return out, lse


@functools.lru_cache(maxsize=1024)
def _planned(description: str, device: int) -> Plan:
    return Plan(json.loads(description), device)


def _queries(a: Any, q: Any, one_each: bool) -> dict:
    """Queries `[tokens, heads, 512]`, one of each request or all of one."""
    shape = tuple(a.shape(q))
    if len(shape) != 3 or shape[2] != DIM or a.dtype(q) not in describe.FLOATS:
        raise ValueError(f"q has shape {shape} of {a.dtype(q)}: floats of [tokens, heads, {DIM}] are needed")
    token, head, _ = a.strides(q)
    tokens, heads, _ = shape
    if one_each:
        return {"shape": [tokens, heads, 1, DIM], "strides": [token, head, 0, 1], "dtype": a.dtype(q)}
    return {"shape": [1, heads, tokens, DIM], "strides": [0, head, token, 1], "dtype": a.dtype(q)}


def _dense(query: dict) -> list:
    """Strides of a new contiguous tensor in the view's order."""
    batch, heads = query["shape"][:2]
    step = heads * DIM
    return [0, DIM, step, 1] if query["strides"][0] == 0 and batch == 1 else [step, DIM, 0, 1]


def _pages(a: Any, x: Any, page_rows: int, name: str) -> dict:
    packed = a.dtype(x) == "u8"
    shape = tuple(a.shape(x))
    wanted = (shape[0], page_bytes(page_rows)) if packed else (shape[0], page_rows, DIM)
    if shape != wanted:
        raise ValueError(f"{name} has shape {shape}: {wanted} is needed for pages of {page_rows} rows")
    strides = tuple(a.strides(x))
    page, row = (page_rows * DIM, DIM) if packed else strides[:2]
    if strides[-1] != 1 or (packed and shape[0] > 1 and strides[0] != shape[1]):
        raise ValueError(f"{name} has strides {strides}: {'pages' if packed else 'rows'} must be contiguous")
    view = {"shape": [shape[0], 1, page_rows, DIM], "strides": [page, 0, row, 1]}
    return {"k": {**view, "dtype": "bf16" if packed else a.dtype(x)}, "mask": "full", "model1": packed}


def _rows(a: Any, x: Any, name: str) -> dict:
    shape = tuple(a.shape(x))
    if len(shape) != 2 or shape[1] != DIM:
        raise ValueError(f"{name} has shape {shape}: [rows, {DIM}] is needed")
    step, unit = a.strides(x)
    if unit != 1:
        raise ValueError(f"{name} has a last stride of {unit}: rows must be contiguous")
    view = {"shape": [1, 1, shape[0], DIM], "strides": [0, 0, step, 1], "dtype": a.dtype(x)}
    return {"k": view, "mask": "full"}


def _width(a: Any, name: str, x: Any, rows: int) -> int:
    shape = tuple(a.shape(x))
    if len(shape) != 2 or shape[0] != rows:
        raise ValueError(f"{name} has shape {shape}: ({rows}, entries) is needed")
    return shape[1]


def _full(a: Any, value: int, like: Any) -> Any:
    """One integer beside `like`."""
    x = a.empty((1,), "i32", like)
    x[...] = value
    return x


def _host(x: Any, name: str, dtype: str) -> Any:
    a = adapter_of(x)
    shape = tuple(a.shape(x))
    dense = len(shape) == 2 and tuple(a.strides(x)) == (shape[1], 1)
    if a.device(x) != CPU or a.dtype(x) != dtype or not dense:
        raise ValueError(f"{name}: a contiguous matrix of {dtype} on the CPU is needed")
    return a

"""DeepSeek-V4's attention layers: a window and compressed rows under one softmax with one sink per head.

A row of 512 numbers is key and value. Caches are pages of rows, in bfloat16 (`[pages, page_rows, 512]`) or
in the served fp8 format MODEL1: `[pages, page_rows, 1, 584]` as serving engines view it, or `[pages, page_bytes]`
(uint8, see `pack_rows`). Rows of DeepSeek-V4.1 have 528 or 288 bytes.

- Window-only layers: no compressed rows.
- CSA layers: rows of 4 tokens each, chosen per query by an indexer (`compressed_lists`).
- HCA layers: all rows of 128 tokens each (`page_table` and `compressed_lengths` in decode).

The log-sum-exp is that of the rows alone, without the sink; -inf where a query sees no row (FlashMLA has +inf).

All tensors of a call are on one device: the CPU or a GPU. What a GPU cannot do is declined with
`sixwarp.Unsupported`; `supports` asks without computing.
"""

from __future__ import annotations

from typing import Any, Callable, Optional, Tuple

from . import _describe as describe
from ._caches import Cache, Call
from ._caches import decode as decode_call
from ._library import check, library
from ._options import real, whole
from ._plan import packed
from ._tensor import CPU, INT32, adapter_for, ensure_given

DIM = 512
WINDOW = 128
# Bytes of a MODEL1 row, and of its scales in the page's footer.
ROW_BYTES, SCALE_BYTES = 576, 8


def page_bytes(page_rows: int) -> int:
    """Bytes of a MODEL1 page.

    >>> from sixwarp import dsv4
    >>> dsv4.page_bytes(64)
    37440
    """
    return library.sixwarp_model1_page_bytes(whole("page_rows", page_rows, 1))


def pack_rows(rows: Any, page_rows: int = 64) -> Any:
    """bfloat16 rows `[n, 512]` on the CPU as MODEL1 pages `[pages, page_bytes]`, in order."""
    page_rows, width = whole("page_rows", page_rows, 1), page_bytes(page_rows)
    a = _host(rows, "rows", "bf16", DIM)
    pages = a.empty((-(-a.shape(rows)[0] // page_rows), width), "u8", rows)
    pages[...] = 0
    check(library.sixwarp_model1_pack(_matrix(a, rows), page_rows, packed(a.memory(pages))))
    return pages


def unpack_rows(pages: Any, rows: int, page_rows: int = 64) -> Any:
    """The first `rows` rows of MODEL1 pages on the CPU, as float32 `[rows, 512]`."""
    page_rows, width, rows = whole("page_rows", page_rows, 1), page_bytes(page_rows), whole("rows", rows)
    a = _host(pages, "pages", "u8", width)
    needed = -(-rows // page_rows)
    if a.shape(pages)[0] < needed:
        raise ValueError(f"pages has shape {tuple(a.shape(pages))}: {needed} pages are needed for {rows} rows")
    out = a.empty((rows, DIM), "f32", pages)
    check(library.sixwarp_model1_unpack(packed(a.memory(pages)), page_rows, _matrix(a, out)))
    return out


def decode(
    q: Any,
    window: Any,
    window_lists: Any,
    sinks: Any = None,
    *,
    page_rows: Optional[int] = None,
    window_lengths: Any = None,
    compressed: Any = None,
    compressed_lists: Any = None,
    page_table: Any = None,
    compressed_lengths: Any = None,
    compressed_page_rows: Optional[int] = None,
    scale: Optional[float] = None,
    out: Any = None,
    arch: Optional[str] = None,
) -> Tuple[Any, Any]:
    """A few queries for each of several requests: `(out, lse)` for `q` of `[requests, tokens, heads, 512]`.

    `q` of `[requests, heads, 512]` is one token of each request. `window_lists` (`[requests, tokens, 128]` int32, or
    `[requests, 128]` for one token) names the rows of each token's window in the pages `window` (`page · page_rows +
    row`). Entries that name no row, such as -1, are skipped and never read. A CSA layer gives `compressed` and
    `compressed_lists` (`[requests, tokens, top_k]`), an HCA layer `compressed`, `page_table` (`[requests, pages]`)
    and `compressed_lengths`. `sinks` is one logit per head, or None.

    `window_lengths` and `compressed_lengths` say how many leading entries of a list (or rows of the pages) count:
    `[requests]`, or `[requests, tokens]`. A padded request has a length of 0, or only -1 in its lists.

    Lists may be views with gaps between them, and are not copied then. Pages may lie apart. Their rows are counted by
    the tensor's shape; only MODEL1 pages given as `[pages, page_bytes]` need `page_rows` (64 if it is not given).

    `arch` names the generation whose kernels a GPU takes instead of its own, as in `sixwarp.attention`.

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
    return _decode(**locals()).run()


def supports(
    q: Any,
    window: Any,
    window_lists: Any,
    sinks: Any = None,
    *,
    device: Optional[str] = None,
    page_rows: Optional[int] = None,
    window_lengths: Any = None,
    compressed: Any = None,
    compressed_lists: Any = None,
    page_table: Any = None,
    compressed_lengths: Any = None,
    compressed_page_rows: Optional[int] = None,
    scale: Optional[float] = None,
    out: Any = None,
    arch: Optional[str] = None,
) -> Optional[str]:
    """Why `device` cannot compute `decode` of tensors like these; None if it can (see `sixwarp.supports`).

    >>> import numpy as np
    >>> from sixwarp import dsv4
    >>> q, lists = np.zeros((1, 8, 512)), np.zeros((1, 128), np.int32)
    >>> pages = np.zeros((2, 64, 512))
    >>> dsv4.supports(q, pages, lists, device="cpu")
    >>> dsv4.supports(q, pages, lists, device="sm_90a")
    'dtype f64 is not supported: kernels take inputs of bf16, f16 and f32 (nearest that works: f32)'
    """
    given = locals()
    del given["device"]
    return _decode(**given).supports(device)


def _decode(
    q: Any, window: Any, window_lists: Any, sinks: Any, page_rows: Optional[int], window_lengths: Any, compressed: Any,
    compressed_lists: Any, page_table: Any, compressed_lengths: Any, compressed_page_rows: Optional[int], scale: Any,
    out: Any, arch: Optional[str],
) -> Call:  # fmt: skip
    ensure_given(q=q, window=window, window_lists=window_lists)
    tensors = {
        "q": q, "window": window, "window_lists": window_lists, "sinks": sinks, "window_lengths": window_lengths,
        "compressed": compressed, "compressed_lists": compressed_lists, "page_table": page_table,
        "compressed_lengths": compressed_lengths, "out": out,
    }  # fmt: skip
    a = _adapter(tensors)
    rows = _page_rows(page_rows)
    caches = (Cache("window", "window_lists", "", "window_lengths", rows),)
    if compressed is None:
        _refuse(
            "without compressed", compressed_lists=compressed_lists, page_table=page_table,
            compressed_lengths=compressed_lengths, compressed_page_rows=compressed_page_rows,
        )  # fmt: skip
    else:
        if compressed_lists is not None:
            _refuse("beside compressed_lists", page_table=page_table)
        elif page_table is None or compressed_lengths is None:
            raise ValueError("compressed rows need compressed_lists (CSA), or page_table and compressed_lengths (HCA)")
        rows = rows if compressed_page_rows is None else _page_rows(compressed_page_rows)
        caches += (Cache("compressed", "compressed_lists", "page_table", "compressed_lengths", rows),)
    scale = None if scale is None else real("scale", scale)
    return decode_call(a, tensors, caches, "sinks", DIM, scale, DIM, arch=arch)


def prefill(
    q: Any,
    window: Any,
    sinks: Any = None,
    *,
    compressed: Any = None,
    compressed_lists: Any = None,
    position: Optional[int] = None,
    scale: Optional[float] = None,
    arch: Optional[str] = None,
) -> Tuple[Any, Any]:
    """New tokens of one request: `(out, lse)` for `q` of `[tokens, heads, 512]`.

    `window` (`[rows, 512]`) holds the new tokens' rows after those of up to 127 tokens before them.
    `compressed` (`[rows, 512]`) is seen by position (HCA; the first token is at `position`, by default 0), or
    through `compressed_lists` (`[tokens, top_k]`, CSA). `sinks` is one logit per head, or None. Requests whose rows are
    in pages are `prefill_pages`'s.

    >>> import numpy as np
    >>> from sixwarp import dsv4
    >>> q = np.zeros((2, 8, 512), np.float32)                    # tokens 128 and 129, 8 heads
    >>> window = np.zeros((129, 512), np.float32)                # rows 1 … 129
    >>> compressed = np.ones((1, 512), np.float32)               # stands for rows 0 … 127
    >>> out, _ = dsv4.prefill(q, window, np.full(8, -np.inf, np.float32), compressed=compressed, position=128)
    >>> bool(np.allclose(out, 1 / 129))                          # one of 128 + 1 rows is not zero
    True
    """
    ensure_given(q=q, window=window)
    tensors = {
        "q": q, "window": window, "sinks": sinks, "compressed": compressed, "compressed_lists": compressed_lists,
    }  # fmt: skip
    a = _adapter(tensors)
    if compressed is None:
        _refuse("without compressed", compressed_lists=compressed_lists, position=position)
    elif compressed_lists is None:
        tensors["position"] = _full(a, 0 if position is None else position, q)
    else:
        _refuse("beside compressed_lists", position=position)
    return _prefill("prefill", a, tensors, ("window", "compressed", "compressed_lists", "position"), scale, arch)


def prefill_pages(
    q: Any,
    cu_seqlens: Any,
    positions: Any,
    window: Any,
    window_table: Any,
    sinks: Any = None,
    *,
    longest: Optional[int] = None,
    page_rows: Optional[int] = None,
    compressed: Any = None,
    compressed_lists: Any = None,
    page_table: Any = None,
    compressed_page_rows: Optional[int] = None,
    scale: Optional[float] = None,
    arch: Optional[str] = None,
) -> Tuple[Any, Any]:
    """New tokens of several requests, from pages: `(out, lse)` for `q` of `[tokens, heads, 512]`.

    Requests lie one behind the other in `q`, from `cu_seqlens` (`[requests + 1]` int32) on. `positions` (`[requests]`
    int32) is where the first new token of each stands. `window` and `compressed` are pages of rows in any format, as
    `decode` takes them. They are read in place: nothing is gathered or unpacked before. `window_table`
    (`[requests, pages]`) names the pages of each request from its first token on; before its windows they may be any.
    Compressed rows are seen through `compressed_lists` (`[tokens, top_k]`, CSA), or by position in `page_table`
    (`[requests, pages]`, HCA). `longest` bounds the tokens of a request: all of `q` if it is not given.

    The log-sum-exp is `[1, heads, tokens]`.

    >>> import numpy as np
    >>> from sixwarp import dsv4
    >>> q = np.zeros((5, 8, 512), np.float32)                    # 2 tokens of one request, 3 of another
    >>> pages = np.ones((4, 64, 512), np.float32)
    >>> ends, positions = np.array([0, 2, 5], np.int32), np.array([0, 70], np.int32)
    >>> table = np.array([[3, 0], [0, 2]], np.int32)
    >>> out, lse = dsv4.prefill_pages(q, ends, positions, pages, table)
    >>> out.shape, [round(float(x)) for x in np.exp(lse[0, 0])]  # as many rows as each token sees
    ((5, 8, 512), [1, 2, 71, 72, 73])
    """
    ensure_given(q=q, cu_seqlens=cu_seqlens, positions=positions, window=window, window_table=window_table)
    tensors = {
        "q": q, "cu_seqlens": cu_seqlens, "positions": positions, "window": window, "window_table": window_table,
        "sinks": sinks, "compressed": compressed, "compressed_lists": compressed_lists, "page_table": page_table,
    }  # fmt: skip
    a = _adapter(tensors)
    if compressed is None:
        given = dict(compressed_lists=compressed_lists, page_table=page_table, compressed_page_rows=compressed_page_rows)
        _refuse("without compressed", **given)
    elif compressed_lists is not None:
        _refuse("beside compressed_lists", page_table=page_table)
    elif page_table is None:
        raise ValueError("compressed rows need compressed_lists (CSA), or page_table (HCA)")
    if len(a.shape(positions)) != 1:
        raise ValueError(f"positions has shape {tuple(a.shape(positions))}: (requests,) is needed")
    describe.ensure_shape(a, "cu_seqlens", cu_seqlens, (a.shape(positions)[0] + 1,))
    ends, first = a.integers("cu_seqlens", cu_seqlens), a.integers("positions", positions)
    tensors.update({"cu_seqlens": ends, "positions": first, "lengths": first + ends[1:] - ends[:-1]})
    names = (
        "cu_seqlens", "positions", "lengths", "window", "window_table", "compressed", "compressed_lists", "page_table",
    )  # fmt: skip
    return _prefill(
        "prefill_pages", a, tensors, names, scale, arch, page_rows=_page_rows(page_rows),
        compressed_page_rows=_page_rows(compressed_page_rows), longest=None if longest is None else whole("longest", longest),
    )  # fmt: skip


def _prefill(
    form: str, a: Any, tensors: dict, names: tuple, scale: Any, arch: Optional[str], **options: Any
) -> Tuple[Any, Any]:
    options["scale"] = None if scale is None else real("scale", scale)

    def request(given: Callable) -> dict:
        return {form: {**{name: given(name) for name in ("q", "sinks", *names)}, **options}}

    return Call(a, tensors, (form, *options.values(), *tensors), request, arch).run()


def _adapter(tensors: dict) -> Any:
    """The adapter for all tensors, which are on one device and differentiated by nobody."""
    a = adapter_for([*tensors], [*tensors.values()])
    describe.ensure_one_device(a, tensors)
    a.refuse_gradients(*tensors.values())
    return a


def _refuse(where: str, **given: Any) -> None:
    for name, value in given.items():
        if value is not None:
            raise ValueError(f"{name} is given {where}, where it means nothing")


def _page_rows(rows: Optional[int]) -> Optional[int]:
    return None if rows is None else whole("page_rows", rows, 1)


def _full(a: Any, value: int, like: Any) -> Any:
    """A position beside `like`."""
    value = whole("position", value)
    if value > INT32[1]:
        raise ValueError(f"position is {value}: less than 2^31 is needed")
    x = a.empty((1,), "i32", like)
    x[...] = value
    return x


def _matrix(a: Any, x: Any) -> bytes:
    """A contiguous matrix, without what lies behind it in its storage."""
    element, device, writable, address, there = a.memory(x)
    rows, columns = a.shape(x)
    return packed((element, device, writable, address, min(there, rows * columns * x.itemsize)))


def _host(x: Any, name: str, dtype: str, width: int) -> Any:
    """The adapter of a contiguous matrix on the CPU."""
    ensure_given(**{name: x})
    a = adapter_for([name], [x])
    a.refuse_gradients(x)
    shape = tuple(a.shape(x))
    if len(shape) != 2 or shape[1] != width:
        raise ValueError(f"{name} has shape {shape}: [n, {width}] is needed")
    if a.device(x, name) != CPU or a.dtype(x) != dtype or tuple(a.strides(x, name)) != (width, 1):
        place = describe.place(a.device(x, name))
        found = f"{a.dtype(x)} of strides {tuple(a.strides(x, name))} on {place}"
        raise ValueError(f"{name} is {found}: contiguous {dtype} on the CPU is needed")
    return a

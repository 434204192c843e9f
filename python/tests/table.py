"""The project's table of cases for Python: read, filled with numbers, and answered from the definition."""

import math
import pathlib
import tomllib
import zlib

import numpy as np

PATH = pathlib.Path(__file__).resolve().parents[2] / "crates" / "cases" / "cases.toml"


def load():
    """Every case of the table as a dictionary."""
    rows = tomllib.loads(PATH.read_text(encoding="utf-8"))["case"]
    return [case for row in rows for case in expand(row)]


def expand(row):
    each = row.pop("each", {})
    cases = [row]
    for field, values in each.items():
        cases = [
            {**case, field: value, "name": case["name"].replace("{%s}" % field, str(value))}
            for case in cases
            for value in values
        ]
    return cases


def is_plain(case):
    """Whether `sixwarp.attention` asks it: one segment, no lists, no packed rows."""
    fields = ("second", "indices", "model1", "storage")
    return not any(case.get(field) for field in fields) and "compressed" not in case.get("mask", "")


def rounded(x, dtype):
    """`x` rounded to nearest even in `dtype`, as float32 (float64 where that is the type)."""
    if dtype == "f64":
        return np.asarray(x, np.float64)
    x = np.asarray(x, np.float32)
    if dtype == "e4m3":
        # Mantissas of four bits with the one in front, down to those of the smallest exponent; no infinities.
        with np.errstate(invalid="ignore"):
            exponent = np.maximum(np.frexp(np.abs(x))[1] - 1, -6)
        step = np.ldexp(np.float32(1), exponent - 3)
        return np.clip(np.rint(x / step) * step, np.float32(-448), np.float32(448))
    if dtype == "f16":
        with np.errstate(over="ignore"):
            return x.astype(np.float16).astype(np.float32)
    if dtype == "bf16":
        bits = x.view(np.uint32)
        bits = (bits + 0x7FFF + ((bits >> 16) & 1)) & np.uint32(0xFFFF0000)
        return np.where(np.isnan(x), np.float32(np.nan), bits.view(np.float32))
    return x


class Data:
    """A case's tensors, NaN wherever an engine must not look, as float32 already rounded to its type.

    `q`, `k` and `v` are padded buffers; views of them with the case's gap and order are what is given.
    """

    def __init__(self, case):
        self.case = case
        self.rng = np.random.default_rng(zlib.crc32(case["name"].encode()))
        self.dtype = case.get("dtype", "bf16")
        self.kv_dtype = "e4m3" if "e4m3" in case else self.dtype
        self.heads = case.get("heads", 1)
        self.kv_heads = case.get("kv_heads", self.heads)
        self.dim = case["dim"]
        self.value_dim = case.get("value_dim", self.dim)
        self.packed_q = isinstance(case["queries"], list)
        batch = len(case["queries"]) if self.packed_q else case.get("batch", 1)
        self.batch = batch
        self.queries = case["queries"] if self.packed_q else [case["queries"]] * batch
        keys = case["keys"]
        self.keys = keys if isinstance(keys, list) else [keys] * batch
        self.layout = case.get("layout", "batched")
        self.shared = case.get("shared", False)
        self.order = case.get("order", "bhsd")
        self.scale = case.get("scale", 1 / math.sqrt(self.dim))
        self.make()

    def normal(self, lean, dtype, *shape):
        x = self.rng.standard_normal(shape, np.float32) * np.float32(self.case.get("amplitude", 1.0))
        return rounded(x + np.float32(lean), dtype)

    def factors(self):
        """Factors on e4m3 keys, or on values."""
        shapes = {"tensor": (1,), "head": (self.kv_heads,), "sequence": (self.batch, self.kv_heads)}
        shape = shapes.get(self.case.get("e4m3"))
        return None if shape is None else np.exp2(self.rng.standard_normal(shape, np.float32) / 2)

    def make(self):
        """Rows of each sequence, then the buffers that hold them."""
        heads, kv_heads, lean = self.heads, self.kv_heads, self.case.get("lean", 0.0)
        self.q_rows = [self.normal(lean, self.dtype, heads, n, self.dim) for n in self.queries]
        self.k_rows = [self.normal(-lean, self.kv_dtype, kv_heads, n, self.dim) for n in self.keys]
        self.v_rows = [self.normal(-lean, self.kv_dtype, kv_heads, n, self.value_dim) for n in self.keys]
        self.k_descale, self.v_descale = self.factors(), self.factors()
        self.put_special()
        if self.shared:
            self.v_rows = [k[..., : self.value_dim] for k in self.k_rows]
        self.sinks = None
        sinks = self.case.get("sinks")
        if isinstance(sinks, list):
            self.sinks = np.resize(np.array(sinks, np.float32), heads)
        elif sinks is not None:
            self.sinks = self.rng.standard_normal(heads, np.float32)
        if self.packed_q:
            self.cu_q = offsets(self.queries)
            self.q = self.packed(self.q_rows, heads, self.dim, spare=2)
        else:
            self.cu_q = None
            self.q = np.stack(self.q_rows)
        self.cu_k = self.used = self.table = None
        self.place_keys()
        self.make_attn_mask()

    def put_special(self):
        """Numbers in the place of random ones: `v[40] = nan`, `q[*,3] = 1e30`."""
        tensors = {"q": self.q_rows, "k": self.k_rows, "v": self.v_rows}
        for text in self.case.get("special", []):
            place, value = text.split("=")
            tensor, place = place.strip().removesuffix("]").split("[")
            row, column = (*place.split(","), "*")[:2]
            at = [slice(None) if i == "*" else slice(int(i), int(i) + 1) for i in (row, column)]
            for rows in tensors[tensor]:
                rows[:, at[0], at[1]] = rounded(np.float32(value), self.dtype if tensor == "q" else self.kv_dtype)

    def packed(self, rows, heads, dim, spare=0):
        stray = np.full((heads, spare, dim), np.nan, np.float32)
        return np.concatenate([*rows, stray], axis=1)

    def place_keys(self):
        longest, ragged = max(self.keys), isinstance(self.case["keys"], list)
        if self.layout == "packed":
            self.cu_k = offsets(self.keys)
            self.k = self.packed(self.k_rows, self.kv_heads, self.dim)
            self.v = self.packed(self.v_rows, self.kv_heads, self.value_dim)
            return
        rows = longest if self.layout == "batched" else self.case["page"]
        count = self.batch if self.layout == "batched" else None
        columns = -(-longest // rows) if self.layout == "paged" else 1
        if count is None:
            used = self.batch * columns
            count = used + used // 2 + 1
            order = self.rng.permutation(count)
            nonsense = np.array([-1, 2**31 - 1], np.int32)
            self.table = np.tile(np.resize(nonsense, columns), (self.batch, 1))
        self.k = np.full((count, self.kv_heads, rows, self.dim), np.nan, np.float32)
        self.v = np.full((count, self.kv_heads, rows, self.value_dim), np.nan, np.float32)
        for b, length in enumerate(self.keys):
            for column in range(-(-length // rows) if rows else 0):
                page = order[b * columns + column] if self.table is not None else b
                if self.table is not None:
                    self.table[b, column] = page
                part = slice(column * rows, min(length, (column + 1) * rows))
                self.k[page, :, : part.stop - part.start] = self.k_rows[b][:, part]
                self.v[page, :, : part.stop - part.start] = self.v_rows[b][:, part]
        if ragged or (self.table is not None and longest % rows):
            self.used = np.array(self.keys, np.int32)

    def make_attn_mask(self):
        """The case's mask tensor: a dictionary of type, memory order, and elements `[b, h, q, k]`."""
        self.attn_mask = None
        if "attn_mask" not in self.case:
            return
        kind, _, dims = self.case["attn_mask"].partition("-")
        keys = max(self.keys)
        if self.table is not None:
            keys = self.table.shape[1] * self.case["page"]
        extents = (self.batch, self.heads, self.queries[0], keys)
        shape = [extent if letter in dims else 1 for letter, extent in zip("bhqk", extents)]
        if kind == "bool":
            elements = self.rng.random(shape) < 0.75
            elements[self.rng.random(shape[:3]) < 0.125] = False
        else:
            elements = rounded(2 * self.rng.standard_normal(shape, np.float32), kind)
            elements[self.rng.random(shape) < 0.25] = -np.inf
            elements[self.rng.random(shape[:3]) < 0.125] = -np.inf
            # Finite, though in f16 small enough to leave the scores some bits.
            elements[self.rng.random(shape[:3]) < 0.125] = -1000 if kind == "f16" else np.finfo(np.float32).min
            elements = rounded(elements, kind)
            seen = np.zeros(extents, bool)
            for b, length in enumerate(self.keys):
                seen[b, :, :, :length] = self.visible(self.queries[0], length)
            unused = tuple(axis for axis, letter in enumerate("bhqk") if letter not in dims)
            elements[~seen.any(axis=unused, keepdims=True)] = np.nan
        self.attn_mask = {"kind": kind, "dims": dims, "elements": elements}

    def bias(self, b, queries, keys):
        """What the mask tensor adds to the scores of sequence `b`."""
        if self.attn_mask is None:
            return 0.0
        elements = self.attn_mask["elements"]
        if elements.dtype == bool:
            elements = np.where(elements, 0.0, -np.inf)
        row = elements[b if elements.shape[0] > 1 else 0].astype(np.float64)[..., :keys]
        row = np.broadcast_to(row, (self.heads, queries, keys))
        return np.where(np.isneginf(row), row, np.clip(row, -1e38, 1e38))

    def mask(self):
        """(causal, window) of the case."""
        text = self.case.get("mask", "full")
        if text in ("full", "causal"):
            return text == "causal", None
        sides = text.removeprefix("window(").removesuffix(")").split(",")
        return False, tuple(None if side == "inf" else int(side) for side in sides)

    def visible(self, queries, keys):
        causal, window = self.mask()
        diagonal = np.arange(queries)[:, None] + keys - queries
        j = np.arange(keys)[None, :]
        left, right = (None, 0) if causal else window or (None, None)
        seen = np.ones((queries, keys), bool)
        if left is not None:
            seen &= j >= diagonal - left
        if right is not None:
            seen &= j <= diagonal + right
        return seen

    def expected(self, naive=False):
        """(out, lse) of each sequence in float64; `naive` rounds scores, P and the result as a plain
        computation in the case's type would."""
        return [self.sequence(b, naive) for b in range(self.batch)]

    def sequence(self, b, naive):
        group = self.heads // self.kv_heads
        q = self.q_rows[b].astype(np.float64)
        scaled = ((self.k_rows[b], self.k_descale), (self.v_rows[b], self.v_descale))
        k, v = (np.repeat(x.astype(np.float64) * self.factor(descale, b), group, 0) for x, descale in scaled)
        s = np.einsum("htd,hsd->hts", q, k) * self.scale
        if self.case.get("softcap"):
            s = self.case["softcap"] * np.tanh(s / self.case["softcap"])
        if naive:
            s = rounded(s, self.dtype).astype(np.float64)
        s = s + self.bias(b, q.shape[1], k.shape[1])
        s = np.where(self.visible(q.shape[1], k.shape[1]), s, -np.inf)
        top = s.max(-1, keepdims=True, initial=-np.inf)
        top = np.where(np.isneginf(top), 0.0, top)
        with np.errstate(invalid="ignore"):
            p = np.exp(s - top)
        total = p.sum(-1)
        with np.errstate(divide="ignore"):
            lse = np.log(total) + top[..., 0]
        if self.sinks is not None:
            sink = self.sinks.astype(np.float64)[:, None]
            with np.errstate(over="ignore"):
                total = total + np.exp(sink - top[..., 0])
        if naive:
            p = rounded(p, self.dtype).astype(np.float64)
        with np.errstate(divide="ignore", invalid="ignore"):
            out = np.einsum("hts,hsd->htd", p, np.where(np.isfinite(v), v, 0.0))
            out = np.where(total[..., None] == 0, 0.0, out / total[..., None])
            out = out + self.strange_values(s, v)
        return (rounded(out, self.dtype).astype(np.float64) if naive else out), lse

    def factor(self, descale, b):
        """The factors on a sequence's rows, by KV head."""
        if descale is None:
            return 1.0
        return np.broadcast_to(descale, (self.batch, self.kv_heads))[b, :, None, None].astype(np.float64)

    def strange_values(self, s, v):
        """What values that are not finite add to the outputs of the rows that see them."""
        added = np.zeros((*s.shape[:2], v.shape[2]))
        for j in np.flatnonzero(~np.isfinite(v).all(axis=(0, 2))):
            strange = np.where(np.isfinite(v[:, j]), 0.0, v[:, j])[:, None, :]
            added += np.where((s[..., j] != -np.inf)[..., None], strange, 0.0)
        return added

    def judge(self, out, lse):
        """Raises unless `out` and `lse` (`[heads, tokens, …]` of each sequence) are near enough."""
        expected, naive = self.expected(), self.expected(naive=True)
        want = np.concatenate([o.ravel() for o, _ in expected])
        plain = np.concatenate([o.ravel() for o, _ in naive])
        got = np.concatenate([np.asarray(o, np.float64).ravel() for o in out])
        # NaN is right where the definition gives infinity: a probability may be too small for the engine.
        fits = np.isnan(got) | (got == want)
        assert fits[~np.isfinite(want)].all(), f"{self.case['name']}: finite where it must not be"
        with np.errstate(invalid="ignore"):
            errors = np.abs(plain - want), np.abs(got - want)
        bound = 2 * errors[0][np.isfinite(errors[0])].max(initial=0) + 1e-5
        error = errors[1][np.isfinite(want)].max(initial=0)
        assert error <= bound, f"{self.case['name']}: max error {error:.2e}, {bound:.2e} is allowed"
        want = np.concatenate([x.ravel() for _, x in expected])
        got = np.concatenate([np.asarray(x, np.float64).ravel() for x in lse])
        same = np.isclose(got, want, atol=1e-4, rtol=1e-6, equal_nan=True)
        assert same.all(), f"{self.case['name']}: lse {got[~same][:3]} instead of {want[~same][:3]}"


def offsets(lengths):
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)

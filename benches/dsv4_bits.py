"""Bits of gathered kernels on one GPU: `python benches/dsv4.py --bits 10000`.

For each way in which rows are gathered:

- the result agrees with the CPU's on the same bytes;
- the same call gives the same bits in every one of many runs;
- a graph captured at the largest lengths, replayed with shorter ones and with padding rows, gives the bits of a call
  with those lengths.
"""

import torch

from h200 import DEVICE
from sixwarp import dsv4
from sixwarp.flash_mla import flash_mla_sparse_fwd, flash_mla_with_kvcache

# Name, bytes of a row, whether scales are in V4.1's rows, heads, requests, tokens of each, entries of both lists.
DECODES = [
    ("MODEL1 h64 b1", 584, False, 64, 1, 1, (128, 512)),
    ("MODEL1 h64 b128", 584, False, 64, 128, 1, (128, 512)),
    ("MODEL1 h8 b16 two tokens", 584, False, 8, 16, 2, (128, 512)),
    ("MODEL1 h128 b8", 584, False, 128, 8, 1, (128, 1024)),
    ("MODEL1 h128 b64", 584, False, 128, 64, 1, (128, 1024)),
    ("MODEL1 window h64 b32", 584, False, 64, 32, 1, (128,)),
    ("V3.2 h128 b4", 656, False, 128, 4, 2, (2048,)),
    ("V3.2 h16 b64", 656, False, 16, 64, 1, (512,)),
    ("V4.1 fp8 h64 b4", 528, False, 64, 4, 1, (128, 512)),
    ("V4.1 fp8 in rows h64 b64", 528, True, 64, 64, 1, (128, 512)),
    ("V4.1 fp4 h64 b4", 288, False, 64, 4, 1, (128, 512)),
    ("V4.1 fp4 in rows h64 b64", 288, True, 64, 64, 1, (128, 512)),
    ("bf16 h64 b1", 1024, False, 64, 1, 1, (128, 512)),
    ("bf16 h128 b32", 1024, False, 128, 32, 1, (128, 1024)),
]
PAGE = 64
ROWS = 4096


def numbers(shape, low, high):
    return torch.randint(low, high, shape, dtype=torch.uint8, device=DEVICE)


def signed(shape):
    """Bytes of e4m3 numbers up to 3.5, of both signs."""
    return numbers(shape, 0, 0x47) | (numbers(shape, 0, 2) << 7)


def floats(shape, width):
    """Numbers between 0.5 and 1.5, or of both signs, as bytes of their rows."""
    x = torch.rand(shape, device=DEVICE) + 0.5 if width == 4 else torch.randn(shape, device=DEVICE).bfloat16()
    return x.view(torch.uint8)


def rows(row_bytes):
    """The bytes of ROWS random rows: numbers and scales apart."""
    if row_bytes == 584:
        tail = floats((ROWS, 64), 2)
        return torch.cat([signed((ROWS, 448)), tail], 1), numbers((ROWS, 8), 124, 128)
    if row_bytes == 656:
        return torch.cat([signed((ROWS, 512)), floats((ROWS, 4), 4), floats((ROWS, 64), 2)], 1), None
    if row_bytes == 528:
        return signed((ROWS, 512)), numbers((ROWS, 16), 124, 128)
    return numbers((ROWS, 256), 0, 256), numbers((ROWS, 32), 0x28, 0x38)


def pages(row_bytes, inline):
    """ROWS random rows in pages, as a serving engine views them."""
    if row_bytes == 1024:
        return torch.randn(ROWS // PAGE, PAGE, 1, dsv4.DIM, device=DEVICE, dtype=torch.bfloat16)
    data, scales = rows(row_bytes)
    if scales is not None and inline:
        data, scales = torch.cat([data, scales], 1), None
    parts = [part.view(ROWS // PAGE, -1) for part in (data, scales) if part is not None]
    whole = torch.cat(parts, 1)
    stride = dsv4.page_bytes(PAGE) if row_bytes == 584 else PAGE * row_bytes
    padded = torch.zeros(len(whole), stride, dtype=torch.uint8, device=DEVICE)
    padded[:, : whole.shape[1]] = whole
    return padded[:, : PAGE * row_bytes].unflatten(1, (PAGE, 1, row_bytes))


class Decode:
    """A decode call whose lists and lengths are on the device."""

    def __init__(self, row_bytes, inline, heads, requests, tokens, widths):
        dim = 576 if row_bytes == 656 else dsv4.DIM
        self.q = torch.randn(requests, tokens, heads, dim, device=DEVICE, dtype=torch.bfloat16)
        self.sinks = torch.randn(heads, device=DEVICE)
        self.packed, self.inline = row_bytes != 1024, inline
        self.caches = [pages(row_bytes, inline) for _ in widths]
        shape = (requests, tokens)
        self.lists = [torch.randint(-1, ROWS, (*shape, n), device=DEVICE, dtype=torch.int32) for n in widths]
        self.lengths = [torch.full((requests,), n, device=DEVICE, dtype=torch.int32) for n in widths]

    def __call__(self, device=DEVICE):
        q, sinks, *rest = (x.to(device) for x in (self.q, self.sinks, *self.caches, *self.lists, *self.lengths))
        n = len(self.caches)
        caches, lists, lengths = rest[:n], rest[n : 2 * n], rest[2 * n :]
        extra = {}
        if n > 1:
            extra = dict(extra_k_cache=caches[1], extra_indices_in_kvcache=lists[1], extra_topk_length=lengths[1])
        return flash_mla_with_kvcache(
            q, caches[0], None, None, dsv4.DIM, None, is_fp8_kvcache=self.packed, indices=lists[0], attn_sink=sinks,
            topk_length=lengths[0], use_legacy=not self.inline, **extra,
        )  # fmt: skip

    def shorten(self):
        """Other lengths, one request without rows, and one whose lists name none."""
        for lists, lengths in zip(self.lists, self.lengths):
            lengths.copy_(torch.randint(0, lists.shape[-1] + 1, lengths.shape, device=DEVICE))
            lengths[-1] = 0
            lists[0] = -1


class Prefill:
    """A prefill call by lists of bf16 rows."""

    def __init__(self, heads, dim, tokens, width):
        self.q = torch.randn(tokens, heads, dim, device=DEVICE, dtype=torch.bfloat16)
        self.kv = torch.randn(ROWS, 1, dim, device=DEVICE, dtype=torch.bfloat16)
        self.lists = torch.randint(-1, ROWS, (tokens, 1, width), device=DEVICE, dtype=torch.int32)
        self.lengths = torch.full((tokens,), width, device=DEVICE, dtype=torch.int32)

    def __call__(self, device=DEVICE):
        q, kv, lists, lengths = (x.to(device) for x in (self.q, self.kv, self.lists, self.lengths))
        out, _, lse = flash_mla_sparse_fwd(q, kv, lists, 0.05, topk_length=lengths, need_max_logits=False)
        return out, lse

    def shorten(self):
        """Other lengths, one token without rows, and one whose list names none."""
        self.lengths.copy_(torch.randint(0, self.lists.shape[-1] + 1, self.lengths.shape, device=DEVICE))
        self.lengths[-1] = 0
        self.lists[0] = -1


def agrees(call):
    """Whether the GPU's result is the CPU's, but for rounding."""
    (out, lse), (wanted, wanted_lse) = call(), call("cpu")
    torch.testing.assert_close(out.cpu(), wanted, atol=2e-2, rtol=2e-2)
    torch.testing.assert_close(lse.cpu(), wanted_lse, atol=1e-4, rtol=1e-4)


class Captured:
    """A call in a graph that counts results whose bits are not the first ones."""

    def __init__(self, call):
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            self.first = [x.clone() for x in call()]
        torch.cuda.current_stream().wait_stream(stream)
        self.differ = torch.zeros((), device=DEVICE, dtype=torch.int64)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.results = call()
            for result, first in zip(self.results, self.first):
                self.differ += (bits(result) != bits(first)).any()

    def count(self, runs):
        """How many of `runs` runs gave other bits."""
        self.differ.zero_()
        for _ in range(runs):
            self.graph.replay()
        return int(self.differ)


def bits(x):
    return x.contiguous().view(torch.int16 if x.element_size() == 2 else torch.int32)


def examine(name, call, runs):
    """One line; True if everything held."""
    agrees(call)
    captured = Captured(call)
    differ = captured.count(runs)
    call.shorten()
    captured.graph.replay()
    wanted = call()
    torch.cuda.synchronize()
    same = all(torch.equal(bits(a), bits(b)) for a, b in zip(captured.results, wanted))
    agrees(call)
    print(f"{name:32s} {differ} of {runs} runs differ; shorter replay {'equal' if same else 'DIFFERS'}", flush=True)
    return differ == 0 and same


def run(runs, only):
    """Every kernel; the exit code."""
    torch.manual_seed(1)
    calls = [(name, lambda row=row: Decode(*row)) for name, *row in DECODES]
    for heads, dim, width in ((64, 512, 640), (128, 512, 1152), (128, 576, 512)):
        calls.append((f"prefill bf16 h{heads} d{dim}", lambda h=heads, d=dim, w=width: Prefill(h, d, 64, w)))
    good = True
    with torch.inference_mode():
        for name, make in calls:
            if name.startswith(only):
                good &= examine(name, make(), runs)
                torch.cuda.empty_cache()
    print("all equal" if good else "NOT all equal")
    return 0 if good else 1

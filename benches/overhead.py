"""What a call costs the host on a GPU, and what of it is the driver's launch.

    python benches/overhead.py [--json FILE]

Calls are made in bursts that the stream takes without waiting; the least mean of a burst counts. A bare launch is
`cuLaunchKernelEx` of a kernel that returns at once, called through `ctypes`, less the time `ctypes` needs for a call
that does nothing.
"""

import argparse
import ctypes
import json
import time

import torch

import sixwarp
import sixwarp.torch
from sixwarp import _quick

BURST, ROUNDS = 100, 40
PTX = b"""
.version 8.0
.target sm_90
.address_size 64
.visible .entry none() { ret; }
.visible .entry words(.param .u64 a, .param .u64 b, .param .u64 c, .param .u64 d) { ret; }
.visible .entry maps(.param .align 64 .b8 a[128], .param .align 64 .b8 b[128], .param .align 64 .b8 c[128],
                     .param .align 64 .b8 d[128], .param .u64 e, .param .u64 f, .param .u32 g, .param .u32 h) { ret; }
"""


def microseconds(call):
    best = float("inf")
    for _ in range(ROUNDS):
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(BURST):
            call()
        best = min(best, (time.perf_counter() - start) / BURST)
    torch.cuda.synchronize()
    return best * 1e6


class Attribute(ctypes.Structure):
    """`CUlaunchAttribute`."""

    _fields_ = [("id", ctypes.c_int), ("pad", ctypes.c_char * 4), ("value", ctypes.c_uint * 16)]


class Config(ctypes.Structure):
    """`CUlaunchConfig`."""

    _fields_ = [
        ("grid", ctypes.c_uint * 3), ("block", ctypes.c_uint * 3), ("shared", ctypes.c_uint),
        ("stream", ctypes.c_void_p), ("attributes", ctypes.POINTER(Attribute)), ("count", ctypes.c_uint),
    ]  # fmt: skip


OVERLAP, CLUSTER = Attribute(6, b"", (ctypes.c_uint * 16)(1)), Attribute(4, b"", (ctypes.c_uint * 16)(2, 1, 1))


class Driver:
    """Bare launches."""

    def __init__(self):
        torch.zeros(1, device="cuda")
        self.cuda = ctypes.CDLL("libcuda.so.1")
        self.module = ctypes.c_void_p()
        self.checked(self.cuda.cuModuleLoadData(ctypes.byref(self.module), PTX + b"\0"))
        self.launch = self.cuda.cuLaunchKernelEx
        self.launch.argtypes = [ctypes.c_void_p] * 4
        self.nothing = self.cuda.cuDriverGetVersion
        self.nothing.argtypes = [ctypes.c_void_p]
        version = ctypes.c_int()
        address = ctypes.addressof(version)
        self.empty = microseconds(lambda: self.nothing(address))

    @staticmethod
    def checked(code):
        if code:
            raise RuntimeError(f"the driver says {code}")

    def measure(self, kernel, sizes, attributes=(), packed=False):
        """Microseconds of a launch with parameters of these sizes, as pointers or as one block of bytes."""
        function = ctypes.c_void_p()
        self.checked(self.cuda.cuModuleGetFunction(ctypes.byref(function), self.module, kernel))
        array = (Attribute * len(attributes))(*attributes)
        stream = torch.cuda.current_stream().cuda_stream
        config = Config((2, 1, 1), (128, 1, 1), 0, stream, array, len(attributes))
        bytes_ = ctypes.create_string_buffer(sum(sizes) + 64)
        length = ctypes.c_size_t(sum(sizes))
        values = [ctypes.create_string_buffer(size) for size in sizes]
        pointers = (ctypes.c_void_p * max(len(sizes), 1))(*(ctypes.addressof(value) for value in values))
        extra = (ctypes.c_void_p * 5)(1, ctypes.addressof(bytes_), 2, ctypes.addressof(length), 0)
        one, two = (0, ctypes.addressof(extra)) if packed else (ctypes.addressof(pointers), 0)
        at = ctypes.addressof(config)
        self.checked(self.launch(at, function.value, one, two))
        return microseconds(lambda: self.launch(at, function.value, one, two)) - self.empty


def launches():
    driver, maps = Driver(), [128] * 4 + [8, 8, 4, 4]
    return {
        "no parameters": driver.measure(b"none", []),
        "4 words": driver.measure(b"words", [8] * 4),
        "4 tensor maps, 4 words": driver.measure(b"maps", maps),
        "the same in one block": driver.measure(b"maps", maps, packed=True),
        "the same, overlapping": driver.measure(b"maps", maps, [OVERLAP]),
        "the same in one block, overlapping": driver.measure(b"maps", maps, [OVERLAP], packed=True),
        "the same, in clusters of 2": driver.measure(b"maps", maps, [CLUSTER]),
        "the same, in clusters of 2, overlapping": driver.measure(b"maps", maps, [CLUSTER, OVERLAP]),
        "cuDriverGetVersion through ctypes (subtracted)": driver.empty,
    }


def calls():
    """Calls on a shape whose kernel is short: 8 heads, one query, 64 keys."""
    q, k, v = (torch.randn(1, n, 8, 64, device="cuda", dtype=torch.bfloat16) for n in (1, 64, 64))
    plan, out = sixwarp.plan(q, k, v), torch.empty_like(q)
    others = [torch.empty_like(q) for _ in range(7)]
    turn = iter(range(10**9))
    theirs = torch.nn.functional.scaled_dot_product_attention
    bhsd = [x.transpose(1, 2) for x in (q, k, v)]
    compiled = torch.ops.sixwarp.attention.default
    nones = (None,) * 5
    rest = ("bshd", False, None, None, None, None, None, None, None)
    return {
        "plan(q, k, v, out=out)": microseconds(lambda: plan(q, k, v, out=out)),
        "plan(q, k, v, out=one of 7)": microseconds(lambda: plan(q, k, v, out=others[next(turn) % 7])),
        "plan(q, k, v)": microseconds(lambda: plan(q, k, v)),
        "attention(q, k, v, out=out)": microseconds(lambda: sixwarp.attention(q, k, v, out=out)),
        "attention(q, k, v)": microseconds(lambda: sixwarp.attention(q, k, v)),
        "torch.ops.sixwarp.attention": microseconds(lambda: compiled(q, k, v, *nones, *rest)),
        "sixwarp.torch.attention": microseconds(lambda: sixwarp.torch.attention(q, k, v)),
        "torch's scaled_dot_product_attention": microseconds(lambda: theirs(*bhsd)),
        "torch.empty_like (part of the calls without out)": microseconds(lambda: torch.empty_like(q)),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json")
    args = parser.parse_args()
    torch.set_grad_enabled(False)
    measured = calls()
    quick = _quick.attention is not _quick.unknown
    result = {
        "date": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
        "gpu": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "sixwarp": sixwarp.__version__,
        "way": "DLPack's exchange interface" if quick else "ctypes: this torch lends no tensors",
        "calls_us": measured,
        "launches_us": launches(),
    }
    print(f"{result['gpu']}, torch {result['torch']}, by {result['way']}")
    for part in ("calls_us", "launches_us"):
        for name, value in result[part].items():
            print(f"{value:7.2f} us  {name}")
    if args.json:
        with open(args.json, "w", encoding="utf-8") as file:
            json.dump(result, file, indent=1)


if __name__ == "__main__":
    main()

"""What a call costs the host, and on a GPU what of it is the driver's launch.

    python benches/overhead.py [--json FILE]

Calls are made in bursts that the stream takes without waiting; the least mean of a burst counts. A bare launch is
`cuLaunchKernelEx` of a kernel that returns at once, called through `ctypes`, less the time `ctypes` needs for a call
that does nothing. Without a GPU, calls on one thread of the CPU are measured, with one query and one key.
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
GPU = torch.cuda.is_available()
PTX = b"""
.version 8.0
.target sm_90
.address_size 64
.visible .entry none() { ret; }
.visible .entry words(.param .u64 a, .param .u64 b, .param .u64 c, .param .u64 d) { ret; }
.visible .entry maps(.param .align 64 .b8 a[128], .param .align 64 .b8 b[128], .param .align 64 .b8 c[128],
                     .param .align 64 .b8 d[128], .param .u64 e, .param .u64 f, .param .u32 g, .param .u32 h) { ret; }
"""


def synchronize():
    if GPU:
        torch.cuda.synchronize()


def microseconds(call):
    best = float("inf")
    for _ in range(ROUNDS):
        synchronize()
        start = time.perf_counter()
        for _ in range(BURST):
            call()
        best = min(best, (time.perf_counter() - start) / BURST)
    synchronize()
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


def tensors():
    """Queries, keys and values that take next to no time: on a GPU 8 heads, one query, 64 keys."""
    if GPU:
        return [torch.randn(1, n, 8, 64, device="cuda", dtype=torch.bfloat16) for n in (1, 64, 64)]
    torch.set_num_threads(1)
    return [torch.randn(1, 1, 1, 8) for _ in range(3)]


def calls():
    q, k, v = tensors()
    plan, out = sixwarp.plan(q, k, v), torch.empty_like(q)
    others = [torch.empty_like(q) for _ in range(7)]
    turn = iter(range(10**9))
    theirs = torch.nn.functional.scaled_dot_product_attention
    bhsd = [x.transpose(1, 2) for x in (q, k, v)]
    lengths = torch.full((1,), k.shape[1], dtype=torch.int32, device=q.device)
    ours, operator = sixwarp.torch, torch.ops.sixwarp.attention.default
    rest = (*[None] * 8, "bshd", False, *[None] * 8)
    measured = {
        "plan(q, k, v, out=out)": lambda: plan(q, k, v, out=out),
        "plan(q, k, v, out=one of 7)": lambda: plan(q, k, v, out=others[next(turn) % 7]),
        "plan(q, k, v)": lambda: plan(q, k, v),
        "attention(q, k, v, out=out)": lambda: sixwarp.attention(q, k, v, out=out),
        "attention(q, k, v)": lambda: sixwarp.attention(q, k, v),
        "sixwarp.torch.attention": lambda: ours.attention(q, k, v),
        "sixwarp.torch.sdpa": lambda: ours.sdpa(*bhsd),
        "sixwarp.torch.flash_attn_func": lambda: ours.flash_attn_func(q, k, v),
        "sixwarp.torch.flash_attn_with_kvcache": lambda: ours.flash_attn_with_kvcache(q, k, v, cache_seqlens=lengths),
        "torch.ops.sixwarp.attention, called by name": lambda: operator(q, k, v, *rest),
        "torch's scaled_dot_product_attention": lambda: theirs(*bhsd),
        "torch.empty_like (part of the calls without out)": lambda: torch.empty_like(q),
    }
    return {name: microseconds(call) for name, call in measured.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json")
    args = parser.parse_args()
    torch.set_grad_enabled(False)
    measured = calls()
    quick = _quick.attention is not _quick.unknown
    result = {
        "date": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
        "device": torch.cuda.get_device_name() if GPU else "the CPU",
        "torch": torch.__version__,
        "sixwarp": sixwarp.__version__,
        "way": "DLPack's exchange interface" if quick else "ctypes: this torch lends no tensors",
        "calls_us": measured,
        "launches_us": launches() if GPU else {},
    }
    print(f"{result['device']}, torch {result['torch']}, by {result['way']}")
    for part in ("calls_us", "launches_us"):
        for name, value in result[part].items():
            print(f"{value:7.2f} us  {name}")
    if args.json:
        with open(args.json, "w", encoding="utf-8") as file:
            json.dump(result, file, indent=1)


if __name__ == "__main__":
    main()

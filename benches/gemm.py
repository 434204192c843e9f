"""The workshop's GEMM beside cuBLAS (`torch.matmul`), in one process on one GPU.

    cargo run --release -p sixwarp-workshop --example gemm -- --write target/gemm --size 8192 8192 8192
    python3 benches/gemm.py target/gemm

The first command assembles every variant and needs no GPU. The second one needs torch and the driver only.
Inputs are normal random numbers. Each result is checked: 256 rows against a product in f64, all of it against
cuBLAS. Then all contestants take turns, some launches each by a CUDA graph, so that clocks and heat are the same
for all; times are medians over the turns.
"""

import argparse
import ctypes
import json
import pathlib
import statistics
import sys

import torch

BF16, SWIZZLE_128B, CLUSTER_DIMENSION, MAX_DYNAMIC_SHARED = 9, 3, 4, 8
CHECKED_ROWS = 256


class Driver:
    """The few functions of libcuda that a launch takes."""

    def __init__(self):
        self.library = ctypes.CDLL("libcuda.so.1")

    def call(self, name, *arguments):
        code = getattr(self.library, name)(*arguments)
        if code != 0:
            text = ctypes.c_char_p()
            self.library.cuGetErrorString(code, ctypes.byref(text))
            raise RuntimeError(f"{name}: {text.value.decode() if text.value else code}")

    def function(self, cubin, name, shared):
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        self.call("cuModuleLoadData", ctypes.byref(module), cubin)
        self.call("cuModuleGetFunction", ctypes.byref(function), module, name.encode())
        self.call("cuFuncSetAttribute", function, MAX_DYNAMIC_SHARED, ctypes.c_int(shared))
        return function

    def tensor_map(self, fields, tensors):
        memory = (ctypes.c_uint8 * 192)()
        start = -ctypes.addressof(memory) % 64
        place = (ctypes.c_uint8 * 128).from_buffer(memory, start)
        rank = len(fields["dims"])
        self.call(
            "cuTensorMapEncodeTiled", place, BF16, rank,
            ctypes.c_void_p(tensors[fields["buffer"]].data_ptr()),
            (ctypes.c_uint64 * rank)(*fields["dims"]), (ctypes.c_uint64 * (rank - 1))(*fields["strides"]),
            (ctypes.c_uint32 * rank)(*fields["box"]), (ctypes.c_uint32 * rank)(*[1] * rank),
            0, SWIZZLE_128B, fields["promotion"], 0,
        )
        return place


class LaunchAttribute(ctypes.Structure):
    _fields_ = [("id", ctypes.c_uint32), ("pad", ctypes.c_uint32), ("value", ctypes.c_uint32 * 16)]


class LaunchConfig(ctypes.Structure):
    _fields_ = [
        ("grid", ctypes.c_uint32 * 3), ("block", ctypes.c_uint32 * 3), ("shared", ctypes.c_uint32),
        ("stream", ctypes.c_void_p), ("attributes", ctypes.POINTER(LaunchAttribute)), ("count", ctypes.c_uint32),
    ]


class Kernel:
    """One variant, bound to its tensors."""

    def __init__(self, driver, folder, variant, tensors):
        self.driver, self.name = driver, variant["name"]
        cubin = (folder / variant["file"]).read_bytes()
        self.function = driver.function(cubin, variant["kernel"], variant["shared"])
        values = [
            driver.tensor_map(value, tensors) if isinstance(value, dict) else ctypes.c_uint32(value)
            for value in variant["args"]
        ]
        self.values = values
        self.params = (ctypes.c_void_p * len(values))(*[ctypes.addressof(value) for value in values])
        self.cluster = LaunchAttribute(CLUSTER_DIMENSION, 0, (ctypes.c_uint32 * 16)(*variant["cluster"]))
        three = ctypes.c_uint32 * 3
        self.config = LaunchConfig(
            three(*variant["grid"]), three(*variant["block"]), variant["shared"], None,
            ctypes.pointer(self.cluster), 1,
        )

    def __call__(self):
        self.config.stream = torch.cuda.current_stream().cuda_stream
        self.driver.call("cuLaunchKernelEx", ctypes.byref(self.config), self.function, self.params, None)


def check(name, a, b, c, cublas):
    """Compares `c` with a product in f64, and with what cuBLAS gave."""
    rows = torch.randint(0, a.shape[0], (CHECKED_ROWS,), device=a.device)
    exact = a[rows].double() @ b.double().T
    # Sums of k products of normal numbers are about the square root of k.
    size = a.shape[1] ** 0.5
    error = ((c[rows].double() - exact).abs() / (exact.abs() + size)).max().item()
    apart = ((c.float() - cublas.float()).abs() / (cublas.float().abs() + size)).max().item()
    # A bf16 number is within 2^-9 of what it was rounded from.
    right = error < 2**-8 and apart < 2**-7 and not c.isnan().any()
    print(f"{'ok  ' if right else 'FAIL'} {name:14} largest error {error:.2e}, from cuBLAS {apart:.2e}", flush=True)
    return right


def graph_of(work, launches):
    work()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(launches):
            work()
    return graph


def measure(contestants, turns, launches):
    graphs = {name: graph_of(work, launches) for name, work in contestants.items()}
    times = {name: [] for name in contestants}
    for turn in range(turns + 3):
        for name, graph in graphs.items():
            start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            start.record()
            graph.replay()
            end.record()
            end.synchronize()
            if turn >= 3:
                times[name].append(start.elapsed_time(end) * 1e3 / launches)
    return {name: statistics.median(values) for name, values in times.items()}


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("folder", type=pathlib.Path)
    arguments.add_argument("--turns", type=int, default=30)
    arguments.add_argument("--launches", type=int, default=5)
    given = arguments.parse_args()
    plan = json.loads((given.folder / "gemm.json").read_text())
    m, n, k = plan["shape"]
    torch.manual_seed(0)
    a, b = (torch.randn(rows, k, device="cuda").bfloat16() for rows in (m, n))
    c = torch.full((m, n), float("nan"), device="cuda", dtype=torch.bfloat16)
    out, straight = torch.empty_like(c), b.T.contiguous()
    cublas = a @ b.T
    driver = Driver()
    kernels = [Kernel(driver, given.folder, variant, [a, b, c]) for variant in plan["variants"]]
    right = True
    for kernel in kernels:
        c.fill_(float("nan"))
        kernel()
        torch.cuda.synchronize()
        right &= check(kernel.name, a, b, c, cublas)
    contestants = {
        "cuBLAS": lambda: torch.matmul(a, b.T, out=out),
        "cuBLAS, B k x n": lambda: torch.matmul(a, straight, out=out),
        **{kernel.name: kernel for kernel in kernels},
    }
    times = measure(contestants, given.turns, given.launches)
    print(f"\n{torch.cuda.get_device_name()}, torch {torch.__version__}, {m} x {n} x {k} bf16, {given.turns} turns")
    for name, time in times.items():
        rate, ratio = 2 * m * n * k / time / 1e6, times["cuBLAS"] / time
        print(f"{name:16} {time:8.1f} us {rate:6.0f} TFLOP/s {ratio:6.3f} of cuBLAS", flush=True)
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())

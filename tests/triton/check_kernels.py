"""Small Triton kernels, launched as any program launches them: `sixwarp check -- python check_kernels.py`.

Four compute what they should. With `--racy` a fifth is launched, in which programs of a grid add to one number without
an atomic operation. There is no torch here and no numpy: memory comes from the CUDA driver itself.
"""

import ctypes
import math
import sys

import triton
import triton.language as tl

cuda = ctypes.CDLL("libcuda.so.1")
CTYPES = {"fp32": ctypes.c_float, "fp16": ctypes.c_uint16}


def call(name, *arguments):
    result = getattr(cuda, name)(*arguments)
    assert result == 0, f"{name}: error {result}"


def make_current():
    """Makes the device's context current, which memory needs. Triton does it with its first launch."""
    call("cuInit", ctypes.c_uint(0))
    device, context = ctypes.c_int(), ctypes.c_void_p()
    call("cuDeviceGet", ctypes.byref(device), ctypes.c_int(0))
    call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
    call("cuCtxSetCurrent", context)


class Array:
    """Numbers on the device."""

    def __init__(self, numbers, dtype="fp32"):
        self.dtype, self.length = dtype, len(numbers)
        self.address = ctypes.c_uint64()
        host = (CTYPES[dtype] * self.length)(*numbers)
        call("cuMemAlloc_v2", ctypes.byref(self.address), ctypes.c_size_t(ctypes.sizeof(host)))
        call("cuMemcpyHtoD_v2", self.address, host, ctypes.c_size_t(ctypes.sizeof(host)))

    def data_ptr(self):
        return self.address.value

    def numbers(self):
        host = (CTYPES[self.dtype] * self.length)()
        call("cuMemcpyDtoH_v2", host, self.address, ctypes.c_size_t(ctypes.sizeof(host)))
        return list(host)


def close(found, expected, tolerance=1e-4):
    worst = max(abs(a - b) for a, b in zip(found, expected, strict=True))
    assert worst < tolerance, f"off by {worst}"


@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < n
    tl.store(out + i, tl.load(x + i, mask=inside) + tl.load(y + i, mask=inside), mask=inside)


@triton.jit
def softmax(x, out, columns, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    row = tl.program_id(0) * columns
    scores = tl.load(x + row + i, mask=i < columns, other=-float("inf"))
    exponentials = tl.exp(scores - tl.max(scores, axis=0))
    tl.store(out + row + i, exponentials / tl.sum(exponentials, axis=0), mask=i < columns)


@triton.jit
def layer_norm(x, weight, out, columns, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    row = tl.program_id(0) * columns
    values = tl.load(x + row + i, mask=i < columns, other=0.0)
    mean = tl.sum(values, axis=0) / columns
    centred = tl.where(i < columns, values - mean, 0.0)
    scale = tl.rsqrt(tl.sum(centred * centred, axis=0) / columns + 1e-5)
    tl.store(out + row + i, centred * scale * tl.load(weight + i, mask=i < columns), mask=i < columns)


@triton.jit
def matmul(a, b, out, K, M: tl.constexpr, N: tl.constexpr, STEP: tl.constexpr):
    i, j, k = tl.arange(0, M)[:, None], tl.arange(0, N)[None, :], tl.arange(0, STEP)
    total = tl.zeros((M, N), dtype=tl.float32)
    for start in range(0, K, STEP):
        left = tl.load(a + i * K + (start + k)[None, :])
        right = tl.load(b + (start + k)[:, None] * N + j)
        total = tl.dot(left, right, total)
    tl.store(out + i * N + j, total)


@triton.jit
def racy_sum(x, out, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    part = tl.sum(tl.load(x + i), axis=0)
    tl.store(out, tl.load(out) + part)


def half(number):
    """The bits of a half-precision number that is a small multiple of 1/8."""
    return int.from_bytes(__import__("struct").pack("<e", number), "little")


def run_rows():
    rows, columns = 3, 50
    x = [math.sin(7 * i) for i in range(rows * columns)]
    weight = [1 + i / 100 for i in range(columns)]
    soft, norm = Array([0] * len(x)), Array([0] * len(x))
    softmax[(rows,)](Array(x), soft, columns, BLOCK=64)
    layer_norm[(rows,)](Array(x), Array(weight), norm, columns, BLOCK=64)
    for row in range(rows):
        values = x[row * columns:(row + 1) * columns]
        exponentials = [math.exp(value) for value in values]
        expected = [value / sum(exponentials) for value in exponentials]
        close(soft.numbers()[row * columns:(row + 1) * columns], expected)
        mean = sum(values) / columns
        deviation = math.sqrt(sum((value - mean) ** 2 for value in values) / columns + 1e-5)
        expected = [(value - mean) / deviation * w for value, w in zip(values, weight)]
        close(norm.numbers()[row * columns:(row + 1) * columns], expected)


def run_matmul():
    m, n, k = 64, 32, 64
    a = [(i * 5 % 17 - 8) / 8 for i in range(m * k)]
    b = [(i * 3 % 13 - 6) / 8 for i in range(k * n)]
    out = Array([0] * (m * n))
    left, right = Array(map_list(half, a), "fp16"), Array(map_list(half, b), "fp16")
    matmul[(1,)](left, right, out, k, M=m, N=n, STEP=32)
    close(out.numbers(), [sum(a[i * k + s] * b[s * n + j] for s in range(k)) for i in range(m) for j in range(n)])


def map_list(function, numbers):
    return [function(number) for number in numbers]


def main():
    make_current()
    n = 300
    x, y = [i / 8 for i in range(n)], [n - i for i in range(n)]
    out = Array([0] * n)
    add[(triton.cdiv(n, 128),)](Array(x), Array(y), out, n, BLOCK=128)
    close(out.numbers(), [a + b for a, b in zip(x, y)])
    run_rows()
    run_matmul()
    if "--racy" in sys.argv:
        racy_sum[(4,)](Array([1] * 256), Array([0]), BLOCK=64, num_warps=1)
        call("cuCtxSynchronize")
    print("all right")


if __name__ == "__main__":
    main()

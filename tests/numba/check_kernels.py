"""Kernels of numba-cuda, launched as any program launches them: `sixwarp check -- python check_kernels.py`.

Three compute what they should. With `--racy` a fourth is launched, which reads shared memory without a barrier behind the
writes. A kernel that NVRTC has compiled is launched too, through cuda.core. `cargo xtask numba` runs both.
"""

import math
import sys
import warnings

import numpy as np
from cuda.bindings import driver
from cuda.core import Device, LaunchConfig, Program, ProgramOptions, launch
from numba import cuda, float32

warnings.simplefilter("ignore")  # Small grids make numba warn.

SOURCE = """extern "C" __global__ void scale(float factor, float *x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] *= factor;
}"""


@cuda.jit
def saxpy(a, x, y):
    i = cuda.grid(1)
    if i < y.size:
        y[i] = a * x[i] + y[i]


@cuda.jit
def functions(x, y):
    i = cuda.grid(1)
    if i < x.size:
        y[i] = math.sin(x[i]) + math.sqrt(x[i])


@cuda.jit(lineinfo=True)
def total(x, out):
    tile = cuda.shared.array(128, float32)
    t, i = cuda.threadIdx.x, cuda.grid(1)
    tile[t] = x[i] if i < x.size else 0
    cuda.syncthreads()
    step = 64
    while step > 0:
        if t < step:
            tile[t] += tile[t + step]
        cuda.syncthreads()
        step //= 2
    if t == 0:
        cuda.atomic.add(out, 0, tile[0])


@cuda.jit(lineinfo=True)
def reverse(x, out):
    tile = cuda.shared.array(128, float32)
    t = cuda.threadIdx.x
    tile[t] = x[t]
    out[t] = tile[127 - t]


def nvrtc(x):
    """Doubles numbers with a kernel from C++."""
    device = Device()
    device.set_current()
    stream = device.create_stream()
    program = Program(SOURCE, "c++", ProgramOptions(std="c++17", arch=f"sm_{device.arch}"))
    kernel = program.compile("ptx").get_kernel("scale")
    memory = device.allocate(x.nbytes, stream=stream)
    address, out = int(memory.handle), np.empty_like(x)
    driver.cuMemcpyHtoD(address, x.ctypes.data, x.nbytes)
    launch(stream, LaunchConfig(grid=8, block=128), kernel, np.float32(2), address, np.int32(x.size))
    stream.sync()
    driver.cuMemcpyDtoH(out.ctypes.data, address, x.nbytes)
    return out


def main():
    x, y = np.arange(1000, dtype=np.float32), np.ones(1000, dtype=np.float32)
    saxpy[8, 128](np.float32(2), x, y)
    assert np.array_equal(y, 2 * x + 1)
    functions[8, 128](x, y)
    assert np.allclose(y, np.sin(x) + np.sqrt(x), atol=1e-4)
    out = cuda.to_device(np.zeros(1, dtype=np.float32))
    total[8, 128](cuda.to_device(x), out)
    assert out.copy_to_host()[0] == x.sum()
    assert np.array_equal(nvrtc(x), 2 * x)
    if "--racy" in sys.argv:
        reverse[1, 128](x, y)
    print("all right")


if __name__ == "__main__":
    main()

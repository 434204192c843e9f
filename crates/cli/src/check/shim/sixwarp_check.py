"""Triton, torch and numba on the simulator: what `sitecustomize` calls when they are imported.

Triton gets a driver object that takes tensors in the memory of the host: they are registered with the stand-in driver
for the time of a launch, which then reads and writes them in place. torch takes `cuda` for the CPU. Nothing that is
timed means anything here, so benchmarks are left out and an autotuner takes the first configuration that runs.
"""

import contextlib
import ctypes
import gc
import math
import os
import sys

BENCHMARKS = os.environ.get("SIXWARP_CHECK_BENCHMARKS", "") not in ("", "0")
ALL_CONFIGURATIONS = os.environ.get("SIXWARP_CHECK_ALL_CONFIGURATIONS", "") not in ("", "0")


class Cuda:
    """The few functions of the driver that are called here."""

    def __init__(self):
        self.library = ctypes.CDLL("libcuda.so.1")
        self.call("cuInit", ctypes.c_uint(0))
        self.context = ctypes.c_void_p()
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(self.context), ctypes.c_int(0))

    def call(self, name, *arguments):
        result = getattr(self.library, name)(*arguments)
        if result != 0:
            text = ctypes.c_char_p()
            self.library.cuGetErrorString(ctypes.c_uint(result), ctypes.byref(text))
            raise RuntimeError(f"{name}: {(text.value or b'unknown error').decode()}")

    def enter(self):
        """Makes the device's context current on this thread."""
        self.call("cuCtxSetCurrent", self.context)

    def attribute(self, number):
        value = ctypes.c_int()
        self.call("cuDeviceGetAttribute", ctypes.byref(value), ctypes.c_uint(number), ctypes.c_int(0))
        return value.value

    def capability(self):
        return self.attribute(75), self.attribute(76)

    def knows(self, pointer):
        """Whether an address is in memory that kernels can reach already."""
        value = ctypes.c_uint64()
        arguments = ctypes.byref(value), ctypes.c_uint(3), ctypes.c_uint64(pointer)
        return self.library.cuPointerGetAttribute(*arguments) == 0

    def register(self, pointer, size):
        self.call("cuMemHostRegister_v2", ctypes.c_void_p(pointer), ctypes.c_size_t(size), ctypes.c_uint(0))

    def unregister(self, pointer):
        self.library.cuMemHostUnregister(ctypes.c_void_p(pointer))

    def synchronize(self):
        self.enter()
        self.call("cuCtxSynchronize")


_cuda = None


def cuda():
    global _cuda
    if _cuda is None:
        _cuda = Cuda()
    return _cuda


# ---------------------------------------------------------------------------------------------------------------------
# Memory of the host


def memory_of(argument):
    """Where the memory behind an argument begins and how many bytes it has, if it is memory of the host."""
    if hasattr(argument, "untyped_storage"):
        if argument.device.type != "cpu":
            return None
        storage = argument.untyped_storage()
        return storage.data_ptr(), storage.nbytes()
    if not hasattr(argument, "data_ptr"):
        return None
    size = getattr(argument, "nbytes", None)
    if size is None and hasattr(argument, "numel") and hasattr(argument, "element_size"):
        size = argument.numel() * argument.element_size()
    return (argument.data_ptr(), size) if isinstance(size, int) else None


def flatten(arguments):
    for argument in arguments:
        if isinstance(argument, (tuple, list)):
            yield from flatten(argument)
        elif hasattr(argument, "base") and hasattr(argument.base, "data_ptr"):
            yield argument.base  # A tensor descriptor.
        else:
            yield argument


def may_hold_addresses(argument):
    return str(getattr(argument, "dtype", "")) in ("torch.int64", "torch.uint64")


def live_tensors():
    """All tensors of the program: a kernel that is given addresses in memory can reach any of them."""
    torch = sys.modules.get("torch")
    if torch is None:
        return []
    # By type: asking some objects of torch for their class makes them warn.
    return [thing for thing in gc.get_objects() if issubclass(type(thing), torch.Tensor) and memory_of(thing)]


class Registered:
    """Registers the memory of tensors until the end of a `with` block."""

    def __init__(self, arguments):
        arguments = list(flatten(arguments))
        if any(may_hold_addresses(argument) for argument in arguments):
            arguments += live_tensors()
        self.arguments = arguments
        self.pointers = {}

    def add(self, argument):
        memory = memory_of(argument)
        if memory is None or memory[0] == 0 or memory[1] == 0 or memory[0] in self.pointers:
            return
        if not cuda().knows(memory[0]):
            cuda().register(*memory)
            self.pointers[memory[0]] = argument

    def __enter__(self):
        cuda().enter()
        try:
            for argument in self.arguments:
                self.add(argument)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for pointer in self.pointers:
            cuda().unregister(pointer)
        self.pointers.clear()


@contextlib.contextmanager
def registered_scratch(registered):
    """Registers what the program's allocator for scratch memory gives during a launch, too."""
    from triton.runtime import _allocation

    variable = getattr(_allocation, "_allocator", None)
    if variable is None or not hasattr(variable, "set"):
        yield
        return
    allocator = variable.get()

    def allocate(*arguments):
        memory = allocator(*arguments)
        registered.add(memory)
        return memory

    token = variable.set(allocate)
    try:
        yield
    finally:
        if token is not None and hasattr(variable, "reset"):
            variable.reset(token)
        else:
            variable.set(allocator)


# ---------------------------------------------------------------------------------------------------------------------
# Triton


class DeviceInterface:
    """What Triton's helpers ask of `torch.cuda`."""

    class Event:
        def __init__(self, *_, **__):
            pass

        def record(self, *_):
            pass

        def synchronize(self):
            pass

        def elapsed_time(self, _):
            return 1.0

    class Stream:
        cuda_stream = 0

        def __init__(self, *_, **__):
            pass

    ExternalStream = Stream

    def synchronize(self, *_):
        cuda().synchronize()

    def current_device(self):
        return 0

    def set_device(self, _):
        pass

    def get_device_capability(self, *_):
        return cuda().capability()

    def default_stream(self, *_):
        return self.Stream()

    current_stream = default_stream

    def stream(self, _):
        return contextlib.nullcontext()

    def set_stream(self, _):
        pass

    def is_available(self):
        return True


def make_driver():
    from triton.backends.nvidia import driver as nvidia

    class Launcher(nvidia.CudaLauncher):
        def __call__(self, grid_x, grid_y, grid_z, stream, function, *arguments):
            with Registered(arguments) as registered, registered_scratch(registered):
                return super().__call__(grid_x, grid_y, grid_z, stream, function, *arguments)

    class Driver(nvidia.CudaDriver):
        def __init__(self):
            cuda().enter()
            self.utils = nvidia.CudaUtils()
            self.launcher_cls = Launcher
            properties = self.utils.get_device_properties
            # A CPU has no number; the simulator is device 0.
            self.utils.get_device_properties = lambda device: properties(device or 0)
            self.get_device_capability = lambda device=0: cuda().capability()
            self.get_current_stream = lambda device=0: 0
            self.get_current_device = self.current_device
            self.set_current_device = lambda device: cuda().enter()

        @staticmethod
        def current_device():
            cuda().enter()
            return 0

        @staticmethod
        def is_active():
            return True

        def get_active_torch_device(self):
            import torch

            return torch.device("cpu")

        def get_device_interface(self):
            return DeviceInterface()

        def get_benchmarker(self):
            return once

        def get_empty_cache_for_benchmark(self):
            import torch

            return torch.empty(1, dtype=torch.int)

    return Driver()


def once(function, *_, quantiles=None, **__):
    """Stands for `do_bench`: one call, and a time that means nothing."""
    function()
    return [1.0] * len(quantiles) if quantiles else 1.0


def leave_out_benchmarks(testing):
    told = []

    def run(self, *_, **__):
        if not told:
            print("sixwarp: benchmarks are left out: a simulator's times mean nothing (--benchmarks runs them)", file=sys.stderr)
            told.append(True)

    testing.Mark.run = run


def take_first_configuration(autotuner):
    """Lets an autotuner stop at the first configuration that can run."""
    prune, bench = autotuner.Autotuner.prune_configs, autotuner.Autotuner._bench

    def prune_configs(self, *arguments, **keywords):
        self._sixwarp_found = False
        return prune(self, *arguments, **keywords)

    def _bench(self, *arguments, **keywords):
        if self._sixwarp_found:
            return [math.inf] * 3
        times = bench(self, *arguments, **keywords)
        first = times[0] if isinstance(times, (list, tuple)) else times
        self._sixwarp_found = math.isfinite(first)
        return times

    autotuner.Autotuner.prune_configs, autotuner.Autotuner._bench = prune_configs, _bench


class Products:
    """Stands for Triton's helper around cuBLAS, whose library is machine code: the same products, by torch."""

    def __init__(self, workspace):
        pass

    def matmul(self, a, b, c):
        c.copy_(a.float() @ b.float().T)

    def gemm(self, a, b, c, d, alpha, beta):
        d.copy_(alpha * (a.float() @ b.float().T) + beta * c.float())

    def __getattr__(self, name):
        raise RuntimeError(f"sixwarp: CublasLt.{name} is machine code of NVIDIA's, which the simulator does not run")


def replace_cublas():
    library = sys.modules.get("triton._C.libtriton")
    cublas = getattr(getattr(library, "nvidia", None), "cublas", None)
    if hasattr(cublas, "CublasLt"):
        cublas.CublasLt = Products


def prepare_triton(triton):
    """Makes the simulator Triton's device."""
    import importlib

    config = importlib.import_module("triton.runtime.driver")
    testing = importlib.import_module("triton.testing")
    autotuner = importlib.import_module("triton.runtime.autotuner")
    # Made when it is first asked for: Triton compiles a C file then.
    config._create_driver = make_driver
    testing.do_bench = once
    testing.do_bench_cudagraph = once
    replace_cublas()
    if not BENCHMARKS:
        leave_out_benchmarks(testing)
    if not ALL_CONFIGURATIONS:
        take_first_configuration(autotuner)
    tools = os.path.join(os.path.dirname(triton.__file__), "backends", "nvidia", "bin")
    blackwell = ["ptxas-blackwell"] if "100" in os.environ.get("SIXWARP_CHECK_DEVICE", "") else []
    for assembler in (os.path.join(tools, name) for name in [*blackwell, "ptxas"]):
        if os.path.isfile(assembler):
            os.environ.setdefault("SIXWARP_CHECK_PTXAS", assembler)


# ---------------------------------------------------------------------------------------------------------------------
# torch


def is_cuda(device):
    return str(device).partition(":")[0] == "cuda" if isinstance(device, str) or hasattr(device, "type") else False


def gpu_arithmetic(torch):
    """Functions that torch computes in another precision, or in another order, on a CPU than on a GPU."""
    halves = (torch.float16, torch.bfloat16)

    def product(a, b):
        """Both matrices, in halves: sums in single precision, in the order of K, and rounded once. So the simulated
        tensor cores sum, too. A product of two halves is exact in single precision."""
        sums = torch.zeros(a.shape[0], b.shape[1])
        columns = [part.contiguous().unsqueeze(1) for part in b.float().split(1024, dim=1)]
        # Blocks that stay in a cache, and for which torch starts no threads.
        for rows, into in zip(a.float().split(31), sums.split(31)):
            rows = rows.T.contiguous().unsqueeze(2)
            for part, block in zip(columns, into.split(1024, dim=1)):
                for left, right in zip(rows, part):
                    block.addcmul_(left, right)
        return sums

    def matmul(a, b):
        fit = a.dim() == b.dim() == 2 and a.dtype == b.dtype and a.dtype in halves and a.shape[1] == b.shape[0]
        graph = torch.is_grad_enabled() and (a.requires_grad or b.requires_grad)
        if not fit or graph:
            return NotImplemented
        return product(a, b).to(a.dtype)

    def layer_norm(values, shape, weight=None, bias=None, eps=1e-5):
        """In halves, a CPU also adds gradients up in halves."""
        if values.dtype not in halves:
            return NotImplemented
        weight, bias = (None if part is None else part.float() for part in (weight, bias))
        return torch.nn.functional.layer_norm(values.float(), shape, weight, bias, eps).to(values.dtype)

    tensor = torch.Tensor
    products = (torch.mm, torch.matmul, tensor.mm, tensor.matmul, tensor.__matmul__)
    return {**dict.fromkeys(products, matmul), torch.nn.functional.layer_norm: layer_norm}


def prepare_torch(torch):
    """Lets `cuda` mean the CPU, whose tensors kernels use in place."""
    from torch.overrides import TorchFunctionMode

    cpu = torch.device("cpu")

    def moved(value):
        return cpu if isinstance(value, (str, torch.device)) and is_cuda(value) else value

    arithmetic = gpu_arithmetic(torch)

    class CudaIsCpu(TorchFunctionMode):
        def __torch_function__(self, function, types, arguments=(), keywords=None):
            keywords = dict(keywords or {})
            if function in arithmetic and "out" not in keywords:
                result = arithmetic[function](*arguments, **keywords)
                if result is not NotImplemented:
                    return result
            if "device" in keywords:
                keywords["device"] = moved(keywords["device"])
            if function is torch.Tensor.cuda:
                return arguments[0]
            if function is torch.Tensor.to:
                arguments = tuple(moved(argument) for argument in arguments)
            keywords.pop("pin_memory", None)
            return function(*arguments, **keywords)

    CudaIsCpu().__enter__()
    torch.Tensor.is_cuda = property(lambda tensor: True)
    interface = DeviceInterface()
    for name in ("synchronize", "current_device", "set_device", "get_device_capability", "is_available", "Event",
                 "Stream", "current_stream", "default_stream", "stream", "set_stream"):
        setattr(torch.cuda, name, getattr(interface, name))
    torch.cuda.device_count = lambda: 1
    torch.cuda.get_device_name = lambda device=0: "sixwarp simulator"
    torch.cuda.get_device_properties = lambda device=0: Properties()


class Properties:
    """What programs ask of a device's properties."""

    name = "sixwarp simulator"

    @property
    def multi_processor_count(self):
        return cuda().attribute(16)

    @property
    def major(self):
        return cuda().attribute(75)

    @property
    def minor(self):
        return cuda().attribute(76)

    @property
    def shared_memory_per_block_optin(self):
        return cuda().attribute(97)

    @property
    def total_memory(self):
        return 8 << 30


# ---------------------------------------------------------------------------------------------------------------------
# numba


def prepare_numba(codegen):
    """Kernels of numba-cuda stay PTX: its linker makes machine code, which the simulator does not run."""
    from cuda.core import ObjectCode

    library = codegen.CUDACodeLibrary
    link = library.get_cubin

    def get_ptx(self, cc=None):
        # The linker's own errors are not lost.
        linked = link(self, cc=cc)
        pieces = self.get_asm_strs(cc=cc)
        if len(pieces) != 1 or self._linking_files or self.needs_cudadevrt:
            return linked
        return ObjectCode.from_ptx(pieces[0].encode())

    library.get_cubin = get_ptx

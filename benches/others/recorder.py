"""Takes the launches of Triton programs without a GPU: kernels are compiled, and what would be launched is written down.

Each launch becomes a folder: `launch.json` as `sixwarp sim --help` describes it, `kernel.ptx`, `kernel.cubin`, and
`facts.json` with the registers of a thread.
"""

import contextlib
import ctypes
import json
import os
import pathlib
import re
import struct
import subprocess
import types

import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.backends.nvidia import driver as nvidia
from triton.compiler import CompiledKernel

FORMATS = {"i1": "<b", "i8": "<b", "i16": "<h", "i32": "<i", "i64": "<q", "u1": "<B", "u8": "<B", "u16": "<H",
           "u32": "<I", "u64": "<Q", "fp16": "<e", "fp32": "<f", "f32": "<f", "fp64": "<d"}


def standin():
    """The library that encodes tensor maps as the hardware reads them."""
    target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR") or pathlib.Path(__file__).resolve().parents[2] / "target")
    return ctypes.CDLL(str(target / "release/libsixwarp_standin.so"))


def encode(address, meta, shape, strides):
    """The 128 bytes of a tensor map."""
    rank, size = len(shape), meta["elem_size"]
    dims = (ctypes.c_uint64 * rank)(*reversed(shape))
    pitches = (ctypes.c_uint64 * rank)(*[stride * size for stride in reversed(strides[:-1])], 0)
    box = (ctypes.c_uint32 * rank)(*reversed(meta["block_size"]))
    ones = (ctypes.c_uint32 * rank)(*[1] * rank)
    encoded = ctypes.create_string_buffer(128)
    element = nvidia.TMA_DTYPE_DEVICE_TO_HOST[meta["elem_type"]]
    result = standin().cuTensorMapEncodeTiled(
        encoded, ctypes.c_uint(element), ctypes.c_uint(rank), ctypes.c_void_p(address), dims, pitches, box, ones,
        ctypes.c_uint(0), ctypes.c_uint(meta["swizzle"]), ctypes.c_uint(2), ctypes.c_uint(0))
    assert result == 0, f"cuTensorMapEncodeTiled: error {result}"
    return encoded.raw


def registers(cubin):
    """Registers of a thread, by the machine code's own tables."""
    tool = nvidia.knobs.nvidia.cuobjdump.path
    text = subprocess.run([tool, "--dump-resource-usage", str(cubin)], capture_output=True, text=True).stdout
    return int(re.search(r"REG:(\d+)", text)[1])


class Memory:
    """Buffers of a launch, found by the tensors that lie in them."""

    def __init__(self, folder):
        self.folder, self.buffers, self.bases = folder, [], {}

    def place(self, tensor):
        """Number of the tensor's buffer and the tensor's offset in it."""
        storage = tensor.untyped_storage()
        base = storage.data_ptr()
        if base not in self.bases:
            self.bases[base] = len(self.buffers)
            entry = dict(bytes=storage.nbytes(), name=f"buffer {len(self.buffers)}", init="random")
            if not tensor.dtype.is_floating_point:
                del entry["init"]
                entry["file"] = f"buffer{len(self.buffers)}.bin"
                whole = tensor.new_empty(0).set_(storage, 0, (storage.nbytes() // tensor.element_size(),))
                (self.folder / entry["file"]).write_bytes(whole.numpy().tobytes())
            self.buffers.append(entry)
        return self.bases[base], tensor.data_ptr() - base


class Launcher:
    """Stands in the place of Triton's launcher."""

    folder, name, kernel_name = None, None, ""

    def __init__(self, source, metadata):
        self.signature, self.metadata = list(source.signature.values()), metadata

    def __call__(self, x, y, z, stream, function, kernel_metadata, launch_metadata, enter, leave, *args):
        kernel, facts = self.kernel, self.metadata
        if Launcher.name is None or Launcher.kernel_name not in facts.name:
            return
        folder = Launcher.folder / Launcher.name
        folder.mkdir(parents=True, exist_ok=True)
        memory, params, relocs = Memory(folder), [], []

        def pointer(tensor, encoded=bytes(8)):
            if tensor is not None:
                buffer, offset = memory.place(tensor)
                relocs.append(dict(param=len(params), offset=0, buffer=buffer, addend=offset))
            params.append(encoded)

        maps = list(getattr(facts, "tensordesc_meta", None) or [])
        for kind, value in zip(self.signature, args):
            if kind == "constexpr":
                continue
            if kind.startswith("tensordesc"):
                meta = maps.pop(0)
                pointer(value.base, encode(value.base.data_ptr(), meta, list(value.shape), list(value.strides)))
                params.extend(struct.pack("<i", number) for number in value.shape)
                params.extend(struct.pack("<q", number) for number in value.strides)
            elif kind.startswith("*"):
                pointer(value)
            elif kind == "bf16":
                params.append(struct.pack("<f", value)[2:])
            else:
                params.append(struct.pack(FORMATS[kind], value))
        scratch = facts.global_scratch_size * x * y * z
        if scratch:
            relocs.append(dict(param=len(params), offset=0, buffer=len(memory.buffers), addend=0))
            memory.buffers.append(dict(bytes=scratch, name="scratch", init="zero"))
        params += [bytes(8), bytes(8)]
        found = re.search(r"\.reqntid\s+(\d+)", kernel.asm["ptx"])
        threads = int(found[1]) if found else 32 * facts.num_warps
        (folder / "kernel.ptx").write_text(kernel.asm["ptx"])
        (folder / "kernel.cubin").write_bytes(kernel.asm["cubin"])
        launch = dict(ptx="kernel.ptx", kernel=facts.name, grid=[x * facts.num_ctas, y, z], block=[threads, 1, 1],
                      cluster=[facts.num_ctas, 1, 1], smem=facts.shared,
                      params=[value.hex() for value in params], relocs=relocs, buffers=memory.buffers)
        (folder / "launch.json").write_text(json.dumps(launch, indent=1) + "\n")
        known = dict(name=Launcher.name, registers=registers(folder / "kernel.cubin"))
        (folder / "facts.json").write_text(json.dumps(known) + "\n")
        Launcher.name = None


class Driver(nvidia.GPUDriver):
    """A driver of Triton that has an H200 and launches nothing."""

    def __init__(self):
        self.launcher_cls = Launcher
        properties = dict(max_shared_mem=232448, multiprocessor_count=132, sm_clock_rate=1980000, warpSize=32,
                          mem_clock_rate=3201000, mem_bus_width=6144, max_num_regs=65536)
        self.utils = types.SimpleNamespace(
            get_device_properties=lambda device: properties, unload_module=lambda module: None,
            load_binary=lambda name, binary, shared, device: (name, name, 32, 0, 1024))

    def get_current_target(self):
        return GPUTarget("cuda", 90, 32)

    def get_current_device(self):
        return 0

    def set_current_device(self, device):
        pass

    def get_current_stream(self, device):
        return 0

    def get_device_capability(self, device=0):
        return (9, 0)

    def get_active_torch_device(self):
        return torch.device("cpu")

    def get_device_interface(self):
        return torch.cpu

    def get_benchmarker(self):
        # An autotuner takes the first configuration.
        return lambda call, quantiles=None: [1.0] * 3

    def map_python_to_cpp_type(self, kind):
        return nvidia.ty_to_cpp(kind)

    @staticmethod
    def is_active():
        return True


def install(folder):
    """Makes Triton write launches to `folder`."""
    Launcher.folder = pathlib.Path(folder)
    triton.runtime.driver.set_active(Driver())
    init_handles = CompiledKernel._init_handles

    def remember(kernel):
        init_handles(kernel)
        kernel._run.kernel = kernel

    CompiledKernel._init_handles = remember
    # Packages ask what device there is, and make a tensor's device the current one before they launch.
    torch.cuda.device = lambda index: contextlib.nullcontext()
    torch.cuda.get_device_name = lambda *device: "NVIDIA H200"
    torch.cuda.get_device_capability = lambda *device: (9, 0)
    torch.cuda.current_device = lambda: 0
    torch.cuda.get_device_properties = lambda *device: types.SimpleNamespace(
        name="NVIDIA H200", multi_processor_count=132, major=9, minor=0, total_memory=141 << 30,
        shared_memory_per_block_optin=232448, L2_cache_size=50 << 20)

"""Times launches that `prepare.py` has written, on a GPU.

    python benches/others/time_launches.py FOLDER RESULT.json

Each launch runs many times in a CUDA graph. The time of one is the median of several replays. Buffers hold moderate
random numbers; what a kernel reads and writes is as large as `launch.json` says.
"""

import ctypes
import datetime
import json
import pathlib
import statistics
import subprocess
import sys
import time

import torch

cuda = ctypes.CDLL("libcuda.so.1")
MAX_DYNAMIC_SHARED = 8
CLUSTER = 4
REPLAYS, MILLISECONDS = 9, 12
# The clock is read while the graph is replayed for so long.
CLOCK_SECONDS, SM_CLOCK = 0.3, 1


def call(name, *arguments):
    result = getattr(cuda, name)(*arguments)
    if result != 0:
        text = ctypes.c_char_p()
        cuda.cuGetErrorString(result, ctypes.byref(text))
        raise RuntimeError(f"{name}: {text.value.decode()}")


class Attribute(ctypes.Structure):
    _fields_ = [("id", ctypes.c_int), ("pad", ctypes.c_int), ("value", ctypes.c_uint32 * 16)]


class Config(ctypes.Structure):
    _fields_ = [("grid", ctypes.c_uint * 3), ("block", ctypes.c_uint * 3), ("shared", ctypes.c_uint),
                ("stream", ctypes.c_void_p), ("attributes", ctypes.POINTER(Attribute)), ("count", ctypes.c_uint)]


class Launch:
    """One launch, with its memory."""

    def __init__(self, folder):
        self.folder, self.facts = folder, json.loads((folder / "launch.json").read_text())
        self.module, self.function = ctypes.c_void_p(), ctypes.c_void_p()
        cubin = folder / "kernel.cubin"
        binary = cubin.read_bytes() if cubin.exists() else (folder / "kernel.ptx").read_bytes() + b"\0"
        call("cuModuleLoadData", ctypes.byref(self.module), binary)
        call("cuModuleGetFunction", ctypes.byref(self.function), self.module, self.facts["kernel"].encode())
        shared = self.facts.get("smem", 0)
        if shared > 48 * 1024:
            call("cuFuncSetAttribute", self.function, MAX_DYNAMIC_SHARED, shared)
        self.buffers = [self.fill(entry) for entry in self.facts["buffers"]]
        for buffer, entry in zip(self.buffers, self.facts["buffers"]):
            for reloc in entry.get("relocs", []):
                words = buffer[reloc["offset"]:reloc["offset"] + 8].view(torch.int64)
                words.fill_(self.buffers[reloc["buffer"]].data_ptr() + reloc.get("addend", 0))
        self.params = [bytearray.fromhex(text) for text in self.facts["params"]]
        for reloc in self.facts["relocs"]:
            address = self.buffers[reloc["buffer"]].data_ptr() + reloc.get("addend", 0)
            self.params[reloc["param"]][reloc["offset"]:reloc["offset"] + 8] = address.to_bytes(8, "little")
        # A tensor map lies at a multiple of 64 bytes.
        self.held = [self.aligned(param) for param in self.params]
        self.arguments = (ctypes.c_void_p * len(self.held))(*[address for _, address in self.held])

    @staticmethod
    def aligned(param):
        memory = ctypes.create_string_buffer(len(param) + 64)
        address = (ctypes.addressof(memory) + 63) // 64 * 64
        ctypes.memmove(address, bytes(param), len(param))
        return memory, address

    def fill(self, entry):
        size = entry["bytes"]
        if entry.get("file"):
            data = bytearray((self.folder / entry["file"]).read_bytes())
            return torch.frombuffer(data, dtype=torch.uint8).cuda()
        if entry.get("init") != "random":
            return torch.zeros(size, dtype=torch.uint8, device="cuda")
        words = torch.randint(0x3C00, 0x3F7F, ((size + 1) // 2,), dtype=torch.int16, device="cuda")
        words |= torch.randint(-1, 1, words.shape, dtype=torch.int16, device="cuda") << 15
        return words.view(torch.uint8)[:size]

    def run(self):
        facts = self.facts
        attributes = (Attribute * 1)()
        attributes[0].id = CLUSTER
        cluster = facts.get("cluster") or [1, 1, 1]
        attributes[0].value[:3] = cluster
        config = Config((ctypes.c_uint * 3)(*facts["grid"]), (ctypes.c_uint * 3)(*facts["block"]),
                        facts.get("smem", 0), torch.cuda.current_stream().cuda_stream, attributes,
                        1 if cluster != [1, 1, 1] else 0)
        call("cuLaunchKernelEx", ctypes.byref(config), self.function, self.arguments, None)

    def occupancy(self):
        registers, together = ctypes.c_int(), ctypes.c_int()
        call("cuFuncGetAttribute", ctypes.byref(registers), 4, self.function)
        threads = self.facts["block"][0] * self.facts["block"][1] * self.facts["block"][2]
        call("cuOccupancyMaxActiveBlocksPerMultiprocessor", ctypes.byref(together), self.function, threads,
             ctypes.c_size_t(self.facts.get("smem", 0)))
        return registers.value, together.value


class Clock:
    """The clock of the multiprocessors and the power, by NVIDIA's management library."""

    def __init__(self):
        self.library = ctypes.CDLL("libnvidia-ml.so.1")
        self.device = ctypes.c_void_p()
        assert self.library.nvmlInit_v2() == 0
        assert self.library.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(self.device)) == 0

    def read(self):
        mhz, milliwatts = ctypes.c_uint(), ctypes.c_uint()
        self.library.nvmlDeviceGetClockInfo(self.device, SM_CLOCK, ctypes.byref(mhz))
        self.library.nvmlDeviceGetPowerUsage(self.device, ctypes.byref(milliwatts))
        return mhz.value, milliwatts.value / 1e3

    def under(self, graph, microseconds):
        """Median clock in MHz, and the power in W, while a graph that takes so long is replayed."""
        for _ in range(max(1, int(1e6 * CLOCK_SECONDS / microseconds))):
            graph.replay()
        seen = []
        while not torch.cuda.current_stream().query():
            seen.append(self.read())
            time.sleep(0.01)
        later = seen[len(seen) // 2:] or [self.read()]
        return [round(statistics.median(values)) for values in zip(*later)]


def elapsed(work):
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    work()
    end.record()
    end.synchronize()
    return 1e3 * start.elapsed_time(end)


def measure(launch, clock):
    """Microseconds of one launch among many in a graph, the median and the least; clock and power meanwhile."""
    launch.run()
    torch.cuda.synchronize()
    once = elapsed(launch.run)
    count = max(10, min(400, int(1e3 * MILLISECONDS / max(once, 1))))
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(count):
            launch.run()
    graph.replay()
    torch.cuda.synchronize()
    times = [elapsed(graph.replay) / count for _ in range(REPLAYS)]
    return statistics.median(times), min(times), *clock.under(graph, count * min(times))


def main():
    folder, result = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    torch.zeros(1, device="cuda")
    query = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    gpu, driver = subprocess.run(query, capture_output=True, text=True).stdout.strip().split(", ")
    rows, clock = [], Clock()
    for path in sorted(folder.glob("*/launch.json")):
        name = path.parent.name
        try:
            launch = Launch(path.parent)
            median, best, mhz, watts = measure(launch, clock)
            registers, together = launch.occupancy()
            row = dict(name=name, kernel=launch.facts["kernel"], measured_us=round(median, 3), best_us=round(best, 3),
                       registers=registers, together=together, mhz=mhz, watts=watts)
            rows.append(row)
            print(json.dumps(row), flush=True)
        except RuntimeError as error:
            print(f"{name}: {error}", flush=True)
        launch = None
        torch.cuda.empty_cache()
        date = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC")
        result.write_text(json.dumps(dict(gpu=gpu, driver=driver, date=date, rows=rows), indent=1) + "\n")


if __name__ == "__main__":
    main()

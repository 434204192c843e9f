"""Writes launches of FlashAttention 4's kernel for Hopper, beside those of `prepare.py`.

    pip install --pre flash-attn-4 nvidia-cutlass-dsl[cu13] torch
    python benches/others/flash_attention_4.py FOLDER

The package compiles with tensors that have no memory, and CuTe DSL keeps PTX and machine code. Its own launch needs a
GPU, so parameters are written here: four tensor maps, lengths, the scale, and the tile scheduler's numbers.
"""

import contextlib
import json
import os
import pathlib
import re
import struct
import subprocess
import sys
import tempfile
import types

HERE = pathlib.Path(__file__).resolve().parent
TOKENS, BATCH, HIDDEN = 4096, 4, 2048
# Query rows of a tile, by head dim; tiles of keys have 128.
ROWS = {64: 192, 128: 128}
L2 = 50 << 20
SWIZZLE_128, BF16 = 3, 9


def compile_one(d, causal):
    """Compiles in a process of its own, because the folder for PTX is read once."""
    import torch
    from torch._subclasses.fake_tensor import FakeTensorMode
    torch.cuda.is_available = lambda: True
    torch.cuda.device = lambda index: contextlib.nullcontext()
    torch.cuda.get_device_capability = lambda *device: (9, 0)
    torch.cuda.current_device = lambda: 0
    torch.cuda.get_device_properties = lambda *device: types.SimpleNamespace(
        name="NVIDIA H200", multi_processor_count=132, major=9, minor=0, L2_cache_size=L2)
    from flash_attn.cute.interface import flash_attn_func
    with FakeTensorMode():
        q = torch.empty(BATCH, TOKENS, HIDDEN // d, d, dtype=torch.bfloat16, device="cuda")
        flash_attn_func(q, q, q, causal=causal)


def divisor(number):
    """A division by `number` as a product and two shifts."""
    bits = (number - 1).bit_length()
    multiplier = ((1 << 32) * ((1 << bits) - number)) // number + 1
    return struct.pack("<IIBBxx", number, multiplier & 0xFFFFFFFF, min(bits, 1), max(bits - 1, 0))


def tensor_map(d, rows):
    from recorder import encode
    heads = HIDDEN // d
    meta = dict(elem_size=2, elem_type=10, block_size=[1, 1, rows, 64], swizzle=SWIZZLE_128)
    shape, strides = [BATCH, heads, TOKENS, d], [TOKENS * HIDDEN, d, HIDDEN, 1]
    return encode(1 << 40, meta, shape, strides)


def longest_first(d):
    """Numbers of the scheduler that takes the longest tiles first, heads of one section at a time."""
    blocks, heads = -(-TOKENS // ROWS[d]), HIDDEN // d
    section = 1 << ((L2 // (TOKENS * 2 * d * 2)).bit_length() - 1)
    quotient, rest = divmod(heads * BATCH, section)
    words = [struct.pack("<I", number) for number in (blocks * heads * BATCH, blocks, heads, BATCH, section)]
    for number in (heads, section, section * blocks, max(rest, 1)):
        words += [divisor(number), struct.pack("<I", number)]
    return words + [struct.pack("<I", quotient), divisor(1), struct.pack("<I", 1)]


def write(folder, d, causal):
    with tempfile.TemporaryDirectory() as scratch:
        variables = dict(CUTE_DSL_ARCH="sm_90a", CUTE_DSL_KEEP="ptx,cubin", CUTE_DSL_DUMP_DIR=scratch,
                         FLASH_ATTENTION_ARCH="sm_90")
        command = [sys.executable, str(pathlib.Path(__file__).resolve()), "--compile", str(d), str(int(causal))]
        subprocess.run(command, env=os.environ | variables, check=True, stderr=subprocess.DEVNULL)
        ptx = next(pathlib.Path(scratch).glob("*.ptx")).read_text()
        cubin = next(pathlib.Path(scratch).glob("*.cubin")).read_bytes()
    heads, blocks = HIDDEN // d, -(-TOKENS // ROWS[d])
    lengths = struct.pack("<4i", TOKENS, d, heads, BATCH)
    maps = [tensor_map(d, rows) for rows in (ROWS[d], 128, 128, ROWS[d])]
    params = [lengths] * 4 + maps + [struct.pack("<f", 1.4427 / d ** 0.5), b"\0", b"\0"]
    if causal:
        params += longest_first(d)
    else:
        params += [struct.pack("<I", number) for number in (blocks, heads, BATCH)]
        params += [divisor(1), struct.pack("<I", 1)]
    name = f"flash-attention-4-d{d}-{'causal' if causal else 'full'}"
    size = BATCH * TOKENS * HIDDEN * 2
    launch = dict(
        ptx="kernel.ptx", kernel=re.search(r"\.entry (\w+)", ptx)[1],
        grid=[blocks * heads * BATCH, 1, 1] if causal else [blocks, heads, BATCH],
        block=[int(re.search(r"\.reqntid (\d+)", ptx)[1]), 1, 1], smem=166 << 10 if d == 128 else 90 << 10,
        params=[value.hex() for value in params],
        relocs=[dict(param=4 + i, offset=0, buffer=i, addend=0) for i in range(4)],
        buffers=[dict(bytes=size, name=name, init="random") for name in ("q", "k", "v", "out")])
    folder = folder / name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "kernel.ptx").write_text(ptx)
    (folder / "kernel.cubin").write_bytes(cubin)
    (folder / "launch.json").write_text(json.dumps(launch, indent=1) + "\n")
    from recorder import registers
    facts = dict(name=name, registers=registers(folder / "kernel.cubin"))
    (folder / "facts.json").write_text(json.dumps(facts) + "\n")
    print(f"{name}: written", flush=True)


def main():
    sys.path.insert(0, str(HERE))
    if sys.argv[1] == "--compile":
        return compile_one(int(sys.argv[2]), bool(int(sys.argv[3])))
    for d, causal in ((128, False), (128, True), (64, False)):
        write(pathlib.Path(sys.argv[1]), d, causal)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""sixwarp's CPU engine beside PyTorch's scaled_dot_product_attention, in one interleaved run.

    python3 benches/cpu.py --json cpu.json --plot cpu.svg
    python3 benches/cpu.py --part 1/4 --json cpu.json     # a share of the rows, added to the file
    python3 benches/cpu.py --avx2 --only decode           # both sides held to AVX2
    python3 benches/cpu.py --markdown cpu.json            # the file's rows as tables, measures nothing
    python3 benches/cpu_page.py                           # docs/cpu.md anew from the files in docs/cpu

Builds the `speed` and `floor` examples, makes a virtual environment with PyTorch under target/ on first
use, and prints one row per shape: milliseconds of both (the best of several interleaved rounds), the
ratio, above 1 where sixwarp is faster, and the floor: operations at the measured rate of multiply-adds
or bytes at the measured rate of reads, whichever is longer.

Decoding rows have a second PyTorch time, "folded": the heads that share a KV head passed as query
tokens of one head, which is the same computation and faster than `enable_gqa`.
"""

import argparse
import datetime
import json
import math
import os
import pathlib
import platform
import subprocess
import sys
import time
import venv

from chart import draw_ratios

ROOT = pathlib.Path(__file__).resolve().parent.parent
VENV = ROOT / "target" / "torch-venv"
EXAMPLES = ROOT / "target" / "release" / "examples"
# oneDNN decides by CPUID alone; where a hypervisor hides or traps part of what CPUID promises, it dies,
# and the best setting that works has to be found.
ONEDNN_SETTINGS = [None, "AVX10_1_512", "AVX512_CORE_BF16", "AVX512_CORE", "AVX2"]
AVX2 = {"ATEN_CPU_CAPABILITY": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX2", "MKL_ENABLE_INSTRUCTIONS": "AVX2"}


def python():
    """The virtual environment's interpreter, installing PyTorch on first use."""
    interpreter = VENV / "bin" / "python"
    if not interpreter.exists():
        venv.create(VENV, with_pip=True)
    probe = [interpreter, "-I", "-c", "import torch"]
    if subprocess.run(probe, capture_output=True).returncode != 0:
        subprocess.run([interpreter, "-I", "-m", "pip", "install", "-q", "torch", "numpy"], check=True)
    return interpreter


class Row:
    """One shape: queries [batch, heads, queries, dim] on keys [batch, kv_heads, keys, dim]."""

    def __init__(self, kind, dtype, batch, heads, kv_heads, queries, keys, dim, causal=False):
        self.kind, self.dtype, self.dim, self.causal = kind, dtype, dim, causal
        self.heads, self.kv_heads = heads, kv_heads
        self.q_shape, self.k_shape = (batch, heads, queries, dim), (batch, kv_heads, keys, dim)
        mask = "causal" if causal else "full"
        shape = f"{queries} {mask}" if kind == "prefill" else f"{batch}×{heads}/{kv_heads}, {keys} keys"
        self.name = f"{dtype} {kind} d{dim} {shape}"
        self.setup = f"setup {dtype} {batch} {heads} {kv_heads} {queries} {keys} {dim} {mask}"
        size = 4 if dtype == "f32" else 2
        self.bytes = 2 * size * dim * (batch * heads * queries + batch * kv_heads * keys)


def rows():
    for dtype in ("f32", "bf16"):
        for dim in (64, 128, 256, 512):
            for length, heads in ((1024, 4), (4096, 2)):
                for causal in (False, True):
                    yield Row("prefill", dtype, 1, heads, heads, length, length, dim, causal)
            yield Row("decode", dtype, 8, 32, 8, 1, 4096, dim)
            yield Row("decode", dtype, 1, 64, 1, 1, 640, dim)


def environment(threads):
    return dict(os.environ, RAYON_NUM_THREADS=str(threads))


class Sixwarp:
    """The speed example, one command at a time."""

    def __init__(self, threads, avx2):
        command = [EXAMPLES / "speed", *(["avx2"] if avx2 else []), "--serve"]
        pipes = dict(stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.process = subprocess.Popen(command, env=environment(threads), **pipes)

    def command(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return float(self.process.stdout.readline())


class Torch:
    """PyTorch's tensors of a row."""

    def __init__(self, row):
        import torch

        dtype = {"f32": torch.float32, "bf16": torch.bfloat16}[row.dtype]
        self.attention = torch.nn.functional.scaled_dot_product_attention
        self.q = torch.randn(row.q_shape).to(dtype)
        self.k, self.v = (torch.randn(row.k_shape).to(dtype) for _ in range(2))
        self.options = dict(is_causal=row.causal, enable_gqa=row.heads != row.kv_heads)
        batch, heads, queries, dim = row.q_shape
        self.folded_q = None
        if queries == 1:
            self.folded_q = self.q.reshape(batch, row.kv_heads, heads // row.kv_heads, dim)

    def best(self, calls):
        return best(calls, lambda: self.attention(self.q, self.k, self.v, **self.options))

    def best_folded(self, calls):
        return best(calls, lambda: self.attention(self.folded_q, self.k, self.v))


def best(calls, call):
    """Seconds of the best of `calls` calls."""
    least = math.inf
    for _ in range(calls):
        start = time.perf_counter()
        call()
        least = min(least, time.perf_counter() - start)
    return least


def idle_share():
    """The share of the last 0.2 s in which the machine had nothing to do; 1 where it does not say."""
    stat = pathlib.Path("/proc/stat")
    if not stat.exists():
        return 1.0
    read = lambda: [int(x) for x in stat.read_text().split("\n", 1)[0].split()[1:]]
    before = read()
    time.sleep(0.2)
    spent = [now - then for now, then in zip(read(), before)]
    return (spent[3] + spent[4]) / max(1, sum(spent))


def wait_until_idle(patience=20.0):
    """Waits for other programs to pause; returns the idle share at the end."""
    start = time.perf_counter()
    while (share := idle_share()) < 0.9 and time.perf_counter() - start < patience:
        pass
    return share


def measure(row, sixwarp, seconds):
    """Times each side in turn, several calls in a row where they are short, until time is up."""
    flops = sixwarp.command(row.setup)
    torch = Torch(row)
    sides = {"sixwarp": lambda n: sixwarp.command(f"run {n}"), "torch": torch.best}
    if torch.folded_q is not None:
        sides["folded"] = torch.best_folded
    calls = {name: max(1, min(50, int(0.01 / max(side(2), 1e-6)))) for name, side in sides.items()}
    times = {name: [] for name in sides}
    idle = wait_until_idle()
    start = time.perf_counter()
    while len(times["torch"]) < 3 or time.perf_counter() - start < seconds:
        for name, side in sides.items():
            # OpenMP's threads spin for a while after torch has returned, on cores the next would use.
            time.sleep(0.02)
            times[name].append(side(calls[name]))
    result = dict(name=row.name, kind=row.kind, dtype=row.dtype, dim=row.dim, flops=flops)
    result.update(bytes=row.bytes, rounds=len(times["torch"]), idle_before=round(idle, 2))
    for name, seconds in times.items():
        result[f"{name}_ms"] = 1e3 * min(seconds)
        result[f"{name}_median_ms"] = 1e3 * sorted(seconds)[len(seconds) // 2]
    result["ratio"] = result["torch_ms"] / result["sixwarp_ms"]
    return result


def floors(threads, avx2):
    """Rates of the machine by name: GFLOP/s and GB/s."""
    command = [EXAMPLES / "floor"]
    lines = subprocess.run(command, env=environment(threads), capture_output=True, text=True, check=True)
    rates = {name: float(rate) for name, rate in map(str.split, lines.stdout.splitlines())}
    if avx2:
        rates = {name: rate for name, rate in rates.items() if name in ("f32-avx2", "read", "read-cached")}
    return rates


def floor_ms(row, rates):
    """The least time of a row: its operations or its bytes, whichever takes longer."""
    vectors = max(rate for name, rate in rates.items() if name.startswith("f32"))
    multiply = vectors if row["dtype"] == "f32" else rates.get("bf16-tiles", vectors)
    return 1e3 * max(row["flops"] / multiply, row["bytes"] / rates["read-cached"]) / 1e9


def line(r):
    text = f"{r['name']:38}{r['sixwarp_ms']:10.3f} ms {r['flops'] / r['sixwarp_ms'] / 1e6:6.0f} GFLOP/s"
    text += f"  torch {r['torch_ms']:9.3f} ms  ratio {r['ratio']:6.2f}  floor {r['floor_ms']:8.3f} ms"
    if "folded_ms" in r:
        text += f"  folded {r['folded_ms']:8.3f} ms ({r['folded_ms'] / r['sixwarp_ms']:.2f})"
    return text


def geometric_mean(ratios):
    return math.exp(sum(map(math.log, ratios)) / len(ratios))


def summarise(results):
    lines = {}
    for kind in ("prefill", "decode"):
        for dtype in ("f32", "bf16"):
            ratios = [r["ratio"] for r in results if (r["kind"], r["dtype"]) == (kind, dtype)]
            if ratios:
                lines[f"{kind} {dtype}"] = dict(geomean=geometric_mean(ratios), least=min(ratios))
    for name, entry in lines.items():
        print(f"{name:14} geometric mean {entry['geomean']:5.2f}, least {entry['least']:5.2f}")
    return lines


def cpu_model():
    info = pathlib.Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [text.partition(":")[2].strip() for text in lines if text.startswith("model name")]
    return f"{names[0]} ({len(names)} cores)" if names else platform.processor()


def merged(path, about, results):
    """The document at `path`, if it is of the same machine and settings, with these rows instead."""
    document = dict(about, rows=[])
    if path.exists():
        earlier = json.loads(path.read_text())
        same = ("cpu", "torch", "torch_instructions", "sixwarp_instructions", "threads")
        if all(earlier.get(key) == about[key] for key in same):
            document = earlier
    # A machine is never faster than it is: the highest rate of all runs is the least disturbed.
    rates = {name: max(rate, document["rates"][name]) for name, rate in about["rates"].items()}
    new = {r["name"]: r for r in results}
    found = {r["name"]: r for r in document["rows"]} | new
    kept = [dict(found[row.name], floor_ms=floor_ms(found[row.name], rates)) for row in rows() if row.name in found]
    return dict(document, date=about["date"], rates=rates, rows=kept, summary=summarise(kept))


def markdown_tables(document):
    """A file's rows as one table per kind: ratios, and the rates of both sides."""
    lines = []
    for kind in ("prefill", "decode"):
        found = [r for r in document["rows"] if r["kind"] == kind]
        if not found:
            continue
        folded = "| folded ms | ratio " if kind == "decode" else ""
        lines.append(f"| row | ms | GFLOP/s | GB/s | floor ms | torch ms | ratio {folded}|")
        lines.append("|---|" + "---:|" * (8 if folded else 6))
        for r in found:
            cells = [r["name"], f"{r['sixwarp_ms']:.3f}", f"{r['flops'] / r['sixwarp_ms'] / 1e6:.0f}"]
            cells += [f"{r['bytes'] / r['sixwarp_ms'] / 1e6:.1f}", f"{r['floor_ms']:.3f}"]
            cells += [f"{r['torch_ms']:.3f}", f"{r['ratio']:.2f}"]
            if folded:
                cells += [f"{r['folded_ms']:.3f}", f"{r['folded_ms'] / r['sixwarp_ms']:.2f}"]
            lines.append("| " + " | ".join(cells) + " |")
        lines.append("")
    return "\n".join(lines).rstrip()


def markdown(path):
    """Prints a file's rows as tables."""
    document = json.loads(path.read_text())
    print(markdown_tables(document), end="\n\n")
    summarise(document["rows"])


def inside(arguments):
    """The measurement proper, in the interpreter that has PyTorch."""
    import torch

    torch.set_num_threads(arguments.threads)
    rates = floors(arguments.threads, arguments.avx2)
    about = dict(
        date=datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
        cpu=cpu_model(),
        torch=torch.__version__,
        torch_instructions=f"{torch.backends.cpu.get_cpu_capability()}, "
        f"oneDNN {os.environ.get('ONEDNN_MAX_CPU_ISA', 'default')}",
        sixwarp_instructions="AVX2" if arguments.avx2 else "best",
        threads=arguments.threads,
        command=" ".join(["python3 benches/cpu.py", *(["--avx2"] if arguments.avx2 else [])]),
        rates=rates,
    )
    print(json.dumps(about, indent=1))
    sixwarp = Sixwarp(arguments.threads, arguments.avx2)
    part, parts = map(int, arguments.part.split("/"))
    chosen = [row for row in rows() if arguments.only in row.name][part - 1 :: parts]
    results = []
    for row in chosen:
        result = measure(row, sixwarp, arguments.seconds)
        result.update(floor_ms=floor_ms(result, rates), date=about["date"])
        results.append(result)
        print(line(result), flush=True)
    if not arguments.json:
        summarise(results)
    else:
        document = merged(arguments.json, about, results)
        arguments.json.write_text(json.dumps(document, indent=1) + "\n")
        if arguments.plot:
            arguments.plot.write_text(draw_ratios(document))
    return 0


def torch_environment(interpreter, avx2):
    """The first environment in which PyTorch's bf16 attention runs."""
    probe = (
        "import torch as t; x = t.ones(1, 1, 64, 64).bfloat16(); "
        "t.nn.functional.scaled_dot_product_attention(x, x, x)"
    )
    for setting in ["AVX2"] if avx2 else ONEDNN_SETTINGS:
        env = dict(os.environ, **(AVX2 if avx2 else {}))
        if setting:
            env["ONEDNN_MAX_CPU_ISA"] = setting
        if subprocess.run([interpreter, "-I", "-c", probe], env=env, capture_output=True).returncode == 0:
            return env
    sys.exit("PyTorch's bf16 attention does not run on this machine")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--only", default="", help="rows whose names contain this")
    parser.add_argument("--part", default="1/1", help="every N-th row from the I-th on, as I/N")
    parser.add_argument("--seconds", type=float, default=4.0, help="time per row")
    parser.add_argument("--avx2", action="store_true", help="hold both sides to AVX2")
    parser.add_argument("--json", type=pathlib.Path, help="where to write the rows; adds to what is there")
    parser.add_argument("--plot", type=pathlib.Path, help="an .svg file of all rows of the JSON file")
    parser.add_argument("--markdown", type=pathlib.Path, help="print a JSON file as tables and stop")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.markdown:
        return markdown(arguments.markdown)
    if arguments.inside:
        return inside(arguments)
    build = ["cargo", "build", "-q", "--release", "-p", "sixwarp-cpu", "--examples"]
    subprocess.run(build, cwd=ROOT, check=True)
    interpreter = python()
    env = torch_environment(interpreter, arguments.avx2)
    return subprocess.run([interpreter, __file__, "--inside", *sys.argv[1:]], env=env).returncode


if __name__ == "__main__":
    sys.exit(main())

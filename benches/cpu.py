#!/usr/bin/env python3
"""sixwarp's CPU engine beside PyTorch's scaled_dot_product_attention, in one interleaved run.

    python3 benches/cpu.py [--quick] [--threads N] [--json FILE]

Builds the `speed` example, makes a virtual environment with PyTorch under target/ on first use, and
prints one row per shape: milliseconds of both (the best of several interleaved rounds) and the
ratio, above 1 where sixwarp is faster.
"""

import argparse
import json
import math
import os
import pathlib
import subprocess
import sys
import time
import venv

ROOT = pathlib.Path(__file__).resolve().parent.parent
VENV = ROOT / "target" / "torch-venv"
SPEED = ROOT / "target" / "release" / "examples" / "speed"
# oneDNN decides by CPUID alone; where a hypervisor traps an instruction that CPUID promises, it dies,
# and the best setting that works has to be found.
ONEDNN_SETTINGS = [None, "AVX512_CORE", "AVX2"]


def python():
    """The virtual environment's interpreter, installing PyTorch on first use."""
    interpreter = VENV / "bin" / "python"
    if not interpreter.exists():
        venv.create(VENV, with_pip=True)
    probe = [interpreter, "-c", "import torch"]
    if subprocess.run(probe, capture_output=True).returncode != 0:
        subprocess.run([interpreter, "-m", "pip", "install", "-q", "torch", "numpy"], check=True)
    return interpreter


def rows(quick):
    """(name, kind, dtype, batch, heads, KV heads, queries, keys, dim, causal)"""
    for dtype in ("f32", "bf16"):
        for dim in (64, 128, 256, 512):
            for length, heads in ((1024, 4), (4096, 2)):
                if quick and length > 1024:
                    continue
                for causal in (False, True):
                    name = f"prefill {length} {'causal' if causal else 'full'}"
                    yield name, "prefill", dtype, 1, heads, heads, length, length, dim, causal
            yield "decode 8×32/8, 4096 keys", "decode", dtype, 8, 32, 8, 1, 4096, dim, False
            yield "decode 1×64/1, 640 keys", "decode", dtype, 1, 64, 1, 1, 640, dim, False


class Sixwarp:
    """The speed example, one call at a time."""

    def __init__(self, threads):
        env = dict(os.environ, RAYON_NUM_THREADS=str(threads))
        pipes = dict(stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.process = subprocess.Popen([SPEED, "--serve"], env=env, **pipes)

    def command(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return float(self.process.stdout.readline())


def compare(threads, quick, only):
    import torch

    torch.set_num_threads(threads)
    types = {"f32": torch.float32, "bf16": torch.bfloat16}
    sixwarp = Sixwarp(threads)
    results = []
    for name, kind, dtype, batch, heads, kv_heads, queries, keys, dim, causal in rows(quick):
        if only not in f"{dtype} {kind} {name}":
            continue
        mask = "causal" if causal else "full"
        flops = sixwarp.command(
            f"setup {dtype} {batch} {heads} {kv_heads} {queries} {keys} {dim} {mask}"
        )
        q = torch.randn(batch, heads, queries, dim).to(types[dtype])
        k, v = (torch.randn(batch, kv_heads, keys, dim).to(types[dtype]) for _ in range(2))

        def run_torch():
            start = time.perf_counter()
            torch.nn.functional.scaled_dot_product_attention(
                q, k, v, is_causal=causal, enable_gqa=heads != kv_heads
            )
            return time.perf_counter() - start

        ours, theirs = [], []
        budget = time.perf_counter() + (1.0 if quick else 4.0)
        while len(ours) < 3 or (time.perf_counter() < budget and len(ours) < 200):
            # OpenMP's threads spin for a while after torch has returned, on cores we would use.
            time.sleep(0.02)
            ours.append(sixwarp.command("run"))
            theirs.append(run_torch())
        best, torch_best = min(ours[1:]), min(theirs[1:])
        row = dict(name=name, kind=kind, dtype=dtype, dim=dim, rounds=len(ours), flops=flops)
        row.update(sixwarp_ms=best * 1e3, torch_ms=torch_best * 1e3, ratio=torch_best / best)
        results.append(row)
        print(
            f"{dtype:5}{dim:4}  {name:26}{row['sixwarp_ms']:10.3f} ms {flops / best / 1e9:7.1f} GFLOP/s"
            f"  torch {row['torch_ms']:10.3f} ms  ratio {row['ratio']:6.2f}",
            flush=True,
        )
    return results


def geometric_mean(ratios):
    return math.exp(sum(map(math.log, ratios)) / len(ratios))


def summarise(results):
    lines = {}
    for kind, dtype in (("prefill", "f32"), ("prefill", "bf16"), ("decode", "f32"), ("decode", "bf16")):
        ratios = [r["ratio"] for r in results if (r["kind"], r["dtype"]) == (kind, dtype)]
        if not ratios:
            continue
        lines[f"{kind} {dtype}"] = dict(geomean=geometric_mean(ratios), least=min(ratios))
    for name, line in lines.items():
        print(f"{name:14} geometric mean {line['geomean']:5.2f}, least {line['least']:5.2f}")
    return lines


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="1k prefill only, one second per row")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--only", default="", help="rows whose dtype, kind and name contain this")
    parser.add_argument("--json", type=pathlib.Path, help="where to write the rows")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.inside:
        import torch

        setting = os.environ.get("ONEDNN_MAX_CPU_ISA", "default")
        print(f"torch {torch.__version__}, oneDNN instruction set {setting}")
        results = compare(arguments.threads, arguments.quick, arguments.only)
        summary = summarise(results)
        if arguments.json:
            document = dict(torch=torch.__version__, onednn=setting, threads=arguments.threads)
            document.update(rows=results, summary=summary)
            arguments.json.write_text(json.dumps(document, indent=1))
        return 0
    build = ["cargo", "build", "-q", "--release", "-p", "sixwarp-cpu", "--example", "speed"]
    subprocess.run(build, cwd=ROOT, check=True)
    interpreter = python()
    probe = "import torch as t; x = t.ones(1, 1, 64, 64).bfloat16(); " \
        "t.nn.functional.scaled_dot_product_attention(x, x, x)"
    for setting in ONEDNN_SETTINGS:
        env = dict(os.environ)
        if setting:
            env["ONEDNN_MAX_CPU_ISA"] = setting
        if subprocess.run([interpreter, "-c", probe], env=env, capture_output=True).returncode == 0:
            return subprocess.run([interpreter, __file__, "--inside", *sys.argv[1:]], env=env).returncode
    print("PyTorch's bf16 attention does not run on this machine", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())

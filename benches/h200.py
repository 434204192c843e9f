"""sixwarp beside torch's scaled_dot_product_attention on one GPU, in one run.

    PYTHONPATH=python/src python benches/h200.py --json h200.json --plot h200.svg
    python benches/h200.py --suite dense --only d128 --rounds 5

Both sides are captured in CUDA graphs and replayed in turn; times are medians of one call. torch uses
cuDNN where cuDNN takes the shape, and what is left where it does not (its name is in the table). The floor is
FLOPs at the rate of a large matrix product or bytes at the rate of a copy, both measured first,
whichever is longer. Every row's results are compared, too.
"""

import argparse
import datetime
import json
import math
import statistics
import sys
import time
import warnings

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

import sixwarp
from chart import draw

DEVICE = "cuda"


class Row:
    """One shape: queries [batch, heads, tokens, dim] on keys [batch, kv_heads, keys, dim]."""

    def __init__(self, suite, name, batch, heads, kv_heads, queries, keys, dim, causal=False, shared=False):
        self.suite, self.name, self.causal, self.shared = suite, name, causal, shared
        self.q_shape = (batch, heads, queries, dim)
        self.k_shape = (batch, kv_heads, keys, dim)
        scores = batch * heads * queries * keys * (0.5 if causal else 1.0)
        self.flops = 4.0 * scores * dim
        rows = 2 * batch * heads * queries + (1 if shared else 2) * batch * kv_heads * keys
        self.bytes = 2.0 * rows * dim


def dense():
    for dim in (64, 128, 256, 512):
        for causal in (False, True):
            for length in (512, 1024, 2048, 4096, 8192, 16384):
                heads, mask = 2048 // dim, "causal" if causal else "full"
                name = f"d{dim} {mask} {length}"
                yield Row("dense", name, 16384 // length, heads, heads, length, length, dim, causal)


def mqa():
    for dim in (64, 128, 256, 512):
        for queries in (1, 4, 32, 128):
            for keys in (128, 256, 384, 512):
                yield Row("mqa", f"d{dim} T{queries} s{keys}", 1, 128, 1, queries, keys, dim)


def decode():
    for heads, kv_heads, dim, shared in ((32, 8, 128, False), (128, 1, 128, False), (128, 1, 512, True)):
        for batch, keys in ((1, 8192), (16, 8192), (64, 4096), (128, 8192)):
            name = f"{heads}/{kv_heads} d{dim} b{batch} {keys}"
            yield Row("decode", name, batch, heads, kv_heads, 1, keys, dim, shared=shared)


SUITES = {"dense": dense, "mqa": mqa, "decode": decode}


class Replayed:
    """A call, captured often enough in one graph that the graph's own cost is lost."""

    def __init__(self, call):
        # What a graph works on lives as long as the graph.
        self.call = call
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(2):
                self.result = call()
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            call()
            end.record()
        end.synchronize()
        self.calls = max(1, min(50, math.ceil(2.0 / max(begin.elapsed_time(end), 1e-3))))
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            for _ in range(self.calls):
                call()
        self.times = []

    def replay(self):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        self.graph.replay()
        end.record()
        end.synchronize()
        self.times.append(1e3 * begin.elapsed_time(end) / self.calls)

    def median(self):
        return statistics.median(self.times[1:])


def interleaved(sides, rounds):
    """Replays every side in turn, one round that is not counted first."""
    for _ in range(rounds + 1):
        for side in sides:
            side.replay()


def ceilings():
    """FLOP/s of an 8192³ bf16 product, and bytes per second of a copy."""
    x = torch.randn(8192, 8192, device=DEVICE, dtype=torch.bfloat16)
    product = Replayed(lambda: x @ x)
    # A kernel that reads and writes: a graph's copy node goes through slower engines.
    data = torch.randn(1 << 28, device=DEVICE)
    target = torch.empty_like(data)
    copy = Replayed(lambda: torch.neg(data, out=target))
    interleaved([product, copy], 10)
    return 2.0 * 8192**3 / product.median() * 1e6, 2.0 * data.nbytes / copy.median() * 1e6


def theirs(q, k, v, row):
    """torch on this shape: the first of its backends that takes it, and its name."""
    gqa = q.shape[1] != k.shape[1]
    wide = [x.expand(-1, q.shape[1], -1, -1) for x in (k, v)] if k.shape[1] == 1 else (k, v)
    failures = []
    backends = [SDPBackend.CUDNN_ATTENTION, SDPBackend.EFFICIENT_ATTENTION]
    # The score matrix and widened keys of the math backend must fit the GPU, and its times a patience.
    if q.shape[0] * q.shape[1] * k.shape[2] * k.shape[3] < 1 << 31:
        backends.append(SDPBackend.MATH)
    for backend in backends:
        for keys, values, grouped in ((k, v, gqa), (*wide, gqa and k.shape[1] != 1)):
            def call():
                with sdpa_kernel(backend):
                    return torch.nn.functional.scaled_dot_product_attention(
                        q, keys, values, is_causal=row.causal, enable_gqa=grouped
                    )

            try:
                return backend.name.partition("_")[0].lower(), Replayed(call)
            except (RuntimeError, torch.OutOfMemoryError) as error:
                failures.append(str(error).splitlines()[0])
                torch.cuda.synchronize()
                torch.cuda.empty_cache()
    return f"none ({failures[0]})", None


def measure(row, rounds, matmul, copy):
    torch.manual_seed(1)
    q = torch.randn(row.q_shape, device=DEVICE, dtype=torch.bfloat16)
    k = torch.randn(row.k_shape, device=DEVICE, dtype=torch.bfloat16)
    v = k if row.shared else torch.randn(row.k_shape, device=DEVICE, dtype=torch.bfloat16)
    result = {"suite": row.suite, "name": row.name, "flops": row.flops, "bytes": row.bytes}
    result["floor_us"] = 1e6 * max(row.flops / matmul, row.bytes / copy)
    plan = sixwarp.plan(q, k, v, layout="bhsd", causal=row.causal)
    out = torch.empty_like(q)
    workspace = torch.empty(max(plan.workspace_bytes, 1), device=DEVICE, dtype=torch.uint8)
    ours = Replayed(lambda: plan(q, k, v, out=out, workspace=workspace))
    backend, other = theirs(q, k, v, row)
    interleaved([ours] + ([other] if other else []), rounds)
    result.update(kernel=plan.summary, ours_us=ours.median(), torch_backend=backend)
    result["ours_tflops"] = row.flops / ours.median() / 1e6
    result["ours_gbs"] = row.bytes / ours.median() / 1e3
    if other is not None:
        result["torch_us"] = other.median()
        result["ratio"] = other.median() / ours.median()
        result["difference"] = (out.float() - other.result.float()).abs().max().item()
    return result


HEADING = (
    f"{'shape':24} {'ours us':>10} {'TFLOP/s':>8} {'GB/s':>7} {'% floor':>8} {'torch us':>10} "
    f"{'backend':>9} {'ratio':>6} {'max diff':>9}"
)


def line(r):
    text = f"{r['name']:24} {r['ours_us']:10.1f} {r['ours_tflops']:8.1f} {r['ours_gbs']:7.0f} "
    text += f"{100 * r['floor_us'] / r['ours_us']:8.1f} "
    if "torch_us" not in r:
        return text + r["torch_backend"]
    return text + f"{r['torch_us']:10.1f} {r['torch_backend']:>9} {r['ratio']:6.2f} {r['difference']:9.1e}"


def geometric_mean(values):
    return math.exp(statistics.fmean(map(math.log, values))) if values else float("nan")


def summary(rows):
    """Ratios beside cuDNN, suite by suite."""
    for suite in SUITES:
        ratios = [r["ratio"] for r in rows if r["suite"] == suite and r.get("torch_backend") == "cudnn"]
        if ratios:
            yield (
                f"{suite}: {len(ratios)} rows beside cuDNN, geometric mean {geometric_mean(ratios):.3f}, "
                f"least {min(ratios):.3f}"
            )


def overhead():
    """Host microseconds of a planned call and of `attention`, on a shape whose kernel is short."""
    q, k = (torch.randn(1, n, 8, 64, device=DEVICE, dtype=torch.bfloat16) for n in (1, 64))
    plan, out = sixwarp.plan(q, k, k), torch.empty_like(q)
    calls = {
        "planned call": lambda: plan(q, k, k, out=out),
        "attention()": lambda: sixwarp.attention(q, k, k, out=out),
    }
    result = {}
    for name, call in calls.items():
        best = float("inf")
        for _ in range(20):
            torch.cuda.synchronize()
            start = time.perf_counter()
            for _ in range(100):
                call()
            best = min(best, (time.perf_counter() - start) / 100)
        result[name] = best * 1e6
    torch.cuda.synchronize()
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--suite", choices=[*SUITES, "all"], default="all")
    parser.add_argument("--only", help="rows whose names contain this")
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--json")
    parser.add_argument("--plot", help="an .svg file")
    args = parser.parse_args()
    torch.set_grad_enabled(False)
    # torch explains at length why a backend does not take a shape; the table says which one did.
    warnings.filterwarnings("ignore")
    matmul, copy = ceilings()
    about = {
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
        "gpu": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "cudnn": torch.backends.cudnn.version(),
        "sixwarp": sixwarp.__version__,
        "matmul_tflops": matmul / 1e12,
        "copy_tbs": copy / 1e12,
        "overhead_us": overhead(),
    }
    print(json.dumps(about, indent=1))
    print(HEADING, flush=True)
    results = []
    for suite in SUITES if args.suite == "all" else [args.suite]:
        for row in SUITES[suite]():
            if args.only and args.only not in row.name:
                continue
            try:
                result = measure(row, args.rounds, matmul, copy)
            except (NotImplementedError, RuntimeError) as error:
                print(f"{row.name:24} {error}", flush=True)
                continue
            results.append(result)
            print(line(result), flush=True)
            torch.cuda.empty_cache()
    print("\n".join(summary(results)))
    if args.json:
        with open(args.json, "w", encoding="utf-8") as file:
            json.dump({**about, "rows": results}, file, indent=1)
    if args.plot:
        with open(args.plot, "w", encoding="utf-8") as file:
            file.write(draw(about, results))


if __name__ == "__main__":
    sys.exit(main())

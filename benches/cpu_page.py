#!/usr/bin/env python3
"""Writes the measured part of docs/cpu.md anew from docs/cpu/cpu.json and docs/cpu/avx2.json.

    python3 benches/cpu.py --json docs/cpu/cpu.json --plot docs/cpu/cpu.svg
    python3 benches/cpu.py --avx2 --json docs/cpu/avx2.json --plot docs/cpu/avx2.svg
    python3 benches/cpu_page.py

Everything from the heading "Where it stands" on is replaced; every number in it comes from the files.
"""

import json
import pathlib

from cpu import ROOT, geometric_mean, markdown_tables

PAGE = ROOT / "docs" / "cpu.md"
HEADING = "### Where it stands\n"
# What one run cannot show: several of 2026-11-15.
NOTE = (
    "In three runs earlier on 2026-11-15, torch's best were 0.24 to 0.63, 0.33 to 0.74, 0.48 to 1.03 and 0.89 to 1.16 ms. "
    "Ours were 0.023 to 0.025, 0.039 to 0.045, 0.047 to 0.073 and 0.082 to 0.101 ms."
)


def rows(document, kind, dtype=None, shape=""):
    found = [r for r in document["rows"] if r["kind"] == kind and shape in r["name"]]
    return [r for r in found if dtype in (None, r["dtype"])]


def ratios(found):
    return [r["ratio"] for r in found]


def span(values, digits=1):
    """`least to most`."""
    if not values:
        return "not measured"
    least, most = (f"{value:.{digits}f}" for value in (min(values), max(values)))
    return least if least == most else f"{least} to {most}"


def mean(found):
    return f"{geometric_mean(ratios(found)):.2f}" if found else "not measured"


def least(document):
    worst = min(document["rows"], key=lambda r: r["ratio"])
    under = sum(r["ratio"] < 1 for r in document["rows"])
    return f"{worst['ratio']:.2f} ({worst['name']}; {under} of {len(document['rows'])} rows under 1)"


def dates(document):
    found = sorted({r["date"] for r in document["rows"]})
    return found[0] if len(found) == 1 else f"{found[0]} to {found[-1]}"


def aims(best, avx2):
    """The aims, and where both settings stand."""
    prefill = lambda d: f"{mean(rows(d, 'prefill'))} (f32 {mean(rows(d, 'prefill', 'f32'))}, bf16 {mean(rows(d, 'prefill', 'bf16'))})"
    decode = lambda d, shape: span(ratios(rows(d, "decode", "bf16", shape)))
    lines = [
        ("prefill, geometric mean", "≥ 1.25", prefill),
        ("least row", "≥ 1.0", least),
        ("bf16 decode, 8 × 32/8, 4096 keys", "≥ 10", lambda d: decode(d, "32/8")),
        ("bf16 decode, 64/1, 640 keys", "≥ 10", lambda d: decode(d, "64/1")),
        ("f32 decode", "≥ 1.0", lambda d: span(ratios(rows(d, "decode", "f32")))),
    ]
    table = ["| | aim | here | both held to AVX2 |", "|---|---|---|---|"]
    table += [f"| {name} | {aim} | {cell(best)} | {cell(avx2)} |" for name, aim, cell in lines]
    return "\n".join(table)


def text(best, avx2):
    rates = best["rates"]
    rate = lambda r, side: r["flops"] / r[f"{side}_ms"] / 1e6
    f32, gqa = rows(best, "prefill", "f32"), rows(best, "decode", "bf16", "32/8")
    avx2_gqa = rows(avx2, "decode", "bf16", "32/8")
    mqa = rows(best, "decode", "bf16", "64/1")
    read = [r["bytes"] / r["sixwarp_ms"] / 1e6 for r in gqa]
    most = lambda name: span([r["torch_ms"] * rates[name] * 1e6 / r["bytes"] for r in gqa])
    tenfold = ", ".join(f"d{r['dim']} {r['ratio']:.1f}" for r in mqa)
    return f"""
{best['cpu']}, model 207 with AVX-512, AVX512-BF16 and AMX. It is a virtual machine whose neighbours share its cores' ports, its caches and its memory. Single times vary by a factor of two, which is why the two sides alternate and the best counts. PyTorch is {best['torch']}. Measured {dates(best)} by `{best['command']}`, and {dates(avx2)} by `{avx2['command']}`. Rates of 2 threads: {rates['f32-avx512']:.0f} GFLOP/s f32, {rates['bf16-tiles']:.0f} GFLOP/s bf16 tiles, {rates['read']:.0f} GB/s from memory, {rates['read-cached']:.0f} GB/s from the last cache.

{aims(best, avx2)}

**f32 prefill**: both sides spend their time in multiply-adds, ours at {span([rate(r, 'sixwarp') for r in f32], 0)} GFLOP/s of {rates['f32-avx512']:.0f}, torch at {span([rate(r, 'torch') for r in f32], 0)}. Repeated runs of a row differ by up to a tenth.

**bf16 decode** of 64/1 heads on 640 keys, which stay in the caches: {tenfold} times as fast as torch. {sum(r['ratio'] >= 10 for r in mqa)} of {len(mqa)} rows are at 10 or more. These calls take {span([1e3 * r['sixwarp_ms'] for r in mqa], 0)} µs; torch's own times of them vary from run to run by a factor of two. {NOTE} Where keys come from memory, 8 × 32/8 heads on 4096 keys, no engine can be ten times faster than torch on this machine. With AVX-512 and AMX torch reaches {span([rate(r, 'torch') for r in gqa], 0)} GFLOP/s there, not the {span([rate(r, 'torch') for r in avx2_gqa])} it has on AVX2. Every key and value must be read once. At the rate of a plain read of memory ({rates['read']:.0f} GB/s) that makes {most('read')} the most there is, at the last cache's rate {most('read-cached')}. Ours reads {span(read)} GB/s. Held to AVX2 on both sides, the ratio is {span(ratios(avx2_gqa))} with 4096 keys and {span(ratios(rows(avx2, 'decode', 'bf16', '64/1')))} with 640.

On this machine torch's own choice of instruction set does not work. The hypervisor leaves CPUID leaf 1Dh empty, so oneDNN configures no tile palette and its first tile instruction faults. The benchmark then takes the best setting that runs ({best['torch_instructions']}). Its bf16 prefill reaches {max(rate(r, 'torch') for r in rows(best, 'prefill', 'bf16')):.0f} GFLOP/s even so: MKL does not ask that leaf and seems to use AMX all the same.

![ratios](cpu/cpu.svg)

All rows ([JSON](cpu/cpu.json)):

{markdown_tables(best)}

Both sides held to AVX2 ([JSON](cpu/avx2.json), [chart](cpu/avx2.svg)):

{markdown_tables(avx2)}
"""


def main():
    best, avx2 = (json.loads(pathlib.Path(ROOT, "docs", "cpu", f"{name}.json").read_text()) for name in ("cpu", "avx2"))
    kept = PAGE.read_text().partition(HEADING)[0]
    PAGE.write_text(kept + HEADING + text(best, avx2))


if __name__ == "__main__":
    main()

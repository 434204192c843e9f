"""Predicts launches by the model of time, beside what `time_launches.py` has measured.

    python benches/others/compare.py FOLDER MEASURED.json RESULT.json [--plot PICTURE.svg] [--clusters N]

FOLDER is what `prepare.py` wrote. A page with a table goes to the terminal. Nothing of a kernel but its name and figures
is written.
"""

import argparse
import json
import math
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Kernels whose CTAs differ by their place in the grid need more of them.
UNEVEN = ("causal", "fla-attention")


def predict(sixwarp, folder, clusters, constants):
    registers = json.loads((folder / "facts.json").read_text())["registers"]
    command = [str(sixwarp), "bench", "--device", "sim-sm90", "--launch", str(folder / "launch.json"), "--clusters",
               str(clusters), "--registers", str(registers), "--json", "-"]
    for constant in constants:
        command += ["--constant", constant]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def percentiles(errors):
    sizes = sorted(abs(error) for error in errors)
    ninth = math.ceil(0.9 * len(sizes)) - 1
    return sizes[(len(sizes) - 1) // 2], sizes[ninth], sizes[-1]


def plot(rows):
    """Predicted over measured time; the form of `sixwarp bench --plot`."""
    width, height, left, right, top, bottom = 720, 560, 70, 20, 60, 60
    ratios = [0.6, 0.7, 0.8, 1.0, 1.2, 1.4, 1.6]
    colours = {"triton": "#0072b2", "liger": "#d55e00", "fla": "#009e73", "flash": "#cc79a7", "cutlass": "#000000"}

    def x(us):
        return left + (width - left - right) * math.log10(max(us, 1.0)) / 4

    def y(ratio):
        low, high = math.log(ratios[0]), math.log(ratios[-1])
        up = (min(max(math.log(ratio), low), high) - low) / (high - low)
        return height - bottom - (height - top - bottom) * up

    text = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" font-family="sans-serif" '
            f'font-size="12">', '<rect width="100%" height="100%" fill="#fff"/>',
            f'<text x="{left}" y="24" font-size="15">Kernels by others: predicted over measured time on an H200</text>',
            f'<text x="{left}" y="42" fill="#555">no constant was fitted to any of them; grey band: ±10 %</text>',
            f'<rect x="{left}" y="{y(1.1):.1f}" width="{width - left - right}" height="{y(0.9) - y(1.1):.1f}" '
            f'fill="#eee"/>']
    for ratio in ratios:
        text.append(f'<line x1="{left}" x2="{width - right}" y1="{y(ratio):.1f}" y2="{y(ratio):.1f}" stroke="#ccc"/>'
                    f'<text x="{left - 6}" y="{y(ratio) + 4:.1f}" text-anchor="end">{ratio}</text>')
    for us in (1, 10, 100, 1000, 10000):
        text.append(f'<line x1="{x(us):.1f}" x2="{x(us):.1f}" y1="{top}" y2="{height - bottom}" stroke="#ccc"/>'
                    f'<text x="{x(us):.1f}" y="{height - bottom + 18}" text-anchor="middle">{us} µs</text>')
    for i, (name, colour) in enumerate(colours.items()):
        at = left + 110 * i
        text.append(f'<circle cx="{at}" cy="{height - 22}" r="4" fill="{colour}"/>'
                    f'<text x="{at + 10}" y="{height - 18}">{name}</text>')
    for row in rows:
        colour = colours[row["name"].split("-")[0]]
        text.append(f'<circle cx="{x(row["measured_us"]):.1f}" cy="{y(1 + row["error"]):.1f}" r="4" fill="{colour}">'
                    f'<title>{row["name"]}: {row["measured_us"]:.1f} µs measured, {row["predicted_us"]:.1f} µs '
                    f'predicted</title></circle>')
    return "\n".join(text + ["</svg>"]) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("measured", type=pathlib.Path)
    parser.add_argument("result", type=pathlib.Path)
    parser.add_argument("--plot", type=pathlib.Path)
    parser.add_argument("--clusters", type=int, default=60, help="clusters of kernels whose CTAs differ")
    parser.add_argument("--sixwarp", type=pathlib.Path, default=ROOT / "target/release/sixwarp")
    parser.add_argument("--constant", action="append", default=[])
    options = parser.parse_args()
    measured = json.loads(options.measured.read_text())
    rows = []
    print("| kernel | measured µs | predicted µs | error | bound by |\n|---|---|---|---|---|")
    for row in measured["rows"]:
        folder = options.folder / row["name"]
        if not folder.is_dir():
            continue
        clusters = options.clusters if any(word in row["name"] for word in UNEVEN) else 3
        found = predict(options.sixwarp, folder, clusters, options.constant)
        us = found["microseconds"]
        rows.append(dict(name=row["name"], measured_us=row["measured_us"], predicted_us=round(us, 2),
                         error=round(us / row["measured_us"] - 1, 4), bound=found["bound"],
                         clock_ghz=round(found["clock_ghz"], 3), registers=row["registers"], together=row["together"],
                         measured_mhz=row["mhz"]))
        last = rows[-1]
        print(f"| {last['name']} | {last['measured_us']:.1f} | {us:.1f} | {100 * last['error']:+.1f} % | "
              f"{last['bound']} |", flush=True)
    median, ninth, largest = percentiles([row["error"] for row in rows])
    print(f"\n{len(rows)} kernels: median error {100 * median:.1f} %, 90th percentile {100 * ninth:.1f} %, "
          f"largest {100 * largest:.1f} %")
    facts = {key: measured[key] for key in ("gpu", "driver", "date")}
    options.result.write_text(json.dumps(dict(**facts, rows=rows), indent=1) + "\n")
    if options.plot:
        options.plot.write_text(plot(rows))


if __name__ == "__main__":
    main()

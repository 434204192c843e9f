"""Charts of the sides of a benchmark, each as one SVG file without scripts.

    python benches/chart.py docs/h200/h200.json docs/h200/peers.json > docs/h200/h200.svg
    python benches/chart.py docs/h200/serving.json > docs/h200/serving.svg
"""

import json
import math
import sys
from html import escape

OURS, THEIRS, INK, GREY = "#2f7d5b", "#c9ced6", "#1f2937", "#6b7280"
WIDTH, LEFT, BAR, GAP, TOP = 900, 190, 9, 9, 70


# Small multiples: panels side by side, one above the other, and the room around each.
ACROSS, PANEL_WIDTH, PANEL_HEIGHT, SIDE, BELOW = 4, 180, 150, 38, 52


def draw(about, rows, peers=None):
    """Dense prefill as papers show it: TFLOP/s over the length, a panel per head dim and mask, sixwarp beside torch.

    `peers` is what benches/peers.py wrote, if there is such a file: FlashAttention 3 is drawn from it.
    """
    panels, others = {}, {row["row"]: row["peer"] for row in (peers or {}).get("rows", ()) if row["suite"] == "dense"}
    for row in rows:
        if row["suite"] == "dense":
            dim, mask, length = row["name"].split()
            fa3 = {"fa3_us": others[row["name"]]} if row["name"] in others else {}
            panels.setdefault((mask, dim), []).append((int(length), {**row, **fa3}))
    names = sorted(panels, key=lambda name: (name[0] != "full", int(name[1][1:])))
    height = TOP + -(-len(names) // ACROSS) * (PANEL_HEIGHT + BELOW)
    ceiling = about["matmul_tflops"]
    dates = about["date"] + (f"; FlashAttention 3: {peers['date']}" if peers else "")
    parts = [
        *opening(height),
        text(20, 26, f"sixwarp beside torch on {about['gpu']}, bf16: TFLOP/s over tokens of a sequence", 16, INK),
        text(20, 46, f"16,384 tokens, hidden size 2,048; dashed: a product of 8192 x 8192; {dates}", 11, GREY),
    ]
    for n, (mask, dim) in enumerate(names):
        left = SIDE + n % ACROSS * (PANEL_WIDTH + SIDE)
        top = TOP + n // ACROSS * (PANEL_HEIGHT + BELOW)
        parts += panel(left, top, f"head dim {dim[1:]}, {mask}", sorted(panels[mask, dim], key=lambda row: row[0]), ceiling)
    parts.append("</svg>\n")
    return "\n".join(parts)


def panel(left, top, title, rows, ceiling):
    """One panel: axes, and a line of points for each side."""
    most, lengths = 900.0, [length for length, _ in rows]
    steps = max(1, len(lengths) - 1)
    x = lambda length: left + lengths.index(length) / steps * PANEL_WIDTH
    y = lambda rate: top + PANEL_HEIGHT * (1 - rate / most)
    yield text(left, top - 6, title, 11, INK)
    for rate in range(0, int(most) + 1, 300):
        yield line([(left, y(rate)), (left + PANEL_WIDTH, y(rate))], "#e5e7eb", 1)
        yield text(left - 4, y(rate) + 3, str(rate), 8, GREY, "end")
    yield line([(left, y(ceiling)), (left + PANEL_WIDTH, y(ceiling))], GREY, 0.7, "3 3")
    for length in lengths:
        name = f"{length // 1024}k" if length >= 1024 else str(length)
        yield text(x(length), top + PANEL_HEIGHT + 12, name, 8, GREY, "middle")
    theirs = rows[0][1]["torch_backend"]
    sides = (
        ("torch_us", "#9aa1ad", {"cudnn": "cuDNN"}.get(theirs, f"torch, {theirs}")),
        ("fa3_us", "#b5651d", ""),
        ("ours_us", OURS, "sixwarp"),
    )
    for side, colour, label in sides:
        points = [(x(length), y(row["flops"] / row[side] / 1e6)) for length, row in rows if side in row]
        if not points:
            continue
        if side == "fa3_us":
            yield text(points[0][0] + 4, top + PANEL_HEIGHT - 6, "FlashAttention 3", 9, colour)
        yield line(points, colour, 2)
        yield from (f'<circle cx="{a:.1f}" cy="{b:.1f}" r="2.5" fill="{colour}"/>' for a, b in points)
        yield text(points[-1][0], points[-1][1] + (12 if side == "torch_us" else -6), label, 9, colour, "end")


def line(points, colour, width, dashes=None):
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    dashed = f' stroke-dasharray="{dashes}"' if dashes else ""
    return f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="{width}"{dashed}/>'


def draw_ratios(document):
    """How many times as fast as torch each row is, on a logarithmic axis; the line is 1."""
    rows = document["rows"]
    least = min([0.5, *(row["ratio"] for row in rows)])
    most = max([2.0, *(row["ratio"] for row in rows)])
    left, height = 330, TOP + len(rows) * (BAR + 6) + 20
    place = lambda ratio: left + math.log(ratio / least) / math.log(most / least) * (WIDTH - left - 60)
    subtitle = f"{document['torch_instructions']}; {document['date']}"
    parts = [
        *opening(height),
        text(20, 26, f"sixwarp beside torch {document['torch']}, {document['cpu']}", 16, INK),
        text(20, 46, f"times as fast, {document['threads']} threads; torch: {subtitle}", 11, GREY),
        f'<line x1="{place(1):.1f}" y1="{TOP - 8}" x2="{place(1):.1f}" y2="{height - 14}" stroke="{INK}"/>',
    ]
    for n, row in enumerate(rows):
        y, ends = TOP + n * (BAR + 6), sorted((place(1), place(row["ratio"])))
        colour = OURS if row["ratio"] >= 1 else THEIRS
        parts.append(text(left - 8, y + BAR, row["name"], 10, INK, "end"))
        parts.append(
            f'<rect x="{ends[0]:.1f}" y="{y}" width="{max(1.0, ends[1] - ends[0]):.1f}" height="{BAR}" fill="{colour}"/>'
        )
        parts.append(text(ends[1] + 4, y + BAR - 1, f"{row['ratio']:.2f}", 9, GREY))
    parts.append("</svg>\n")
    return "\n".join(parts)


def draw_batches(document):
    """Microseconds of a server's batches, sixwarp beside FlashAttention 3, and their ratio."""
    rows = [row for row in document["rows"] if "fa3" in row and row["row"].split()[-2] == "page"]
    left, step = 330, 2 * BAR + GAP
    height = TOP + len(rows) * step + 20
    longest = max(max(row["ours"], row["fa3"]) for row in rows)
    width = lambda time: time / longest * (WIDTH - left - 110)
    parts = [
        *opening(height),
        text(20, 26, f"Batches of a server on {document['gpu']}, bf16, head dim 128: microseconds of one call", 16, INK),
        text(20, 46, f"green: sixwarp; grey: FlashAttention 3 ({document['peer']}); behind: their ratio; {document['when']}", 11, GREY),
    ]
    for n, row in enumerate(rows):
        y = TOP + n * step
        parts.append(text(left - 8, y + BAR + 3, row["row"], 10, INK, "end"))
        for side, colour, down in (("ours", OURS, 0), ("fa3", THEIRS, BAR)):
            bar = f'<rect x="{left}" y="{y + down}" width="{width(row[side]):.1f}" height="{BAR}" fill="{colour}"/>'
            parts += [bar, text(left + width(row[side]) + 4, y + down + BAR - 1, f"{row[side]:.0f}", 9, GREY)]
        parts.append(text(WIDTH - 20, y + BAR + 3, f"{row['fa3'] / row['ours']:.2f}", 11, INK, "end"))
    parts.append("</svg>\n")
    return "\n".join(parts)


def opening(height):
    return [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
        f'width="{WIDTH}" height="{height}" font-family="ui-monospace, Menlo, Consolas, monospace">',
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
    ]


def text(x, y, content, size, colour, anchor="start"):
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" fill="{colour}" text-anchor="{anchor}">'
        f"{escape(content)}</text>"
    )


def main():
    about, *peers = (json.load(open(path, encoding="utf-8")) for path in sys.argv[1:3])
    sys.stdout.write(draw(about, about["rows"], *peers) if peers else draw_batches(about))


if __name__ == "__main__":
    main()

"""Bar charts of two sides of a benchmark, each as one SVG file without scripts."""

import math
from html import escape

OURS, THEIRS, INK, GREY = "#2f7d5b", "#c9ced6", "#1f2937", "#6b7280"
WIDTH, LEFT, BAR, GAP, TOP = 900, 190, 9, 9, 70


def draw(about, rows):
    """Time relative to the floor, inverted: a bar that reaches the right edge is at the floor."""
    height = TOP + len(rows) * (2 * BAR + GAP) + 20
    span = WIDTH - LEFT - 110
    parts = [
        *opening(height),
        text(20, 26, f"sixwarp beside torch on {about['gpu']}, bf16", 16, INK),
        text(
            20,
            46,
            f"bars are the share of the floor ({about['matmul_tflops']:.0f} TFLOP/s, "
            f"{about['copy_tbs']:.2f} TB/s); green sixwarp, grey torch; {about['date']}",
            11,
            GREY,
        ),
    ]
    y = TOP
    for row in rows:
        parts.append(text(LEFT - 8, y + BAR + 3, row["name"], 10, INK, "end"))
        for side, colour in (("ours_us", OURS), ("torch_us", THEIRS)):
            if side in row:
                share = min(1.0, row["floor_us"] / row[side])
                width = max(1.0, share * span)
                parts.append(f'<rect x="{LEFT}" y="{y}" width="{width:.1f}" height="{BAR}" fill="{colour}"/>')
                label = f"{row[side]:.1f} us"
                parts.append(text(LEFT + width + 4, y + BAR - 1, label, 8, GREY))
            y += BAR
        y += GAP
    parts.append("</svg>\n")
    return "\n".join(parts)


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

"""A bar chart of two sides of a benchmark, as one SVG file without scripts."""

from html import escape

OURS, THEIRS, INK, GREY = "#2f7d5b", "#c9ced6", "#1f2937", "#6b7280"
WIDTH, LEFT, BAR, GAP, TOP = 900, 190, 9, 9, 70


def draw(about, rows):
    """Time relative to the floor, inverted: a bar that reaches the right edge is at the floor."""
    height = TOP + len(rows) * (2 * BAR + GAP) + 20
    span = WIDTH - LEFT - 110
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
        f'width="{WIDTH}" height="{height}" font-family="ui-monospace, Menlo, Consolas, monospace">',
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
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


def text(x, y, content, size, colour, anchor="start"):
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" fill="{colour}" text-anchor="{anchor}">'
        f"{escape(content)}</text>"
    )

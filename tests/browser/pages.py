"""Opens pages of findings in a real browser, without a window, and looks at what it laid out.

    cargo build --release -p sixwarp-cli && python3 tests/browser/pages.py [SIXWARP] [CHROMIUM]

Every kernel of tests/fail is checked, and each finding has a page. The browser loads all of them, at the width of a
screen and of a phone: headings, the timeline with its bars, and the remedy of two accesses must be visible, and
nothing may be wider than the window. Nothing may be fetched. Needs Chromium, and nothing else but Python.
"""

import html
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
SIXWARP = sys.argv[1] if len(sys.argv) > 1 else ROOT / "target/release/sixwarp"
CHROMIUM = sys.argv[2] if len(sys.argv) > 2 else shutil.which("chromium") or shutil.which("google-chrome")
WIDTHS = (1200, 420)

# Loads a page after the other into a frame and writes down what is seen of it.
LOOK = """<!DOCTYPE html><meta charset="utf-8"><iframe id="frame" style="border:0;height:2000px"></iframe><pre id="seen"></pre>
<script>
const pages = %s, widths = %s, frame = document.getElementById("frame"), seen = [];
const visible = element => { const box = element.getBoundingClientRect(); return box.width > 0 && box.height > 0; };
function look(page, width) {
    const inside = frame.contentDocument, all = name => [...inside.querySelectorAll(name)];
    seen.push({
        page, width,
        title: inside.title,
        headings: all("h1, h2").filter(visible).map(heading => heading.textContent.trim()),
        bars: all("svg rect").filter(visible).length,
        text: inside.body.innerText.length,
        wider: inside.documentElement.scrollWidth - width,
        fetched: frame.contentWindow.performance.getEntriesByType("resource").length,
    });
}
(async () => {
    for (const width of widths) for (const page of pages) {
        frame.style.width = width + "px";
        await new Promise(done => { frame.onload = done; frame.src = page; });
        look(page, width);
    }
    document.getElementById("seen").textContent = JSON.stringify(seen);
})();
</script>"""


def findings(folder):
    """A page per finding of the kernels in tests/fail."""
    subprocess.run([str(SIXWARP), "check", str(ROOT / "tests/fail"), "--html", folder], capture_output=True, check=False)
    return sorted(path.name for path in pathlib.Path(folder).glob("*.html"))


def seen(folder, pages):
    look = pathlib.Path(folder) / "look.htm"
    look.write_text(LOOK % (json.dumps(pages), json.dumps(WIDTHS)))
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--allow-file-access-from-files", "--virtual-time-budget=60000"]
    done = subprocess.run([CHROMIUM, *options, "--dump-dom", look.as_uri()], capture_output=True, text=True, timeout=300)
    found = re.search(r'<pre id="seen">(.*?)</pre>', done.stdout, re.S)
    if not found or not found[1]:
        sys.exit(f"the browser saw nothing:\n{done.stderr[-2000:]}")
    return json.loads(html.unescape(found[1]))


def wrong(page):
    """What is wrong with a page as it was laid out."""
    if not page["title"] or not page["headings"]:
        yield "no title or no heading"
    if "The two accesses" in page["headings"] and "Remedy" not in page["headings"]:
        yield f"headings are {page['headings']}"
    if "Timeline of the warps involved" in page["headings"] and page["bars"] == 0:
        yield "the timeline has no bars"
    if page["wider"] > 0:
        yield f"{page['wider']} pixels wider than the window"
    if page["fetched"]:
        yield f"{page['fetched']} things fetched"
    if page["text"] < 200:
        yield "hardly any text"


def main():
    if CHROMIUM is None:
        sys.exit("no Chromium is installed")
    with tempfile.TemporaryDirectory() as folder:
        pages = findings(folder)
        looked = seen(folder, pages)
    failed = 0
    for page in looked:
        faults = list(wrong(page))
        failed += bool(faults)
        for fault in faults:
            print(f"{page['page']} at {page['width']} pixels: {fault}")
    if len(looked) != len(pages) * len(WIDTHS) or not pages:
        sys.exit(f"{len(pages)} pages, but {len(looked)} looks")
    print(f"{len(looked) - failed} passed, {failed} failed")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()

"""Examples in docstrings and in the README run; the chart of the H200 is that of its figures."""

import doctest
import importlib
import importlib.util
import json
import pathlib

import pytest

MODULES = ["sixwarp", "sixwarp._attention", "sixwarp._merge", "sixwarp.dsv4"]
TORCH = ["sixwarp.torch._attention", "sixwarp.torch._sdpa", "sixwarp.torch._flash", "sixwarp.torch._flash_cache", "sixwarp.flash_mla"]


@pytest.mark.parametrize("name", MODULES)
def test_docstrings(name):
    result = doctest.testmod(importlib.import_module(name))
    assert result.failed == 0 and result.attempted > 0


@pytest.mark.parametrize("name", TORCH)
def test_torch_docstrings(name):
    pytest.importorskip("torch")
    result = doctest.testmod(importlib.import_module(name))
    assert result.failed == 0 and result.attempted > 0


ROOT = pathlib.Path(__file__).resolve().parents[2]
WRITTEN = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("python/*.md")]
PAGES = [path for path in sorted(WRITTEN) if "```python" in path.read_text(encoding="utf-8")]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_pages(path):
    text = path.read_text(encoding="utf-8")
    if "import torch" in text:
        pytest.importorskip("torch")
    # The end of a block is no output of its last line.
    examples = doctest.DocTestParser().get_doctest(text.replace("```", "\n"), {}, path.name, str(path), 0)
    result = doctest.DocTestRunner().run(examples)
    assert result.failed == 0 and result.attempted >= text.count("```python")


def test_the_readmes_are_among_the_pages():
    assert {ROOT / "README.md", ROOT / "python" / "README.md"} <= set(PAGES)


def test_the_chart_of_the_h200_is_current():
    spec = importlib.util.spec_from_file_location("chart", ROOT / "benches" / "chart.py")
    chart = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(chart)
    figures, peers = (json.loads((ROOT / f"docs/h200/{name}.json").read_text(encoding="utf-8")) for name in ("h200", "peers"))
    assert chart.draw(figures, figures["rows"], peers) == (ROOT / "docs/h200/h200.svg").read_text(encoding="utf-8")


def test_the_chart_of_batches_is_current():
    spec = importlib.util.spec_from_file_location("chart", ROOT / "benches" / "chart.py")
    chart = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(chart)
    figures = json.loads((ROOT / "docs/h200/serving.json").read_text(encoding="utf-8"))
    assert chart.draw_batches(figures) == (ROOT / "docs/h200/serving.svg").read_text(encoding="utf-8")

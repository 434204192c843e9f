"""Examples in docstrings and in the README run."""

import doctest
import importlib
import pathlib

import pytest

MODULES = ["sixwarp", "sixwarp._attention", "sixwarp._merge", "sixwarp.dsv4"]
TORCH = ["sixwarp.torch._op", "sixwarp.torch._sdpa", "sixwarp.torch._flash"]


@pytest.mark.parametrize("name", MODULES)
def test_docstrings(name):
    result = doctest.testmod(importlib.import_module(name))
    assert result.failed == 0 and result.attempted > 0


@pytest.mark.parametrize("name", TORCH)
def test_torch_docstrings(name):
    pytest.importorskip("torch")
    result = doctest.testmod(importlib.import_module(name))
    assert result.failed == 0 and result.attempted > 0


def test_readme():
    path = pathlib.Path(__file__).resolve().parents[1] / "README.md"
    result = doctest.testfile(str(path), module_relative=False)
    assert result.failed == 0 and result.attempted > 0

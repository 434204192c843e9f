"""The examples run."""

import pathlib
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch")

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "examples"


def run(*command):
    result = subprocess.run([sys.executable, *map(str, command)], capture_output=True, text=True, timeout=300)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def test_paged_decode():
    where = [] if torch.cuda.is_available() else ["--cpu"]
    output = run(EXAMPLES / "paged_decode.py", "--steps", "5", *where)
    assert "lengths [6, 68, 69, 305]" in output


def test_context_parallel_on_four_processes():
    script = EXAMPLES / "context_parallel.py"
    output = run("-m", "torch.distributed.run", "--nproc-per-node", "4", script, "--cpu")
    assert output.count("the merged result is that of one rank") == 4

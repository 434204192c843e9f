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


HERE = torch.cuda.get_device_name() if torch.cuda.is_available() else "the CPU"


@pytest.mark.parametrize("where", [[], ["--cpu"]], ids=["anywhere", "on the CPU"])
def test_paged_decode(where):
    output = run(EXAMPLES / "paged_decode.py", "--steps", "5", *where)
    assert "lengths [6, 68, 69, 305]" in output
    assert output.startswith(f"on {'the CPU' if where else HERE}")


def test_context_parallel_on_four_processes():
    output = run("-m", "torch.distributed.run", "--nproc-per-node", "4", EXAMPLES / "context_parallel.py")
    assert output.count("the merged result is that of one rank") == 4
    # With fewer GPUs than processes all are on the CPU.
    device = "cuda" if torch.cuda.device_count() >= 4 else "cpu"
    assert output.count(f"on {device}: keys") == 4
    # A GPU that has no kernel for it says so.
    layers = "the layer of DeepSeek-V4 is that of one rank" if device == "cpu" else "layer of DeepSeek-V4"
    assert output.count(layers) == 4


def test_context_parallel_alone():
    output = run(EXAMPLES / "context_parallel.py", "--cpu")
    assert "rank 0 of 1 on cpu: keys 0..1000, the merged result is that of one rank" in output
    assert "rank 0 of 1 on cpu: the layer of DeepSeek-V4 is that of one rank" in output


def test_every_example_is_run_here():
    tests = pathlib.Path(__file__).read_text(encoding="utf-8")
    for example in EXAMPLES.iterdir():
        assert example.suffix != ".py" or f'"{example.name}"' in tests, f"{example.name} has no test"

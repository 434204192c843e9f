"""`sixwarp check -- python …` with torch tensors: what needs Triton and torch together."""

import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.mark.skipif(sys.platform != "linux", reason="commands are checked on Linux only")
def test_a_triton_program_for_cuda_runs_on_torch_tensors_of_the_host():
    pytest.importorskip("torch")
    cargo = ["cargo", "run", "--quiet", "--locked", "-p", "sixwarp-cli", "--"]
    compiler = ROOT / "tests/triton/compile.py"
    home = subprocess.run([sys.executable, compiler, "--home"], check=True, capture_output=True, text=True).stdout
    environment = {**os.environ, "PYTHONPATH": home.strip(), "TRITON_DEFAULT_FP_FUSION": "1"}
    command = [*cargo, "check", "--", sys.executable, ROOT / "tests/triton/check_torch.py"]
    checked = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    told = checked.stdout + checked.stderr
    assert checked.returncode == 0 and "all right" in told, told
    assert "4 launches checked, 0 findings" in told, told

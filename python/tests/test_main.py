"""`python -m sixwarp`."""

import os
import re
import subprocess
import sys

import numpy as np
import pytest

import sixwarp
from sixwarp import _doctor


def run(*arguments, **variables):
    environment = {**os.environ, **variables}
    return subprocess.run([sys.executable, "-m", "sixwarp", *arguments], env=environment, capture_output=True, text=True)


@pytest.fixture
def nowhere(tmp_path):
    """An environment without the program."""
    return dict(PATH=str(tmp_path), CARGO_HOME=str(tmp_path))


def test_help_teaches_and_its_example_runs():
    for arguments in ((), ("--help",), ("-h",), ("help",)):
        result = run(*arguments)
        assert result.returncode == 0 and "python -m sixwarp doctor" in result.stdout
        assert "cargo install --locked --path crates/cli" in result.stdout
    example = "\n".join(re.findall(r"^ {4}(\S.*)", result.stdout, re.M))
    names = {}
    exec(example, names)
    assert names["out"].shape == (1, 16, 8, 128)


def test_the_version_is_the_librarys():
    assert run("--version").stdout == f"sixwarp {sixwarp.__version__}\n"


def test_doctor_finds_what_there_is(nowhere):
    result = run("doctor", **nowhere)
    assert result.returncode == 0, result.stdout + result.stderr
    assert re.search(r"^CPU +pass: float32", result.stdout, re.M)
    assert re.search(rf"^numpy +{re.escape(np.__version__)}$", result.stdout, re.M)
    assert re.search(r"^program +not installed; .*cargo install", result.stdout, re.M)
    assert re.search(r"^GPU", result.stdout, re.M)
    refused = run("doctor", "--json", **nowhere)
    assert refused.returncode == 2 and "--json" in refused.stderr


def test_doctor_fails_where_a_device_does(monkeypatch, capsys):
    monkeypatch.setattr(_doctor, "attention", lambda q, k, v: q * 0)
    assert _doctor.examine(None, "build it") == 1
    assert re.search(r"^CPU +FAILS: float32, largest error", capsys.readouterr().out, re.M)

    def broken(*_):
        raise RuntimeError("the device is gone")

    monkeypatch.setattr(_doctor, "attention", broken)
    assert _doctor.examine(None, "build it") == 1
    assert "FAILS: RuntimeError: the device is gone" in capsys.readouterr().out


def test_a_command_of_the_program_says_how_to_get_it(nowhere):
    result = run("verify", "--device", "cpu", **nowhere)
    assert result.returncode == 2 and result.stdout == ""
    assert "`verify`" in result.stderr and "cargo install --locked --path crates/cli" in result.stderr


@pytest.mark.skipif(os.name != "posix", reason="the program of this test is a script")
@pytest.mark.parametrize("where", ["PATH", "CARGO_HOME"])
def test_a_command_is_handed_to_the_program(tmp_path, where):
    folder = tmp_path / "bin"
    folder.mkdir()
    script = folder / "sixwarp"
    script.write_text('#!/bin/sh\necho "$@"\nexit 7\n')
    script.chmod(0o755)
    places = {"PATH": str(tmp_path), "CARGO_HOME": "/nonexistent"}
    places[where] = str(folder if where == "PATH" else tmp_path)
    result = run("verify", "--device", "cpu", **places)
    assert (result.returncode, result.stdout) == (7, "verify --device cpu\n")

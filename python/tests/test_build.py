"""What is built from the package's folder."""

import pathlib
import shutil
import subprocess
import sys
import tarfile
import zipfile

import pytest

import sixwarp._library

PACKAGE = pathlib.Path(__file__).resolve().parents[1]


@pytest.fixture
def backend(monkeypatch):
    monkeypatch.syspath_prepend(str(PACKAGE / "backend"))
    import sixwarp_build

    return sixwarp_build


def test_a_source_distribution_holds_a_workspace_that_cargo_accepts(backend, tmp_path):
    archive = tmp_path / backend.build_sdist(str(tmp_path))
    assert archive.stat().st_size < 10e6
    with tarfile.open(archive) as tar:
        tar.extractall(tmp_path, **({"filter": "data"} if sys.version_info >= (3, 12) else {}))
    root = tmp_path / archive.name.removesuffix(".tar.gz")
    assert (root / "PKG-INFO").read_text().startswith("Metadata-Version")
    for name in ("pyproject.toml", "backend/sixwarp_build.py", "src/sixwarp/__init__.py", "rust/Cargo.lock"):
        assert (root / name).is_file(), name
    cargo = shutil.which("cargo")
    if cargo is None:
        pytest.skip("there is no cargo")
    command = [cargo, "metadata", "--locked", "--no-deps", "--format-version", "1"]
    subprocess.run(command, cwd=root / "rust", check=True, capture_output=True)


def test_a_wheel_is_small_and_for_every_python(backend, tmp_path, monkeypatch):
    monkeypatch.setenv("SIXWARP_LIBRARY", str(sixwarp._library.path()))
    wheel = tmp_path / backend.build_wheel(str(tmp_path))
    assert "-py3-none-" in wheel.name
    assert wheel.stat().st_size < 10e6, "the wheel was to stay under 10 MB"
    names = zipfile.ZipFile(wheel).namelist()
    assert "sixwarp/py.typed" in names and any(name.startswith("sixwarp/_sixwarp.") for name in names)

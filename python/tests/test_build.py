"""What is built from the package's folder."""

import ast
import inspect
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile

import pytest

import sixwarp
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
    told = float(re.search(r"The wheel has ([\d.]+) MB", (PACKAGE / "README.md").read_text(encoding="utf-8"))[1])
    if sys.platform.startswith("linux"):
        assert abs(wheel.stat().st_size / 1e6 - told) < 0.5, "the README says how large the wheel is"
    names = zipfile.ZipFile(wheel).namelist()
    assert "sixwarp/py.typed" in names and any(name.startswith("sixwarp/_sixwarp.") for name in names)


def test_a_build_that_fails_leaves_what_was_there(backend, tmp_path, monkeypatch):
    monkeypatch.setenv("SIXWARP_LIBRARY", str(tmp_path / "missing.so"))
    out = tmp_path / "out"
    out.mkdir()

    def files():
        yield "a", PACKAGE / "README.md"
        raise OSError("the disk is full")

    monkeypatch.setattr(backend, "sdist_files", files)
    for build in (backend.build_wheel, backend.build_sdist):
        with pytest.raises(OSError):
            build(str(out))
        assert list(out.iterdir()) == []
    kept = out / "kept"
    kept.write_text("before")
    with pytest.raises(OSError), backend.whole(kept) as part:
        part.write_text("half")
        raise OSError("the disk is full")
    assert kept.read_text() == "before" and list(out.iterdir()) == [kept]


def test_an_editable_library_is_replaced_and_not_written_over(backend, tmp_path, monkeypatch):
    library, package = tmp_path / "built.so", tmp_path / "package"
    package.mkdir()
    monkeypatch.setenv("SIXWARP_LIBRARY", str(library))
    monkeypatch.setattr(backend, "PACKAGE", package)
    placed = package / backend.library_names()[1]
    library.write_bytes(b"first")
    backend.build_editable(str(tmp_path))
    with open(placed, "rb") as loaded:
        library.write_bytes(b"second")
        backend.build_editable(str(tmp_path))
        assert loaded.read() == b"first" and placed.read_bytes() == b"second"


def test_the_stubs_name_the_parameters_there_are():
    tree = ast.parse((PACKAGE / "src" / "sixwarp" / "__init__.pyi").read_text(encoding="utf-8"))
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef) and node.name[0] != "_"]
    stubs = [(sixwarp, node) for node in tree.body if isinstance(node, ast.FunctionDef)]
    stubs += [(getattr(sixwarp, x.name), node) for x in classes for node in x.body if isinstance(node, ast.FunctionDef)]
    checked = set()
    for owner, node in stubs:
        found = inspect.getattr_static(owner, node.name)
        if isinstance(found, property):
            continue
        named = [argument.arg for argument in node.args.args + node.args.kwonlyargs]
        assert named == list(inspect.signature(found).parameters), node.name
        checked.add(node.name)
    assert checked == {"attention", "plan", "merge", "supports", "__call__"}

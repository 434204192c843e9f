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
from sixwarp import _parameters

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


@pytest.fixture
def spell_out():
    import importlib.util

    spec = importlib.util.spec_from_file_location("spell_out", PACKAGE / "spell_out.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_what_files_repeat_of_the_table_of_parameters_is_current(spell_out):
    found = {path.name: text == wanted for path, text, wanted in spell_out.files()}
    spelled = {"recipe.rs", "__init__.pyi", "_attention.py", "_attention.pyi", "_planned.py", "_prepare.py"}
    assert spelled | {"_eager.py", "_sdpa.py", "_flash.py"} == set(found)
    assert all(found.values()), f"{found}: run `python python/spell_out.py`"


def test_a_parameter_that_the_table_gets_is_spelled_out_everywhere(spell_out, monkeypatch):
    table = spell_out.TABLE
    added = table.PARAMETERS[0]._replace(name="novel", default="novel", annotation="Any", stub="Any", read=None)
    monkeypatch.setattr(table, "PARAMETERS", (*table.PARAMETERS, added))
    monkeypatch.setattr(table, "TENSORS", (*table.TENSORS, "novel"))
    filled = {"tensors": table.TENSORS, "options": table.OPTIONS, "call": (*table.TENSORS, *table.OPTIONS)}
    monkeypatch.setattr(spell_out, "FILLED", filled)
    for path, text, wanted in spell_out.files():
        assert "novel" not in text.lower() and "novel" in wanted.lower(), path


def test_signatures_and_fields_are_those_of_the_table():
    keywords = {p.name: p.default for p in _parameters.PARAMETERS}
    for function, own in ((sixwarp.attention, ()), (sixwarp.plan, ()), (sixwarp.supports, ("device",))):
        found = inspect.signature(function).parameters
        extra = {name for name in found if name not in ("q", "k", "v", *own)}
        left_out = set() if function is sixwarp.attention else {"stream"}
        assert extra == set(keywords) - left_out
        assert all(found[name].default == keywords[name] for name in extra)
    assert sixwarp._attention.Tensors._fields == _parameters.TENSORS
    assert sixwarp._attention.Options._fields == _parameters.OPTIONS


@pytest.mark.parametrize("window", [None, (3, 0), (None, 0), (3, None)])
def test_options_are_the_same_behind_the_operator(window):
    options = [f"<{name}>" for name in _parameters.OPTIONS]
    options[_parameters.OPTIONS.index("window")] = window
    options[_parameters.OPTIONS.index("return_lse")] = True
    assert _parameters.from_operator(_parameters.to_operator(options)) == tuple(options)
    arguments = _parameters.operator_schema().partition("(")[2].partition(")")[0].split(", ")
    assert len(arguments) == len(_parameters.OPERATOR_TENSORS) + len(_parameters.to_operator(options))


def test_the_docstring_of_attention_names_every_parameter():
    assert [p.name for p in _parameters.PARAMETERS if f"`{p.name}" not in sixwarp.attention.__doc__] == []

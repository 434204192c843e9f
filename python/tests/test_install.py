"""`pip install` from the package's folder: what is seen on a terminal, and that nothing is elsewhere."""

import importlib.metadata
import os
import pathlib
import re
import subprocess
import sys

import pytest

import sixwarp._library

pty = pytest.importorskip("pty")
# It is not imported, nor is its module looked for: setuptools would leave `distutils` alone from then on, and fail.
if not any(importlib.metadata.distributions(name="pip")):
    pytest.skip("there is no pip", allow_module_level=True)
PACKAGE = pathlib.Path(__file__).resolve().parents[1]

# Prints what cargo prints, `\r` for progress, and puts a library where cargo would.
CARGO = """#!{python}
import os, pathlib, shutil, sys
if os.environ.get("CARGO_TERM_PROGRESS_WHEN") == "always":
    for text in ("    Updating crates.io index\\n", "   Compiling ahead v1.0\\n",
                 "    Building [==>     ] 3/7: ahead, behind    \\r", "    Building [=======>] 7/7: behind \\r"):
        sys.stderr.write(text)
        sys.stderr.flush()
else:
    print("   Compiling ahead v1.0", file=sys.stderr)
if "{error}":
    sys.exit("{error}")
folder = pathlib.Path(os.environ["CARGO_TARGET_DIR"], "release")
folder.mkdir(parents=True, exist_ok=True)
shutil.copy("{library}", folder / "{name}")
"""


def name_of_the_library():
    return {"darwin": "libsixwarp_python.dylib", "win32": "sixwarp_python.dll"}.get(sys.platform, "libsixwarp_python.so")


@pytest.fixture
def machine(tmp_path):
    """An environment whose cargo takes no time."""

    def make(error=""):
        cargo = tmp_path / "bin" / "cargo"
        cargo.parent.mkdir()
        library, name = sixwarp._library.path(), name_of_the_library()
        cargo.write_text(CARGO.format(python=sys.executable, error=error, library=library, name=name))
        cargo.chmod(0o755)
        hidden = ("CI", "PIP_QUIET", "PIP_VERBOSE", "SIXWARP_LIBRARY", "PYTHONPATH")
        kept = {name: value for name, value in os.environ.items() if name not in hidden}
        path = f"{cargo.parent}{os.pathsep}{os.environ['PATH']}"
        return {**kept, "PATH": path, "CARGO_TARGET_DIR": str(tmp_path / "target"), "NO_COLOR": "1"}

    return make


def command(folder, *options):
    pip = [sys.executable, "-I", "-m", "pip", "--disable-pip-version-check", "install", "--no-deps", "--no-index"]
    return [*pip, *options, "--target", str(folder), str(PACKAGE)]


# Makes its standard input the terminal of its session, and becomes the command it is given.
ADOPT = "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execvp(sys.argv[1], sys.argv[1:])"


def on_a_terminal(arguments, environment):
    """The exit status of a command that has a terminal, and what was written there."""
    terminal, theirs = pty.openpty()
    streams = dict(stdin=theirs, stdout=theirs, stderr=theirs)
    adopting = [sys.executable, "-c", ADOPT, *arguments]
    with subprocess.Popen(adopting, env=environment, start_new_session=True, **streams) as process:
        os.close(theirs)
        output = b"".join(iter(lambda: read(terminal), b""))
    os.close(terminal)
    return process.returncode, output.decode(errors="replace")


def read(terminal):
    """What comes next; nothing when everybody has closed the other end, which Linux calls an error."""
    try:
        return os.read(terminal, 4096)
    except OSError:
        return b""


def is_installed(folder):
    return (folder / "sixwarp" / "__init__.py").is_file() and any((folder / "sixwarp").glob("_sixwarp.*"))


def test_a_terminal_shows_how_far_cargo_is(machine, tmp_path):
    folder = tmp_path / "site"
    code, output = on_a_terminal(command(folder), machine())
    assert code == 0 and is_installed(folder), output
    told = ("compiling the Rust library", "Updating crates.io index", "3 of 7 crates compiled, now ahead, behind")
    places = [output.find(f"sixwarp: {text}") for text in told]
    assert -1 not in places and places == sorted(places), output
    assert re.search(r"sixwarp: compiled after \d+ s", output)
    assert output.index("Building wheel") < places[0], "what takes minutes is not called preparing metadata"


def test_a_failure_on_a_terminal_keeps_what_cargo_said(machine, tmp_path):
    code, output = on_a_terminal(command(tmp_path / "site"), machine("error: it does not compile"))
    assert code != 0 and "sixwarp: cargo failed" in output
    assert "Compiling ahead" in output and "error: it does not compile" in output


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="what pip was told is known on Linux")
@pytest.mark.parametrize("options, variables", [(["-q"], {}), (["-v"], {}), ([], {"CI": "true"})])
def test_who_wants_quiet_or_everything_gets_it(machine, tmp_path, options, variables):
    folder = tmp_path / "site"
    code, output = on_a_terminal(command(folder, *options), {**machine(), **variables})
    assert code == 0 and is_installed(folder), output
    assert "compiling the Rust" not in output


def test_without_a_terminal_nothing_is_added(machine, tmp_path):
    folder = tmp_path / "site"
    result = subprocess.run(command(folder), env=machine(), capture_output=True, text=True, start_new_session=True)
    assert result.returncode == 0 and is_installed(folder), result.stderr
    assert "compiling the Rust" not in result.stdout + result.stderr


def test_metadata_are_those_of_the_wheel(machine, tmp_path, monkeypatch):
    import zipfile

    monkeypatch.syspath_prepend(str(PACKAGE / "backend"))
    monkeypatch.setenv("SIXWARP_LIBRARY", str(sixwarp._library.path()))
    import sixwarp_build

    folder = sixwarp_build.prepare_metadata_for_build_wheel(str(tmp_path))
    wheel = zipfile.ZipFile(tmp_path / sixwarp_build.build_wheel(str(tmp_path)))
    for name in ("METADATA", "WHEEL", "entry_points.txt"):
        assert (tmp_path / folder / name).read_bytes() == wheel.read(f"{folder}/{name}")


def test_serving_engines_find_the_plug_ins_that_the_project_names(tmp_path, monkeypatch):
    import tomllib

    monkeypatch.syspath_prepend(str(PACKAGE / "backend"))
    import sixwarp_build

    folder = tmp_path / sixwarp_build.prepare_metadata_for_build_wheel(str(tmp_path))
    named = tomllib.loads((PACKAGE / "pyproject.toml").read_text())["project"]["entry-points"]
    found = importlib.metadata.PathDistribution(folder).entry_points
    assert {(x.group, x.name, x.value) for x in found} == {(g, n, v) for g, e in named.items() for n, v in e.items()}
    for entry in found:
        assert callable(entry.load())

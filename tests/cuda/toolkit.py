"""Prints the folder of a CUDA toolkit: nvcc and what it needs to compile and link a program.

usage: toolkit.py

The parts come from PyPI, pinned by version and hash, into `target/cuda/VERSION` (or SIXWARP_CACHE): 130 MB to
fetch, 0.5 GB on disk. nvcc itself calls a C++ compiler of the system.
"""

import fcntl
import os
import shutil
import subprocess
import sys
from pathlib import Path

VERSION = "13.4.92"
# Wheels for Linux on x86-64.
WHEELS = {
    "nvidia-cuda-nvcc": ("13.4.92", "a1f3bfb27299e060b444d5df1f4bcd762501326cf0fd3141ed61756816ab9a0e"),
    "nvidia-nvvm": ("13.4.92", "e4c81cb321dd9743bcf871c5e7e8fecd7f05dea607944426e102bdda8d49e137"),
    "nvidia-cuda-crt": ("13.4.92", "731ce3de11df8add8306404417a1edaede225dbe27eb233aed37c8de9d4fe720"),
    "nvidia-cuda-runtime": ("13.4.92", "9641f797da20ce1dd8e779b6e96d08cf9ba564cec8e8225458811ee26423f3a5"),
    "nvidia-cuda-cccl": ("13.3.5.0.6", "d5230098fa2df5021e1a00c0c4eee41797671a91119d31e892463e5ccf3ee326"),
}
HERE = Path(__file__).resolve().parent
TARGET = Path(os.environ.get("CARGO_TARGET_DIR") or HERE.parents[1] / "target")
CACHE = Path(os.environ.get("SIXWARP_CACHE") or TARGET) / "cuda"
# Where the wheels put everything.
INSIDE = Path("nvidia/cu13")


def install(part):
    """Unpacks the wheels into a folder that does not exist yet."""
    requirements = part.with_suffix(".txt")
    lines = (f"{name}=={version} --hash=sha256:{digest}\n" for name, (version, digest) in WHEELS.items())
    requirements.write_text("".join(lines))
    pip = [sys.executable, "-I", "-m", "pip", "install", "--quiet", "--no-deps", "--require-hashes",
           "--only-binary", ":all:", "--disable-pip-version-check", "--root-user-action=ignore",
           "--target", str(part), "--requirement", str(requirements)]
    if subprocess.run(pip).returncode != 0:
        raise SystemExit("cannot install NVIDIA's compiler from PyPI: this needs the network once, on Linux on x86-64")
    home = part / INSIDE
    for program in [*home.glob("bin/*"), *home.glob("nvvm/bin/*")]:
        if program.is_file():
            program.chmod(0o755)
    # The linker looks for a name without a number.
    (home / "lib/libcudart.so").symlink_to("libcudart.so.13")


def main():
    home = CACHE / VERSION
    CACHE.mkdir(parents=True, exist_ok=True)
    with open(CACHE / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not home.is_dir():
            part = home.with_suffix(".part")
            shutil.rmtree(part, ignore_errors=True)
            install(part)
            part.rename(home)
    print(home / INSIDE)


if __name__ == "__main__":
    main()

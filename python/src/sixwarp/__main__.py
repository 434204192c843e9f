"""`python -m sixwarp`: looks at this installation, or hands a command to the `sixwarp` program."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from typing import List, Optional

from . import __version__

HELP = """\
usage: python -m sixwarp doctor       what this installation has, and whether it computes what it should
       python -m sixwarp --version
       python -m sixwarp COMMAND ...   a command of the sixwarp program: demo, run, verify, bench, ptx, sim, ...

In Python:

    import numpy as np, sixwarp
    q = np.ones((1, 16, 8, 128), np.float32)     # batch, tokens, heads, dim
    kv = np.ones((1, 300, 2, 128), np.float32)   # fewer heads of keys and values
    out = sixwarp.attention(q, kv, kv, causal=True)

torch tensors are taken too, and run where they are. `help(sixwarp.attention)` lists the options; `sixwarp.torch`
stands in for torch's SDPA and for flash-attn, `sixwarp.transformers` is for models.

The sixwarp program is built with Rust, in a checkout: cargo install --locked --path crates/cli
"""
BUILD = "build it with Rust, in a checkout of sixwarp: cargo install --locked --path crates/cli"


def main(arguments: List[str]) -> int:
    """Runs a command; returns the exit status."""
    first = arguments[0] if arguments else "--help"
    if first in ("-h", "--help", "help"):
        print(HELP, end="")
    elif first in ("-V", "--version"):
        print(f"sixwarp {__version__}")
    elif first == "doctor":
        return doctor(arguments[1:])
    else:
        return hand_over(arguments)
    return 0


def doctor(options: List[str]) -> int:
    """Looks at this installation."""
    from ._doctor import examine

    if options:
        print(f"sixwarp: {options[0]}: doctor takes no options here; that of the sixwarp program does", file=sys.stderr)
        return 2
    return examine(program(), BUILD)


def program() -> Optional[str]:
    """The `sixwarp` program: on PATH, or where cargo installs."""
    home = os.environ.get("CARGO_HOME") or os.path.join(os.path.expanduser("~"), ".cargo")
    return shutil.which("sixwarp") or shutil.which("sixwarp", path=os.path.join(home, "bin"))


def hand_over(arguments: List[str]) -> int:
    """Becomes the `sixwarp` program where that can be; else runs it."""
    path = program()
    if path is None:
        print(f"sixwarp: `{arguments[0]}` is for the sixwarp program, which is not installed; {BUILD}", file=sys.stderr)
        return 2
    if os.name == "posix":
        os.execv(path, ["sixwarp", *arguments])
    return subprocess.call([path, *arguments])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""What a user of `pip install` sees while cargo compiles.

Compiling takes minutes, and pip hides what a build prints. It is written to the terminal itself, unless there is none,
the build's output is seen anyway (`pip -v`, `python -m build`), or the user wants quiet (`pip -q`) or runs CI.
"""

import contextlib
import os
import re
import subprocess
import sys
import time

# Cargo's progress bar: `    Building [=====>    ] 35/93: sixwarp-ptx, sixwarp-cpu`.
_BAR = re.compile(rb"^ *Building \[[^]]*\] (\d+)/(\d+): (.*?) *$")
# Lines of cargo that say what it waits for.
_WAITS = re.compile(rb"^ *(Blocking|Updating|Downloading|Downloaded|info:) ")
# `-q`, `-qq`, `-vq` and the like.
_SHORT = re.compile(r"-[a-zA-Z]*[qv][a-zA-Z]*")


class Terminal:
    """Lines on a terminal, the last of which may be replaced."""

    def __init__(self, descriptor):
        self.descriptor, self.is_open = descriptor, False

    def write(self, text):
        # A terminal that has gone is no reason for a build to fail.
        with contextlib.suppress(OSError):
            os.write(self.descriptor, text.encode())

    def status(self, text):
        """Shows `text` in place of the last status; the first one begins below what pip has written."""
        start = "\r\x1b[K" if self.is_open else "\n"
        self.is_open = True
        self.write(start + f"  sixwarp: {text}"[: self.columns() - 1])

    def line(self, text):
        """Shows `text` in place of the last status, to stay."""
        self.status(text)
        self.is_open = False

    def columns(self):
        with contextlib.suppress(OSError):
            return os.get_terminal_size(self.descriptor).columns or 80
        return 80


@contextlib.contextmanager
def terminal():
    """The terminal, or None where nothing is to be shown."""
    descriptor = None if os.environ.get("CI") or sys.stderr.isatty() or _has_its_say() else _open()
    try:
        yield None if descriptor is None else Terminal(descriptor)
    finally:
        if descriptor is not None:
            os.close(descriptor)


def _open():
    """The controlling terminal, if this is not a job in its background."""
    try:
        descriptor = os.open("/dev/tty", os.O_WRONLY | os.O_NOCTTY)
    except OSError:
        return None
    with contextlib.suppress(OSError):
        if os.tcgetpgrp(descriptor) == os.getpgrp():
            return descriptor
    os.close(descriptor)
    return None


def _has_its_say():
    """Whether the front end was told how much to show; known where processes can be looked up (Linux)."""
    try:
        with open(f"/proc/{os.getppid()}/cmdline", encoding="utf-8", errors="replace") as file:
            words = file.read().split("\0")
    except OSError:
        words = []
    told = any(word in ("--quiet", "--verbose") or _SHORT.fullmatch(word) for word in words[1:])
    return told or any(os.environ.get(name, "0") not in ("", "0") for name in ("PIP_QUIET", "PIP_VERBOSE"))


def run_cargo(command, folder):
    """Runs cargo, whose output goes where this process's goes, and its progress to the terminal."""
    with terminal() as shown:
        if shown is None:
            subprocess.run(command, cwd=folder, check=True)
            return
        # With the first output pip says what it is doing; lines go below that.
        print(*command, file=sys.stderr, flush=True)
        time.sleep(0.2)
        start = time.monotonic()
        shown.line("compiling the Rust library; the first time this takes minutes")
        code = _watch(command, folder, shown)
        result = "compiled" if code == 0 else "cargo failed, as told below,"
        shown.line(f"{result} after {time.monotonic() - start:.0f} s")
        shown.write("\n")
    if code:
        raise subprocess.CalledProcessError(code, command)


def _watch(command, folder, shown):
    said = []
    # Cargo counts crates where it believes that somebody looks on.
    bar = {"CARGO_TERM_PROGRESS_WHEN": "always", "CARGO_TERM_PROGRESS_WIDTH": "100"}
    with subprocess.Popen(command, cwd=folder, env={**os.environ, **bar}, stderr=subprocess.PIPE) as process:
        for piece in _pieces(process.stderr):
            counted = _BAR.match(piece)
            if counted:
                done, crates, names = (part.decode(errors="replace") for part in counted.groups())
                shown.status(f"{done} of {crates} crates compiled, now {names}")
                continue
            if _WAITS.match(piece):
                shown.status(piece.decode(errors="replace").strip())
            said.append(piece + b"\n")
    # Not before: at each output pip turns its spinner, wherever the cursor is.
    sys.stderr.buffer.writelines(said)
    return process.returncode


def _pieces(stream):
    """What is between ends of lines and returns of the carriage, as it comes."""
    rest = b""
    while True:
        chunk = stream.read1(4096)
        *pieces, rest = re.split(rb"[\r\n]", rest + chunk)
        yield from filter(None, pieces)
        if not chunk:
            if rest:
                yield rest
            return

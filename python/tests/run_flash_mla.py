"""FlashMLA's own test files against `sixwarp.flash_mla`, on a GPU.

    PYTHONPATH=python/src python python/tests/run_flash_mla.py FLASHMLA/tests
    python python/tests/run_flash_mla.py FLASHMLA/tests --files sparse_decoding --every 1

The files are FlashMLA's, unchanged: only the module `flash_mla` they import is sixwarp's. Their timings look for
kernels by FlashMLA's names, so they are told that a profiler runs, as which they skip timings by themselves. With
`--every N` one case in N is computed, and the others are skipped. Without it few are, because nearly every case of
dense decode is another problem, whose kernel takes more than a second to compile.
"""

import argparse
import importlib
import os
import sys
import time
import types
from pathlib import Path

# Each file, and one in how many of its cases is computed unless it is said.
FILES = {"dense_decoding": 61, "sparse_decoding": 23, "sparse_prefill": 7}


def stand_in_for_rich():
    """A `rich` that prints nothing, where it is not installed: the files draw one table with it."""
    try:
        importlib.import_module("rich.table")
    except ImportError:
        ignore = type("Ignore", (), {"__init__": lambda self, *a, **k: None, "__getattr__": lambda self, _: print_nothing})
        rich = types.ModuleType("rich")
        rich.console, rich.table = types.ModuleType("rich.console"), types.ModuleType("rich.table")
        rich.console.Console, rich.table.Table = ignore, ignore
        sys.modules.update({"rich": rich, "rich.console": rich.console, "rich.table": rich.table})


def print_nothing(*_args, **_keywords):
    pass


def prepare(folder):
    """Makes FlashMLA's files importable, with sixwarp in the place of `flash_mla`."""
    os.environ.setdefault("NSYS_PROFILING_SESSION_ID", "none")
    os.environ.setdefault("NO_COOLDOWN", "1")
    import sixwarp.flash_mla

    sys.modules["flash_mla"] = sixwarp.flash_mla
    sys.path.insert(0, str(folder))
    stand_in_for_rich()


class Some:
    """One call in `every`; the others return what `skipped` says."""

    def __init__(self, call, every, skipped):
        self.call, self.every, self.skipped = call, every, skipped
        self.seen = self.computed = 0

    def __call__(self, case):
        self.seen += 1
        if (self.seen - 1) % self.every:
            return self.skipped
        self.computed += 1
        return self.call(case)


def dense_decoding(every):
    import torch

    tests = importlib.import_module("test_flash_mla_dense_decoding")
    tests.test_flash_mla = some = Some(tests.test_flash_mla, every, None)
    tests.main(torch.bfloat16)
    return some


def sparse_decoding(every):
    tests = importlib.import_module("test_flash_mla_sparse_decoding")
    # A case that was not computed counts as right, and has no figures.
    tests.test_flash_mla = some = Some(tests.test_flash_mla, every, tests.Result(True, *[0.0] * 6))
    tests.main()
    return some


def sparse_prefill(every):
    """The cases of this file are made where it runs as a program, so it is run as one."""
    path = next(Path(place, "test_flash_mla_sparse_prefill.py") for place in sys.path if Path(place, "lib.py").exists())
    scope = {"__name__": "__main__", "__file__": str(path)}
    source = path.read_text(encoding="utf-8")
    definitions, program = source.split("\nif __name__ == '__main__':\n")
    exec(compile(definitions, str(path), "exec"), scope)
    scope["run_test"] = some = Some(scope["run_test"], every, True)
    padding = "\n" * (definitions.count("\n") + 1)
    exec(compile(f"{padding}if True:\n{program}", str(path), "exec"), scope)
    return some


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="FlashMLA's tests folder")
    parser.add_argument("--files", nargs="+", choices=[*FILES], default=[*FILES])
    parser.add_argument("--every", type=int, help="one case in so many, of every file")
    options = parser.parse_args()
    prepare(options.folder.resolve())
    failed, report = False, []
    for name in options.files:
        begin = time.monotonic()
        try:
            some = globals()[name](options.every or FILES[name])
            report.append(f"{name}: {some.computed} of {some.seen} cases computed, all right")
        except (AssertionError, SystemExit) as failure:
            failed = True
            report.append(f"{name}: FAILED ({failure!r})")
        report[-1] += f", {time.monotonic() - begin:.0f} s"
    print("\n".join(report))
    sys.exit(failed)


if __name__ == "__main__":
    main()

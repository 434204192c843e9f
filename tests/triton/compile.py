"""Compiles the Triton kernels of this folder to PTX ahead of time; no GPU is needed.

usage: compile.py [--out DIR] [--list] [--home] [NAME ...]

Each kernel is written as `NAME_smARCH.ptx` beside `NAME_smARCH.json`, which says how to launch it:

    kernel        name of the entry
    arch          90 or 100
    shared        bytes of dynamic shared memory
    num_warps     warps per block that the launch gives (`threads` = 32 * all warps)
    threads       threads per block, those of warp-specialised partitions included
    cluster       cluster dimensions
    num_stages    pipeline depth
    params        the parameters of the entry in order: {name, kind, type}; a tensor descriptor is
                  a `tensor_map` of 128 bytes, then a `shape` (i32) and a `stride` (i64, elements)
                  per dimension; the last two are scratch pointers
    tensor_maps   per tensor-map parameter: box, swizzle, element size as the kernel expects them
    constants     compile-time arguments
    global_scratch, profile_scratch   bytes per block that the scratch pointers must have

Triton comes from PyPI, pinned, into `target/triton/VERSION`. Files that are up to date stay.
"""

import argparse
import contextlib
import fcntl
import hashlib
import importlib
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

TRITON = "3.9.0"
HERE = Path(__file__).resolve().parent
TARGET = Path(os.environ.get("CARGO_TARGET_DIR") or HERE.parents[1] / "target")
CACHE = Path(os.environ.get("SIXWARP_CACHE") or TARGET) / "triton"


@contextlib.contextmanager
def exclusive(path):
    """Lets one process at a time through."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def install_triton():
    """Makes `import triton` find the pinned release, fetching it if it is not there yet."""
    home = CACHE / TRITON
    if not home.is_dir():
        part = home.with_suffix(".part")
        shutil.rmtree(part, ignore_errors=True)
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(part),
               "--disable-pip-version-check", "--root-user-action=ignore",
               "--only-binary", ":all:", f"triton=={TRITON}"]
        if subprocess.run(pip).returncode != 0:
            raise SystemExit(f"cannot install triton=={TRITON} from PyPI into {home}: the Triton "
                             f"tests need the network once, or that folder filled by hand "
                             f"(`{' '.join(pip[1:]).replace('.part', '')}`)")
        part.rename(home)
    sys.path.insert(0, str(home))
    os.environ.setdefault("TRITON_CACHE_DIR", str(CACHE / "cache"))
    os.environ.setdefault("TRITON_DEFAULT_FP_FUSION", "1")


def source_key(case, arch):
    """Changes whenever the compiled kernel could."""
    text = (HERE / f"{case.module}.py").read_text() + Path(__file__).read_text()
    return hashlib.sha256(f"{TRITON} {arch} {case!r} {text}".encode()).hexdigest()


def ast_source(case):
    """The case in Triton's own terms: signature, constants and divisibility promises."""
    from triton.compiler import ASTSource

    function = getattr(importlib.import_module(case.module), case.function)
    signature, constants, attributes = {}, dict(case.constants), {}
    for position, name in enumerate(function.arg_names):
        value = case.args.get(name)
        if isinstance(value, str):
            signature[name], promised, _ = value.partition(":16")
            if promised:
                attributes[(position,)] = [["tt.divisibility", 16]]
        else:
            constants[name] = constants[name] if value is None else value
            signature[name] = "constexpr"
    return ASTSource(function, signature, constants, attributes), signature, constants


def entry_params(signature):
    """The parameters of the PTX entry, in order."""
    params = []
    for name, type_ in signature.items():
        if type_ == "constexpr":
            continue
        descriptor = re.match(r"tensordesc<\w+\[([\d,\s]+)\]", type_)
        if descriptor:
            rank = descriptor[1].count(",") + 1
            params.append(dict(name=name, kind="tensor_map", type=type_))
            params += [dict(name=f"{name}.shape{i}", kind="shape", type="i32") for i in range(rank)]
            params += [dict(name=f"{name}.stride{i}", kind="stride", type="i64") for i in range(rank)]
        else:
            kind = "pointer" if type_.startswith("*") else "scalar"
            params.append(dict(name=name, kind=kind, type=type_))
    scratch = [dict(name=n, kind="scratch", type="*i8") for n in ("global_scratch", "profile_scratch")]
    return params + scratch


def threads_per_block(ptx, num_warps):
    """`.reqntid` counts the warps of warp-specialised partitions; without it there are none."""
    found = re.search(r"\.reqntid\s+(\d+)", ptx)
    return int(found[1]) if found else 32 * num_warps


def compile_case(case, arch, out, key):
    import triton
    from triton.backends.compiler import GPUTarget

    source, signature, constants = ast_source(case)
    options = dict(num_warps=case.num_warps, num_stages=case.num_stages, num_ctas=case.num_ctas,
                   **case.options)
    kernel = triton.compile(source, target=GPUTarget("cuda", arch, 32), options=options)
    ptx, meta = kernel.asm["ptx"], kernel.metadata
    maps = [p["name"] for p in entry_params(signature) if p["kind"] == "tensor_map"]
    facts = dict(
        kernel=meta.name, arch=arch, shared=meta.shared, num_warps=case.num_warps,
        threads=threads_per_block(ptx, case.num_warps), cluster=[case.num_ctas, 1, 1],
        num_stages=case.num_stages, params=entry_params(signature),
        tensor_maps=dict(zip(maps, meta.tensordesc_meta or [])), constants=constants,
        global_scratch=meta.global_scratch_size, profile_scratch=meta.profile_scratch_size,
        triton=TRITON, key=key,
    )
    stem = out / f"{case.name}_sm{arch}"
    stem.with_suffix(".ptx").write_text(ptx)
    # Last, so that a key is only ever seen beside its PTX.
    stem.with_suffix(".json").write_text(json.dumps(facts, indent=1) + "\n")


def is_current(stem, key):
    try:
        current = json.loads(stem.with_suffix(".json").read_text())["key"] == key
        return current and stem.with_suffix(".ptx").is_file()
    except (OSError, ValueError, KeyError):
        return False


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=CACHE / "ptx")
    parser.add_argument("--list", action="store_true", help="print the kernels and stop")
    parser.add_argument("--home", action="store_true", help="print where Triton is installed and stop")
    parser.add_argument("names", nargs="*", metavar="NAME", help="only these (NAME_smARCH)")
    options = parser.parse_args()
    sys.path.insert(0, str(HERE))
    from cases import CASES

    wanted = {f"{c.name}_sm{arch}": (c, arch) for c in CASES for arch in c.archs}
    if unknown := [n for n in options.names if n not in wanted]:
        raise SystemExit(f"no such kernel: {', '.join(unknown)}; there are {', '.join(wanted)}")
    if options.list:
        print("\n".join(wanted))
        return
    if options.home:
        with exclusive(CACHE / "lock"):
            install_triton()
        print(CACHE / TRITON)
        return
    with exclusive(CACHE / "lock"):
        options.out.mkdir(parents=True, exist_ok=True)
        for name in options.names or wanted:
            case, arch = wanted[name]
            key = source_key(case, arch)
            if not is_current(options.out / name, key):
                if "triton" not in sys.modules:
                    install_triton()
                print(f"triton {TRITON}: compiling {name}", file=sys.stderr)
                compile_case(case, arch, options.out, key)


if __name__ == "__main__":
    main()

"""What is run first on a GPU that nobody has tried yet, and packed into one archive to send back.

    cargo build --release -p sixwarp-cli -p sixwarp-filetest && cargo build --release -p sixwarp-cuda --example smoke
    python3 benches/first_hour.py --bin target/release --out first-hour

docs/first-hour-on-a-b200.md says what each step proves. A step that fails does not keep later ones from running; one
that takes too long is ended. The exit status is 1 if any failed. `--stand-in LIBRARY` rehearses all of it without a GPU:
the driver is then this project's simulator, as a Blackwell, and steps take few cases. Needs nothing but Python.
"""

import argparse
import datetime
import json
import os
import pathlib
import platform
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
# In a rehearsal: a few seconds each on the simulator.
FEW_FILES = ("tma_load_2d", "tma_gather4", "tcgen05_mma_pair")
FEW_CASES = "mqa-d64-t1-s128"
# Instructions of sm_90a that no other architecture has.
HOPPER_ALONE = ("wgmma", "setmaxnreg")
SUITES = ("dense", "mqa", "decode", "dsv4")


class Step:
    """Commands with a name; `seconds` for each of them."""

    def __init__(self, name, proves, seconds, commands, rehearsed=True):
        self.name, self.proves, self.seconds = name, proves, seconds
        self.commands, self.rehearsed = commands, rehearsed


def for_blackwell(file, scratch):
    """A copy for sm_100a of a file for sm_90a, unless it has what only Hopper has."""
    text = file.read_text()
    if "\n.target sm_90a\n" not in text or any(word in text for word in HOPPER_ALONE):
        return []
    copy = scratch / file.name
    copy.write_text(text.replace("\n.target sm_90a\n", "\n.target sm_100a\n"))
    return [copy]


def instruction_files(scratch, rehearsal):
    """Files for every architecture; those for others than the device's are left out where they are run."""
    files = sorted((ROOT / "tests" / "ptx").glob("*.ptx"))
    if rehearsal:
        files = [file for file in files if file.stem in FEW_FILES]
    return files + [copy for file in files for copy in for_blackwell(file, scratch)]


def steps(binaries, out, scratch, rehearsal):
    sixwarp, filetest = str(binaries / "sixwarp"), str(binaries / "filetest")
    files = instruction_files(scratch, rehearsal)
    table = ["--cases", FEW_CASES] if rehearsal else []
    count = "2" if rehearsal else "500"
    verify = [sixwarp, "verify", "--device", "cuda", "--json"]
    against = [filetest, "--on", "sim", "--against", "cuda"]
    bench = [sixwarp, "bench", "--device", "cuda"]
    return [
        Step("machine", "which GPU, driver and clocks", 60, [["nvidia-smi", "-q"]], rehearsed=False),
        Step("doctor", "the driver compiles, and which kernels are taken", 120, [[sixwarp, "doctor", "--json"]]),
        Step("smoke", "launches, clusters, tensor maps, small boxes, gathered rows", 300,
             [[str(binaries / "examples" / "smoke")]]),
        Step("instructions", "each instruction does what the simulator says", 120,
             [against + [str(file)] for file in files]),
        Step("table", "every case of the table is right", 1200, [verify + table]),
        Step("random", "so are random ones", 900, [verify + ["--random", count, "--seed", "1"]]),
        Step("bench", "how fast, beside the floor", 600,
             [bench + ["--suite", suite, "--json", str(out / f"bench-{suite}.json")] for suite in SUITES],
             rehearsed=False),
    ]


def ended(command, seconds, environment):
    """Exit status (or why there is none), standard output and standard error of a command."""
    try:
        done = subprocess.run(
            command, cwd=ROOT, env=environment, timeout=seconds, stdin=subprocess.DEVNULL, capture_output=True
        )
        return done.returncode, done.stdout, done.stderr
    except subprocess.TimeoutExpired as late:
        return f"ended after {seconds} s", late.stdout or b"", late.stderr or b""
    except OSError as error:
        return f"cannot run: {error}", b"", b""


def run(step, out, environment):
    """Runs a step's commands; what became of them."""
    start, failed = time.monotonic(), []
    with open(out / f"{step.name}.txt", "wb") as log:
        for command in step.commands:
            status, output, errors = ended(command, step.seconds, environment)
            log.write(output)
            log.write(errors)
            if status != 0:
                failed.append({"command": command, "status": status})
                log.write(f"\n{' '.join(command)}: {status}\n".encode())
            log.flush()
    return {
        "step": step.name,
        "proves": step.proves,
        "commands": len(step.commands),
        "failed": failed,
        "seconds": round(time.monotonic() - start, 1),
    }


def environment_of(stand_in, scratch):
    """The environment of commands: with the driver that stands in, if one is given."""
    environment = dict(os.environ)
    if stand_in is None:
        return environment
    os.symlink(stand_in.resolve(), scratch / "libcuda.so.1")
    environment["LD_LIBRARY_PATH"] = str(scratch)
    environment["SIXWARP_CHECK_DEVICE"] = "sm_100a"
    return environment


def commit():
    status, output, _ = ended(["git", "rev-parse", "HEAD"], 30, dict(os.environ))
    return output.decode().strip() if status == 0 else "unknown"


def line(outcome):
    verdict = "FAILED" if outcome["failed"] else "ok"
    counts = f"{outcome['commands'] - len(outcome['failed'])} of {outcome['commands']}"
    return f"{outcome['step']:13} {verdict:7} {counts:>10} {outcome['seconds']:8.1f} s  {outcome['proves']}"


def pack(out, archive):
    with tarfile.open(archive, "w:gz") as tar:
        for file in sorted(out.iterdir()):
            tar.add(file, arcname=f"first-hour/{file.name}")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bin", type=pathlib.Path, default=ROOT / "target" / "release", help="folder of the programs")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("first-hour"), help="folder for the outcome")
    parser.add_argument("--stand-in", type=pathlib.Path, help="libsixwarp_standin.so: a rehearsal without a GPU")
    parser.add_argument("--steps", help="only these, with commas between")
    return parser.parse_args()


def chosen(args, out, scratch):
    """The steps to run. A rehearsal has none of those that need a GPU."""
    every = steps(args.bin.resolve(), out, scratch, args.stand_in is not None)
    names = [step.name for step in every if step.rehearsed or args.stand_in is None]
    wanted = args.steps.split(",") if args.steps else names
    unknown = [name for name in wanted if name not in names]
    if unknown:
        sys.exit(f"first_hour: no step {unknown[0]!r}: there are {', '.join(names)}")
    return [step for step in every if step.name in wanted]


def main():
    args = arguments()
    out = args.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    scratch = pathlib.Path(tempfile.mkdtemp())
    try:
        environment = environment_of(args.stand_in, scratch)
        outcomes = []
        for step in chosen(args, out, scratch):
            outcomes.append(run(step, out, environment))
            print(line(outcomes[-1]), flush=True)
    finally:
        shutil.rmtree(scratch)
    when = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
    report = {"commit": commit(), "when": when, "host": platform.node(), "rehearsal": args.stand_in is not None}
    (out / "summary.json").write_text(json.dumps({**report, "steps": outcomes}, indent=1) + "\n")
    (out / "summary.txt").write_text("".join(line(outcome) + "\n" for outcome in outcomes))
    archive = out.with_suffix(".tar.gz")
    pack(out, archive)
    print(f"send back {archive}")
    return 1 if any(outcome["failed"] for outcome in outcomes) else 0


if __name__ == "__main__":
    sys.exit(main())

"""Holds `sixwarp capture` against a real GPU: run on a machine with one, after `cargo build --release`.

    python3 tests/capture/on_gpu.py [SIXWARP]

Triton kernels are captured with the PTX of Triton's cache, and run on the simulator: what the GPU computed must be what
the simulator computes. The race of the fifth kernel must be found. A launch that does not end must be on the disk.
Programs with torch, and with cudarc where its example was built, are captured where they are at hand.
"""

import array
import json
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
SIXWARP = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "target/release/sixwarp").resolve()
SMOKE = ROOT / "target/release/examples/smoke"

TORCH = """
import torch, triton, triton.language as tl
@triton.jit
def scale(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, mask=i < n) * 2, mask=i < n)
x = torch.arange(1000, device="cuda", dtype=torch.float32)
out = torch.empty_like(x)
scale[(8,)](x, out, 1000, BLOCK=128)
assert torch.equal(out, 2 * x)
print("torch is right")
"""


def run(*command, **variables):
    """The status of a command and what it printed."""
    done = subprocess.run([str(word) for word in command], env=os.environ | variables, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True)
    return done.returncode, done.stdout


def expect(condition, what, text=""):
    print(("ok      " if condition else "WRONG   ") + what, flush=True)
    if not condition:
        print(text)
    return condition


def launches(folder):
    """Folders of launches with their kernels and states, by number."""
    states = sorted(pathlib.Path(folder).glob("*/state.json"))
    return [(path.parent, json.loads(path.read_text())) for path in states]


def largest_difference(folder):
    """Runs a launch on the simulator; how far its numbers are from the GPU's, as 32-bit floats."""
    status, text = run(SIXWARP, "sim", "--launch", folder / "launch.json", "--allow", "race")
    worst = 0.0 if status == 0 else float("inf")
    for after in folder.glob("after*.bin"):
        pair = []
        for path in (after, folder / after.name.replace("after", "simulated")):
            numbers = array.array("f")
            numbers.frombytes(path.read_bytes())
            pair.append(numbers)
        worst = max([worst] + [abs(a - b) for a, b in zip(*pair)])
    return worst, text


def triton(folder):
    script = ROOT / "tests/triton/check_kernels.py"
    status, text = run(SIXWARP, "capture", "--outputs", "--output", folder, "--", sys.executable, script, "--racy",
                       TRITON_DEFAULT_FP_FUSION="1")
    right = expect(status == 0 and "5 launches captured" in text, "five Triton launches are captured", text)
    for launch, state in launches(folder):
        kernel = state["kernel"]
        right &= expect(state["state"] == "finished", f"{kernel}: finished", str(state))
        if kernel != "racy_sum":
            worst, told = largest_difference(launch)
            right &= expect(worst < 1e-3, f"{kernel}: GPU and simulator differ by {worst:.2e}", told)
    status, text = run(SIXWARP, "check", folder)
    right &= expect(status == 1 and "hazard[race]" in text, "the race is found in the captured launch", text)
    return right & expect("4 clean, 1 with findings" in text, "the four others are clean", text)


def endless(folder):
    script = ROOT / "tests/capture/endless.py"
    status, text = run(SIXWARP, "capture", "--timeout", "20", "--output", folder, "--", sys.executable, script)
    states = [state["state"] for _, state in launches(folder)]
    right = expect(status == 124 and states == ["started"], "a launch that does not end is on the disk", text)
    right &= expect("was started" in text, "and it is named", text)
    status, text = run(SIXWARP, "check", folder)
    return right & expect(status == 1 and "deadlock" in text, "and the simulator says why", text)


def torch(folder):
    status, text = run(SIXWARP, "capture", "--name", "scale", "--outputs", "--output", folder, "--", sys.executable,
                       folder + ".py")
    return expect(status == 0 and "1 launches captured" in text, "a Triton kernel on torch's memory is captured", text)


def cudarc(folder):
    status, text = run(SIXWARP, "capture", "--limit", "40", "--output", folder, "--", SMOKE)
    right = expect(status == 0 and "launches captured" in text, "the checks of the CUDA engine pass, captured", text)
    print(text.splitlines()[-1] if text else "")
    return right


def main():
    right = True
    with tempfile.TemporaryDirectory() as scratch:
        right &= triton(f"{scratch}/triton")
        right &= endless(f"{scratch}/endless")
        if subprocess.run([sys.executable, "-c", "import torch"], stderr=subprocess.DEVNULL).returncode == 0:
            pathlib.Path(f"{scratch}/with_torch.py").write_text(TORCH)
            right &= torch(f"{scratch}/with_torch")
        if SMOKE.exists():
            right &= cudarc(f"{scratch}/cudarc")
    sys.exit(0 if right else 1)


if __name__ == "__main__":
    main()

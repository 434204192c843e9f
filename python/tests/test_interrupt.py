"""Long calls on the CPU end when a signal's handler raises, and go on when it does not."""

import subprocess
import sys
import textwrap

import pytest

if sys.platform == "win32":
    pytest.skip("signals are sent as on POSIX", allow_module_level=True)

# Rows of pages are looked up, so 4096 queries of 16 heads see 4 M keys without there being 4 M: a call that is
# not interrupted takes minutes.
SETUP = """
import os, signal, sys, threading, time
import numpy as np
import {library}
import sixwarp

PAGES, ROWS = 1 << 14, 256
rng = np.random.default_rng(0)
q = rng.standard_normal((1, 4096, 16, 64), np.float32)
k = rng.standard_normal((1, ROWS, 1, 64), np.float32)
table, some, all = np.zeros((1, PAGES), np.int32), np.array([3], np.int32), np.array([PAGES * ROWS], np.int32)
if "{library}" == "torch":
    q, k, table, some, all = map(torch.from_numpy, (q, k, table, some, all))

def call(used):
    return sixwarp.attention(q, k, k, page_table=table, seqused_k=used)

def send(number):
    # After the call has begun; at once would do too.
    timer = threading.Timer(0.3, os.kill, (os.getpid(), number))
    timer.daemon = True
    timer.start()

before = call(some)
"""

INTERRUPTED = """
send(signal.SIGINT)
try:
    call(all)
except KeyboardInterrupt:
    # Calls after it are as before it.
    same = call(some) == before
    print("interrupted", bool(same.all()))
"""

RAISES = """
def handler(number, frame):
    # Handlers may call too.
    assert bool((call(some) == before).all())
    raise TimeoutError("too long")

signal.signal(signal.SIGUSR1, handler)
send(signal.SIGUSR1)
try:
    call(all)
except TimeoutError as error:
    print(error)
"""

GOES_ON = """
seen = []
signal.signal(signal.SIGUSR1, lambda number, frame: seen.append(number))
q = q[:, :64]
expected = call(all)
threading.Thread(target=lambda: [(time.sleep(0.01), os.kill(os.getpid(), signal.SIGUSR1)) for _ in range(20)]).start()
same = call(all) == expected
time.sleep(0.3)
print(bool(same.all()), len(seen) > 0)
"""


@pytest.mark.parametrize("library", ["numpy", "torch"])
@pytest.mark.parametrize(
    "script, said",
    [(INTERRUPTED, "interrupted True"), (RAISES, "too long"), (GOES_ON, "True True")],
    ids=["interrupted", "raises", "goes-on"],
)
def test_signals_are_handled_in_a_long_call(library, script, said):
    pytest.importorskip(library)
    if script is GOES_ON:
        script = f"PAGES = 1 << 8\ntable = table[:, :PAGES]\nall[0] = PAGES * ROWS\n{script}"
    program = SETUP.format(library=library) + script
    # Without an answer to the signal it would go on for minutes.
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300)
    assert (ended.stdout.strip(), ended.returncode) == (said, 0), ended.stderr


def test_a_planned_call_is_interrupted_too():
    script = """
    plan = sixwarp.plan(q, k, k, page_table=table, seqused_k=some)
    plan(q, k, k, page_table=table, seqused_k=some)
    send(signal.SIGINT)
    try:
        plan(q, k, k, page_table=table, seqused_k=all)
    except KeyboardInterrupt:
        print("interrupted")
    """
    for library in ("numpy", "torch"):
        if library == "torch":
            pytest.importorskip(library)
        program = SETUP.format(library=library) + textwrap.dedent(script)
        ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300)
        assert ended.stdout.strip() == "interrupted", ended.stderr


def test_a_call_on_another_thread_leaves_signals_to_the_main_one():
    script = """
    done = []
    thread = threading.Thread(target=lambda: done.append(call(all)), daemon=True)
    thread.start()
    send(signal.SIGINT)
    try:
        thread.join()
    except KeyboardInterrupt:
        print("interrupted", done, flush=True)
    os._exit(0)
    """
    program = SETUP.format(library="numpy") + textwrap.dedent(script)
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300)
    assert ended.stdout.strip() == "interrupted []", ended.stderr

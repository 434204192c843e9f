#!/usr/bin/env python3
"""Compares the `layout` crate with two other implementations of the same algebra.

NVIDIA's pycute and Meta's tensor-layouts answer the same questions about hundreds of random
layouts and about the wgmma, mma.sync and tcgen05 atoms. A question counts for an oracle only when
the oracle's own answer satisfies the operation's published post-condition; then our answer must be
the same function. Where only we answer, our answer must satisfy the post-condition.

    python3 tests/oracles/layout_oracle.py [--seed N] [--count N]

Needs cargo and, on the first run, pip (packages go under target/).
"""

import argparse
import hashlib
import itertools
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
REQUIREMENTS = pathlib.Path(__file__).with_name("layout-requirements.txt")


def install_packages():
    """Installs the pinned packages once and puts them on the path; safe under parallel runs."""
    digest = hashlib.sha256(REQUIREMENTS.read_bytes()).hexdigest()[:12]
    version = f"py{sys.version_info.major}{sys.version_info.minor}"
    home = ROOT / "target" / "oracles" / f"layout-{version}-{digest}"
    if not home.is_dir():
        home.parent.mkdir(parents=True, exist_ok=True)
        fresh = pathlib.Path(tempfile.mkdtemp(dir=home.parent))
        command = [sys.executable, "-I", "-m", "pip", "install", "--quiet", "--no-deps", "--require-hashes",
                   "--disable-pip-version-check", "--target", str(fresh), "-r", str(REQUIREMENTS)]
        if subprocess.run(command).returncode != 0:
            shutil.rmtree(fresh, ignore_errors=True)
            sys.exit("layout oracle: pip could not install " + str(REQUIREMENTS)
                     + "; it needs PyPI (or a mirror) the first time")
        try:
            os.rename(fresh, home)
        except OSError:  # another run was first
            shutil.rmtree(fresh, ignore_errors=True)
    sys.path.insert(0, str(home))


install_packages()
import pycute  # noqa: E402
import tensor_layouts  # noqa: E402
from tensor_layouts import analysis, atoms_nv  # noqa: E402


# --- notation ------------------------------------------------------------------------------------

def text_of(tuple_):
    if isinstance(tuple_, tuple):
        return "(" + ",".join(text_of(mode) for mode in tuple_) + ")"
    return str(tuple_)


def text(layout):
    return f"{text_of(layout.shape)}:{text_of(layout.stride)}"


def parse(answer):
    """A pycute layout from our printed one."""
    shape, stride = answer.split(":")
    return pycute.Layout(python_tuple(shape), python_tuple(stride))


def python_tuple(notation):
    # A one-element tuple needs Python's trailing comma.
    return eval(notation.replace(")", ",)").replace("(,)", "()"), {"__builtins__": {}})


def other(layout):
    """The same layout for tensor-layouts."""
    return tensor_layouts.Layout(layout.shape, layout.stride)


def table(layout):
    """The indices of all coordinates in order, without pycute's generality."""
    values = [0]
    for extent, step in zip(pycute.flatten(layout.shape), pycute.flatten(layout.stride)):
        values = [value + i * step for i in range(extent) for value in values]
    return values


# --- random layouts ------------------------------------------------------------------------------

class Generator:
    def __init__(self, seed):
        self.random = random.Random(seed)

    def shape(self, depth=2):
        if depth == 0 or self.random.random() < 0.4:
            return self.random.choice([1, 2, 2, 3, 4, 4, 6, 8])
        return tuple(self.shape(depth - 1) for _ in range(self.random.randint(1, 3)))

    def small_shape(self, limit=1024):
        while True:
            shape = self.shape()
            if pycute.product(shape) <= limit:
                return shape

    def compact(self, limit=1024):
        """A bijection over a random shape."""
        return self.compact_over(self.small_shape(limit))

    def compact_over(self, shape):
        """A bijection: the leaves of a shape in random order of significance."""
        flat = pycute.flatten(shape)
        order = list(range(len(flat)))
        self.random.shuffle(order)
        strides, step = [0] * len(flat), 1
        for leaf in order:
            strides[leaf] = step
            step *= flat[leaf]
        return pycute.Layout(shape, refill(shape, iter(strides)))

    def any(self, limit=256):
        shape = self.small_shape(limit)
        values = iter(self.random.choice([0, 1, 2, 3, 4, 6, 8, 16, 32]) for _ in range(1000))
        return pycute.Layout(shape, refill(shape, values))

    def tile(self):
        return pycute.Layout(self.random.choice([1, 2, 3, 4, 8]), self.random.choice([1, 1, 2, 4]))


def refill(shape, values):
    if isinstance(shape, tuple):
        return tuple(refill(mode, values) for mode in shape)
    return next(values)


# --- questions -----------------------------------------------------------------------------------

class Suite:
    """Collects questions, asks them in one process, then checks every answer."""

    def __init__(self):
        self.questions, self.checks = [], []
        self.agreed = {}
        self.failures = []

    def ask(self, question, check):
        self.questions.append("\t".join(question))
        self.checks.append(check)

    def layout_question(self, question, post, pycute_answer=None, tensor_answer=None, same=None):
        """A question whose answer is a layout, with a post-condition and up to two oracles."""
        same = same or (lambda ours, theirs: table(ours) == table(theirs))
        oracles = [("pycute", attempt(pycute_answer))]
        oracles += [("tensor-layouts", to_pycute(attempt(tensor_answer)))]
        trusted = [(name, value) for name, value in oracles if value is not None and holds(post, value)]

        def check(answer):
            if answer.startswith("error:"):
                if trusted:
                    return f"{answer}; {trusted[0][0]} says {text(trusted[0][1])}"
                return None
            ours = parse(answer)
            if not holds(post, ours):
                return f"{answer} breaks the post-condition"
            for name, theirs in trusted:
                if not same(ours, theirs):
                    return f"{answer}, but {name} says {text(theirs)}"
                self.count(question[0], name)
            if not trusted:
                self.count(question[0], "post-condition only")
            return None

        self.ask(question, check)

    def value_question(self, question, name, expected):
        def check(answer):
            if answer != expected:
                return f"{answer}, but {name} says {expected}"
            self.count(question[0], name)
            return None

        self.ask(question, check)

    def count(self, operation, name):
        key = (operation, name)
        self.agreed[key] = self.agreed.get(key, 0) + 1

    def run(self):
        command = ["cargo", "run", "--quiet", "--package", "sixwarp-layout", "--example", "layout_answers"]
        done = subprocess.run(command, cwd=ROOT, input="\n".join(self.questions) + "\n",
                              capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit("layout oracle: the example failed:\n" + done.stderr)
        answers = done.stdout.splitlines()
        if len(answers) != len(self.questions):
            sys.exit(f"layout oracle: {len(self.questions)} questions, {len(answers)} answers")
        for question, answer, check in zip(self.questions, answers, self.checks):
            if complaint := check(answer):
                self.failures.append(f"{question.replace(chr(9), ' | ')}: {complaint}")


def attempt(answer):
    """The oracle's answer, or None where it refuses; pycute refuses by assertion."""
    if answer is None:
        return None
    try:
        return answer()
    except (AssertionError, ValueError, TypeError, IndexError, ZeroDivisionError):
        return None


def to_pycute(layout):
    if layout is None or not hasattr(layout, "stride"):
        return None
    return pycute.Layout(layout.shape, layout.stride)


def holds(post, layout):
    try:
        return post(layout)
    except (AssertionError, IndexError, TypeError, ZeroDivisionError):
        return False


# --- post-conditions -----------------------------------------------------------------------------

def injective(layout):
    values = table(layout)
    return len(set(values)) == len(values)


def complement_post(layout, bound):
    own = set(table(layout))

    def post(result):
        values = table(result)
        both = pycute.make_layout(layout, result)
        disjoint = all(v == 0 or v not in own for v in values)
        reaches = pycute.cosize(both) >= bound or not gaps_are_even(layout)
        return values == sorted(set(values)) and disjoint and reaches

    return post


def gaps_are_even(layout):
    """Whether each stride is a multiple of the span below it, so that a complement fills all gaps."""
    covered = 1
    for d, s in sorted(zip(pycute.flatten(layout.stride), pycute.flatten(layout.shape))):
        if d == 0 or s == 1:
            continue
        if d % covered:
            return False
        covered = d * s
    return True


def reaches_as_far(ours, theirs):
    """A right inverse is free where its layout repeats itself; ours must not stop earlier."""
    return pycute.size(ours) >= pycute.size(theirs)


def modes_overlap(layout):
    """Whether a mode steps inside the span of the smaller strides; we refuse to complement those."""
    covered = 1
    for d, s in sorted(zip(pycute.flatten(layout.stride), pycute.flatten(layout.shape))):
        if d == 0 or s == 1:
            continue
        if d < covered:
            return True
        covered = d * s
    return False


def strides_chain(layout):
    """Whether each stride divides the next, which our left inverses need."""
    pairs = zip(pycute.flatten(layout.stride), pycute.flatten(layout.shape))
    strides = sorted(d for d, s in pairs if s != 1)
    return all(b % a == 0 for a, b in zip(strides, strides[1:]) if a)


def on_image_only(ours, theirs):
    """Off the image of its layout a left inverse is free; on it the post-condition says all."""
    return True


def divides_evenly(layout, factor):
    """Whether elements can be joined `factor` at a time; tensor-layouts rounds up, we refuse."""
    leaves = zip(pycute.flatten(layout.shape), pycute.flatten(layout.stride))
    return all(d == 0 or d % factor == 0 or (factor % d == 0 and s % (factor // d) == 0) for s, d in leaves)


# --- the questions of each round -----------------------------------------------------------------

def ask_evaluation(suite, make):
    a = make.any()
    by_pycute = [a(i) for i in range(pycute.size(a))]
    suite.value_question(["indices", text(a)], "pycute", ",".join(map(str, by_pycute)))
    index = make.random.randrange(pycute.size(a))
    coord = text_of(pycute.idx2crd(index, a.shape))
    suite.value_question(["coord", text_of(a.shape), str(index)], "pycute", coord)
    facts = [pycute.size(a), pycute.cosize(a), tensor_layouts.rank(other(a)), tensor_layouts.depth(other(a))]
    suite.value_question(["facts", text(a)], "both", ",".join(map(str, facts)))
    suite.layout_question(["coalesce", text(a)], lambda r: table(r) == table(a),
                          lambda: pycute.coalesce(a), lambda: tensor_layouts.coalesce(other(a)))


def ask_composition(suite, make):
    a = make.compact() if make.random.random() < 0.7 else make.any()
    b = make.any(64)
    if pycute.cosize(b) > pycute.size(a):
        return
    suite.layout_question(["compose", text(a), text(b)],
                          lambda r: table(r) == [a(b(i)) for i in range(pycute.size(b))],
                          lambda: pycute.composition(a, b),
                          lambda: tensor_layouts.compose(other(a), other(b)))


def ask_complement_and_inverses(suite, make):
    a = make.compact(128) if make.random.random() < 0.5 else make.any(128)
    bound = make.random.choice([1, 24, 128])
    if injective(a) and not modes_overlap(a):
        suite.layout_question(["complement", text(a), str(bound)], complement_post(a, bound),
                              lambda: pycute.complement(a, bound),
                              lambda: tensor_layouts.complement(other(a), bound))
    if injective(a) and strides_chain(a):
        suite.layout_question(["left-inverse", text(a)],
                              lambda r: all(r(a(i)) == i for i in range(pycute.size(a))),
                              lambda: pycute.left_inverse(a),
                              lambda: tensor_layouts.left_inverse(other(a)), on_image_only)
    suite.layout_question(["right-inverse", text(a)],
                          lambda r: all(a(r(i)) == i for i in range(pycute.size(r))),
                          lambda: pycute.right_inverse(a),
                          lambda: tensor_layouts.right_inverse(other(a)), reaches_as_far)


def ask_division(suite, make):
    a, tile = make.compact(), make.tile()
    first = [a(tile(i)) for i in range(pycute.size(tile)) if tile(i) < pycute.size(a)]
    size = pycute.size(a)

    def post(r):
        return pycute.size(r) >= size and table(r[0])[:len(first)] == first and set(table(a)) <= set(table(r))

    if pycute.size(tile) == len(first):
        suite.layout_question(["logical-divide", text(a), text(tile)], post,
                              lambda: pycute.logical_divide(a, tile),
                              lambda: tensor_layouts.logical_divide(other(a), other(tile)))
    ask_division_by_mode(suite, make)


def ask_division_by_mode(suite, make):
    a = make.compact()
    if not isinstance(a.shape, tuple) or len(a.shape) < 2:
        return
    tiles = [pycute.Layout(d, 1) for d in (make.random.choice([1, 2, 4]) for _ in a.shape[:2])]
    if any(pycute.size(a[i]) % pycute.size(tile) for i, tile in enumerate(tiles)):
        return
    tiler = "<" + ",".join(map(text, tiles)) + ">"
    whole = lambda r: sorted(table(r)) == sorted(table(a))  # noqa: E731
    for name in ("logical", "zipped", "tiled"):
        ours = pycute.__dict__[f"{name}_divide"]
        suite.layout_question([f"{name}-divide", text(a), tiler], whole, lambda f=ours: f(a, tuple(tiles)))
    theirs = tuple(map(other, tiles))
    suite.layout_question(["flat-divide", text(a), tiler], whole, None,
                          lambda: tensor_layouts.flat_divide(other(a), theirs))
    tiled = [a(*coord) for coord in mode_coords(a, tiles)]
    suite.layout_question(["compose-by", text(a), tiler], lambda r: sorted(table(r)) == sorted(tiled),
                          lambda: pycute.composition(a, tuple(tiles)))


def mode_coords(layout, tiles):
    """The coordinates, one number per mode, that by-mode tiles of the first modes pick."""
    picked = [table(tile) for tile in tiles]
    picked += [range(pycute.size(layout[i])) for i in range(len(tiles), len(layout))]
    return itertools.product(*picked)


def ask_product(suite, make):
    a, b = make.compact(32), make.compact(32)
    tile = table(a)

    def post(r):
        return injective(r) and pycute.size(r) == pycute.size(a) * pycute.size(b)

    suite.layout_question(["logical-product", text(a), text(b)],
                          lambda r: post(r) and table(r[0]) == tile,
                          lambda: pycute.logical_product(a, b),
                          lambda: tensor_layouts.logical_product(other(a), other(b)))
    for name in ("blocked", "raked"):
        theirs = tensor_layouts.__dict__[f"{name}_product"]
        suite.layout_question([f"{name}-product", text(a), text(b)], post, None,
                              lambda f=theirs: f(other(a), other(b)))


def ask_recast_vector_and_slice(suite, make):
    a, factor = make.compact(256), make.random.choice([1, 2, 4, 8])
    b = make.compact_over(a.shape)
    anything = lambda r: True  # noqa: E731
    suite.layout_question(["downcast", text(a), str(factor)], anything, None,
                          lambda: tensor_layouts.downcast(other(a), factor))
    if divides_evenly(a, factor):
        suite.layout_question(["upcast", text(a), str(factor)], anything, None,
                              lambda: tensor_layouts.upcast(other(a), factor))
    else:
        suite.ask(["upcast", text(a), str(factor)],
                  lambda answer: None if answer.startswith("error: upcast") else f"{answer} is uneven")
    common = attempt(lambda: tensor_layouts.max_common_vector(other(a), other(b)))
    if common is not None:
        suite.value_question(["common-vector", text(a), text(b)], "tensor-layouts", str(common))
    if isinstance(a.shape, tuple) and len(a.shape) == 2:
        column = make.random.randrange(pycute.size(a[1]))
        start, rows = a(0, column), table(a[0])
        suite.ask(["slice", text(a), f"(_,{column})"], lambda answer: check_slice(suite, answer, start, rows))


def check_slice(suite, answer, start, rows):
    offset, _, kept = answer.partition("+")
    if int(offset) != start or table(parse(kept)) != rows:
        return f"{answer}, but pycute says {start} and {rows}"
    suite.count("slice", "pycute")
    return None


def ask_swizzle(suite, make):
    bits, base = make.random.randint(0, 3), make.random.randint(0, 4)
    shift = max(1, bits + make.random.randint(0, 3))  # pycute recurses forever on a shift of 0
    index = make.random.randrange(1 << 20)
    name = f"S<{bits},{base},{shift}>"
    suite.value_question(["swizzle", name, str(index)], "pycute", str(pycute.Swizzle(bits, base, shift)(index)))
    a = make.compact(256)
    theirs = tensor_layouts.Swizzle(bits, base, shift)
    values = ",".join(str(theirs(v)) for v in table(a))
    suite.value_question(["indices", f"{name} o 0 o {text(a)}"], "tensor-layouts", values)
    lanes = pycute.Layout((8, 4), (make.random.choice([1, 8, 32, 33, 64]), make.random.choice([0, 1, 2, 8])))
    ways = analysis.bank_conflicts(flat_lanes(lanes), element_bytes=4)
    suite.value_question(["bank-passes", text(lanes), "4"], "tensor-layouts", str(ways["max_ways"]))


def flat_lanes(lanes):
    """One thread mode: tensor-layouts reads further modes as values of a thread."""
    return tensor_layouts.Layout((lanes.shape,), (lanes.stride,))


# --- atoms ---------------------------------------------------------------------------------------

def ask_atoms(suite):
    gmma = list(atoms_nv.MMA_ATOMS_SM90_GMMA) + list(atoms_nv.MMA_ATOMS_SM90_GMMA_EXT)
    for atom in gmma:
        m, n, _ = atom.shape_mnk
        if m == 64:
            ask_atom(suite, f"wgmma-d:n{n}", atom.c_layout)
    for n in range(8, 257, 8):
        ask_atom(suite, f"wgmma-d:n{n}", atoms_nv.gmma_c_layout(n))
    for name, bits in [("SM80_16x8x16_F32BF16BF16F32_TN", "bf16"), ("SM80_16x8x8_F32TF32TF32F32_TN", "tf32"),
                       ("SM89_16x8x32_F32E4M3E4M3F32_TN", "e4m3")]:
        atom = getattr(atoms_nv, name)
        ask_atom(suite, f"mma-a:{bits}", atom.a_layout)
        ask_atom(suite, f"mma-b:{bits}", atom.b_layout)
        ask_atom(suite, "mma-c:f32", atom.c_layout)
    for atom in atoms_nv.MMA_ATOMS_SM100_UMMA:
        ask_accumulator(suite, atom)


def ask_atom(suite, name, layout):
    theirs = to_pycute(layout)
    suite.layout_question(["hardware", name], lambda r: True, lambda: theirs,
                          same=lambda ours, theirs: table(ours) == table(theirs))


def ask_accumulator(suite, atom):
    """tensor-layouts numbers a tcgen05 accumulator's values; ours says where each one lives."""
    m, n, _ = atom.shape_mnk
    if m not in (64, 128):
        return
    values = to_pycute(atom.c_layout)

    def placed(ours):
        cells = set()
        for value in range(m * n):
            element = values(0, value)
            cell = ours(element % m, element // m)
            lane, column = cell >> 16, cell & 0xFFFF
            if not (lane < 128 and column < n):
                return False
            cells.add((lane, column))
        return len(cells) == m * n

    suite.layout_question(["hardware", f"tmem-d:m{m},n{n}"], placed)


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--seed", type=int, default=20261115)
    arguments.add_argument("--count", type=int, default=400, help="random rounds per operation")
    options = arguments.parse_args()

    suite, make = Suite(), Generator(options.seed)
    for _ in range(options.count):
        for ask in (ask_evaluation, ask_composition, ask_complement_and_inverses, ask_division,
                    ask_product, ask_recast_vector_and_slice, ask_swizzle):
            ask(suite, make)
    ask_atoms(suite)
    suite.run()

    for (operation, name), count in sorted(suite.agreed.items()):
        print(f"{operation:18} {name:20} {count:5} agree")
    print(f"{len(suite.questions)} questions, {len(suite.failures)} disagreements, seed {options.seed}")
    for failure in suite.failures[:20]:
        print("  " + failure)
    return 1 if suite.failures or thin(suite) else 0


def thin(suite):
    """Whether an oracle has hardly been consulted, which would make agreement worthless."""
    for name in ("pycute", "tensor-layouts"):
        consulted = sum(count for (_, by), count in suite.agreed.items() if by == name)
        if consulted < 500:
            print(f"only {consulted} answers were compared with {name}")
            return True
    return False


if __name__ == "__main__":
    sys.exit(main())

"""Writes what source files repeat of the table of parameters (`src/sixwarp/_parameters.py`).

    python python/spell_out.py

A block begins with a comment `spell: WHAT` and ends with `spelled`. `BLOCKS` and `FILLED` say what there is. The text between the two
comments is replaced; a test (`tests/test_build.py`) fails where it is not what this program would write.
"""

import importlib
import json
import pathlib
import re
import sys
import textwrap
import types

HERE = pathlib.Path(__file__).resolve().parent
PACKAGE = HERE / "src" / "sixwarp"
# The Rust workspace: beside this folder in a checkout, within it in a source distribution.
ROOT = HERE / "rust" if (HERE / "rust" / "Cargo.toml").exists() else HERE.parent
RECIPE = ROOT / "crates" / "python" / "src" / "fast" / "recipe.rs"
BLOCK = re.compile(r"^( *)(#|//) spell: (.*?)\n(.*?)^ *\2 spelled\n", re.MULTILINE | re.DOTALL)


def load_table():
    """The table alone: the package needs a library that may not be built yet."""
    package = types.ModuleType("_table")
    package.__path__ = [str(PACKAGE)]
    sys.modules["_table"] = package
    return importlib.import_module("_table._parameters")


TABLE = load_table()
NOT_TORCH = ("out", "stream")


def text_of(default):
    return json.dumps(default) if isinstance(default, str) else repr(default)


def signature(without=()):
    """The keywords of the package's own functions."""
    kept = [p for p in TABLE.PARAMETERS if p.name not in without]
    return [f"{p.name}: {p.annotation} = {text_of(p.default)}," for p in kept]


def torch_type(text):
    """A type of the table as torch's functions have it."""
    return text.replace("Any", "Optional[Tensor]")


def stub(without=(), return_lse="bool = ..."):
    """The keywords in a stub."""
    kept = [p for p in TABLE.PARAMETERS if p.name not in without]
    types = {p.name: f"{p.stub} = ..." for p in kept}
    types["return_lse"] = return_lse
    return [f"{name}: {text}," for name, text in types.items()]


def overloads(function, results, tensor="_T", without=()):
    """A function whose result follows `return_lse`: left out or False, True, or not known."""
    lines = []
    for lse, result in zip(("Literal[False] = ...", "Literal[True]", "bool"), results):
        keywords = [line.replace("_Array", tensor) if tensor != "_T" else line for line in stub(without, lse)]
        arguments = [f"{name}: {tensor}," for name in TABLE.INPUTS] + ["*,"] + keywords
        lines += ["@overload", f"def {function}(", *(f"    {x}" for x in arguments), f") -> {result}: ..."]
    return lines


def results(tensor):
    both = f"Tuple[{tensor}, {tensor}]"
    return tensor, both, f"Union[{tensor}, {both}]"


def names(*groups):
    """Arguments in order, in as few lines as they fit."""
    words = [name for group in groups for name in group]
    # A blank within an argument is no place to break a line.
    text = ", ".join(word.replace(" ", "\0") for word in words) + ","
    return [line.replace("\0", " ") for line in textwrap.wrap(text, 100, break_long_words=False, break_on_hyphens=False)]


def fields(wanted):
    """The fields of a named tuple."""
    types = {p.name: p.annotation for p in TABLE.PARAMETERS}
    return [f"{name}: {types.get(name, 'Any').replace('Window', 'Any')}" for name in wanted]


def tensor_keywords(default):
    stubs = {p.name: p.stub for p in TABLE.PARAMETERS}
    kept = TABLE.TENSORS[len(TABLE.INPUTS) :]
    return [f"{name}: {stubs[name] if default == '...' else 'Any'} = {default}," for name in kept]


def positions():
    """The tensors of a call in order, for the library."""
    wanted = [*TABLE.TENSORS, "lse"]
    lines = [f"pub(super) const {name.upper()}: usize = {i};" for i, name in enumerate(wanted)]
    return [*lines, "/// How many there are.", f"pub(super) const TENSORS: usize = {len(wanted)};"]


def filled(order, given):
    """Arguments in `order`: those that `given` names (`name` or `name=expression; …`), else their defaults."""
    words = (word.partition("=") for word in given.split("; "))
    expressions = {name: expression or name for name, _, expression in words}
    unknown = expressions.keys() - set(order)
    assert not unknown, f"{unknown}: there is no such parameter"
    defaults = {p.name: text_of(p.default) for p in TABLE.PARAMETERS}
    return names([expressions.get(name) or defaults[name] for name in order])


PLANS = [f"PlannedAttention[_T, {result}]" for result in results("_T")]

BLOCKS = {
    "signature": lambda: signature(),
    "signature without stream": lambda: signature(["stream"]),
    "signature of torch": lambda: [torch_type(line) for line in signature(NOT_TORCH)],
    "tensors of a signature": lambda: tensor_keywords("None"),
    "tensors": lambda: names(TABLE.TENSORS),
    "any tensors": lambda: names(f"{name}: Any" for name in TABLE.TENSORS),
    "options": lambda: names(TABLE.OPTIONS),
    "tensors, stream, options": lambda: names(TABLE.TENSORS, ["stream"], TABLE.OPTIONS),
    "operator tensors": lambda: names(TABLE.OPERATOR_TENSORS),
    "operator tensors, None, options": lambda: names(TABLE.OPERATOR_TENSORS, ["None"], TABLE.OPTIONS),
    "fields of tensors": lambda: fields(TABLE.TENSORS),
    "fields of options": lambda: fields(TABLE.OPTIONS),
    "stub without stream": lambda: stub(["stream"]),
    "tensors of a stub": lambda: tensor_keywords("..."),
    "overloads of attention": lambda: overloads("attention", results("_T")),
    "overloads of plan": lambda: overloads("plan", PLANS, without=["stream"]),
    "overloads of torch attention": lambda: overloads("attention", results("Tensor"), "Tensor", NOT_TORCH),
    "positions": positions,
}


# Blocks that name some arguments: `options with scale; causal=is_causal`.
FILLED = {"tensors": TABLE.TENSORS, "options": TABLE.OPTIONS, "call": (*TABLE.TENSORS, *TABLE.OPTIONS)}


def lines_of(what):
    kind, _, given = what.partition(" with ")
    return filled(FILLED[kind], given) if given else BLOCKS[what]()


def spelled_out(text):
    """The text of a file with its blocks as the table says."""

    def block(found):
        indent, comment, what, _ = found.groups()
        lines = (f"{indent}{line}\n" for line in lines_of(what))
        return f"{indent}{comment} spell: {what}\n{''.join(lines)}{indent}{comment} spelled\n"

    return BLOCK.sub(block, text)


def files():
    """Every file that has blocks, with the text it has and the text it should have."""
    candidates = [*PACKAGE.rglob("*.py"), *PACKAGE.rglob("*.pyi"), RECIPE]
    for path in sorted(candidates):
        text = path.read_text(encoding="utf-8")
        if BLOCK.search(text):
            yield path, text, spelled_out(text)


if __name__ == "__main__":
    for path, text, wanted in files():
        if text != wanted:
            path.write_text(wanted, encoding="utf-8")
            print(path)

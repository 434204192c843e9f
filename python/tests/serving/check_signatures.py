"""Holds the recorded interfaces (`stand_ins`) against the files of the installed engines, by reading both.

Every class, function, method and field that is recorded must be there. A function's parameters must begin with the
recorded ones, in order, and have defaults from there on. Nothing is imported, so this takes no GPU and few seconds.
"""

import ast
import importlib.util
import pathlib

import install
import pytest

RECORDED = pathlib.Path(__file__).resolve().parent / "stand_ins"
FILES = sorted(path.relative_to(RECORDED) for path in RECORDED.rglob("*.py"))


def real(path):
    """The file of the engine's own."""
    if path.parts[0] == "sglang":
        return install.sglang_folder() / path
    package = importlib.util.find_spec("vllm").submodule_search_locations[0]
    return pathlib.Path(package, *path.parts[1:])


def functions(body):
    return {node.name: node for node in body if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))}


def names(tree):
    """Everything that is assigned, annotated, imported or set on `self` in a part of a file."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            found.add(node.attr)
        elif isinstance(node, ast.alias):
            found.add(node.asname or node.name)
    return found


def fields(body):
    """Names that are assigned or annotated directly in a body."""
    targets = [node.target for node in body if isinstance(node, ast.AnnAssign)]
    targets += [target for node in body if isinstance(node, ast.Assign) for target in node.targets]
    return {target.id for target in targets if isinstance(target, ast.Name) and not target.id.startswith("__")}


def parameters(function):
    """Names of parameters by position and by name, and how many of the former must be given."""
    given = function.args
    positional = [x.arg for x in given.posonlyargs + given.args]
    return positional, {x.arg for x in given.kwonlyargs}, len(positional) - len(given.defaults)


def compare_functions(where, recorded, found):
    for name, function in functions(recorded).items():
        assert name in functions(found), f"{where}: there is no {name}"
        ours, ours_named, _ = parameters(function)
        theirs, theirs_named, needed = parameters(functions(found)[name])
        assert theirs[: len(ours)] == ours, f"{where}.{name}: parameters are {theirs}"
        assert needed <= len(ours), f"{where}.{name}: {theirs[len(ours) : needed]} must be given"
        assert ours_named <= theirs_named, f"{where}.{name}: there is no {ours_named - theirs_named}"


def bases(tree, cls):
    """A class and those it is derived from, in the same file."""
    classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    found, waiting = [], [cls]
    while waiting:
        node = classes.get(waiting.pop(0))
        if node is not None:
            found.append(node)
            # `Base`, or `Base[T]`.
            named = (base.value if isinstance(base, ast.Subscript) else base for base in node.bases)
            waiting += [base.id for base in named if isinstance(base, ast.Name)]
    return found


@pytest.mark.parametrize("path", FILES, ids=str)
def test_what_is_recorded_is_what_is_installed(path):
    recorded, found = (ast.parse(file.read_text()) for file in (RECORDED / path, real(path)))
    compare_functions(str(path), recorded.body, found.body)
    passed_on = [node for node in recorded.body if isinstance(node, ast.ImportFrom) and node.level]
    imported = {alias.name for node in passed_on for alias in node.names}
    missing = (fields(recorded.body) | imported) - names(found)
    # A stand-in's own state.
    assert missing <= {"current"}, f"{path}: there is no {missing}"
    for cls in (node for node in recorded.body if isinstance(node, ast.ClassDef)):
        line = bases(found, cls.name)
        assert line, f"{path}: there is no class {cls.name}"
        body = [node for part in reversed(line) for node in part.body]
        compare_functions(f"{path}: {cls.name}", cls.body, body)
        known = set().union(*(names(part) for part in line))
        assert fields(cls.body) <= known, f"{path}: {cls.name} has no {fields(cls.body) - known}"

"""Runs a function when a module has been imported, without importing it."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import sys
from typing import Any, Callable, Dict, Optional

_waiting: Dict[str, Callable[[Any], None]] = {}


def after_import(name: str, then: Callable[[Any], None]) -> None:
    """Calls `then(module)` when the module is there; at once if it is."""
    if name in sys.modules:
        then(sys.modules[name])
        return
    _waiting[name] = then
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())


class _Finder(importlib.abc.MetaPathFinder):
    """Finds what is waited for as the other finders do, and wraps its loader."""

    def find_spec(self, name: str, path: Any, target: Any = None) -> Optional[importlib.machinery.ModuleSpec]:
        if name not in _waiting:
            return None
        for finder in sys.meta_path:
            find = getattr(finder, "find_spec", None)
            spec = None if find is None or finder is self else find(name, path, target)
            if spec is not None:
                if spec.loader is not None:
                    spec.loader = _Loader(spec.loader, _waiting.pop(name))
                return spec
        return None


class _Loader(importlib.abc.Loader):
    """Loads a module as its own loader does, then calls a function."""

    def __init__(self, own: Any, then: Callable[[Any], None]) -> None:
        self.own, self.then = own, then

    def __getattr__(self, name: str) -> Any:
        return getattr(self.own, name)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> Any:
        return self.own.create_module(spec)

    def exec_module(self, module: Any) -> None:
        self.own.exec_module(module)
        # Tools that ask a module for its loader get the one that read its file.
        module.__loader__ = self.own
        self.then(module)

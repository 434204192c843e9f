"""Runs before a checked Python program: prepares Triton, torch and numba when they are imported.

Written by `sixwarp check` to a folder that stands first on PYTHONPATH. A `sitecustomize` of the machine's own is
imported afterwards, as if this one were not there.
"""

import importlib
import importlib.abc
import importlib.util
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))


class AfterImport(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Calls a function of `sixwarp_check` when a package has been imported."""

    PREPARED = {"triton": "prepare_triton", "torch": "prepare_torch", "numba.cuda.codegen": "prepare_numba"}

    def __init__(self):
        self.found = {}
        self.looking = set()

    def find_spec(self, name, path=None, target=None):
        if name not in self.PREPARED or name in self.looking:
            return None
        self.looking.add(name)
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self.looking.discard(name)
        if spec is None or spec.loader is None:
            return None
        self.found[name] = spec.loader
        spec.loader = self
        return spec

    def create_module(self, spec):
        return self.found[spec.name].create_module(spec)

    def exec_module(self, module):
        name = module.__name__
        loader = self.found[name]
        module.__spec__.loader = module.__loader__ = loader
        loader.exec_module(module)
        import sixwarp_check

        getattr(sixwarp_check, self.PREPARED[name])(module)


def import_own_sitecustomize():
    """Imports the `sitecustomize` that this one hides, if there is one."""
    path = [entry for entry in sys.path if os.path.abspath(entry or ".") != HERE]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", path)
    if spec is not None and spec.loader is not None:
        spec.loader.exec_module(importlib.util.module_from_spec(spec))


sys.meta_path.insert(0, AfterImport())
import_own_sitecustomize()

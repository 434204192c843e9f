"""What it costs to call a function that does nothing with three torch tensors: `ctypes`, the TVM FFI, and a builtin
function made by the library, which is what the package does.

    pip install torch apache-tvm-ffi
    python benches/calls.py
"""

import ctypes
import pathlib
import struct
import subprocess
import tempfile
import time

import torch

SOURCE = pathlib.Path(__file__).with_suffix(".rs")


def microseconds(call, calls=5000, rounds=20):
    best = float("inf")
    for _ in range(rounds):
        start = time.perf_counter()
        for _ in range(calls):
            call()
        best = min(best, (time.perf_counter() - start) / calls)
    return best * 1e6


def builtin(library):
    """The library's function as a builtin one."""
    api = ctypes.pythonapi
    get = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_GetPointer", api))
    table = get(torch.Tensor.__dlpack_c_exchange_api__, b"dlpack_exchange_api")
    borrow = (ctypes.c_size_t * 7).from_address(table)[5]
    names = ("PyCFunction_NewEx", "Py_IncRef", "Py_DecRef", "PyObject_Type")
    words = [ctypes.cast(getattr(api, name), ctypes.c_void_p).value for name in names]
    make = ctypes.PyDLL(str(library)).make
    make.restype = ctypes.py_object
    return make((ctypes.c_size_t * 7)(*words, id(None), id(torch.Tensor), borrow))


def main():
    a, b, c = (torch.zeros(1, 1, 8, 64, dtype=torch.bfloat16) for _ in range(3))
    with tempfile.TemporaryDirectory() as directory:
        library = pathlib.Path(directory, "calls.so")
        options = ["--edition", "2024", "--crate-type", "cdylib", "-C", "opt-level=3"]
        subprocess.run(["rustc", *options, "-o", library, SOURCE], check=True)
        plain = ctypes.CDLL(str(library)).nothing
        plain.argtypes = [ctypes.c_char_p, ctypes.c_size_t]
        pack = struct.Struct("=3Q").pack
        quick = builtin(library)
        ways = {
            "ctypes, addresses read in Python": lambda: plain(pack(a.data_ptr(), b.data_ptr(), c.data_ptr()), 0),
            "a builtin function and DLPack's exchange interface": lambda: quick(a, b, c),
        }
        try:
            import tvm_ffi
        except ImportError:
            print("apache-tvm-ffi is not installed")
        else:
            foreign = tvm_ffi.load_module(str(library)).nothing
            ways["the TVM FFI"] = lambda: foreign(a, b, c)
        print(f"torch {torch.__version__}, an empty call with three tensors:")
        for name, call in ways.items():
            print(f"{microseconds(call):6.2f} us  {name}")


if __name__ == "__main__":
    main()

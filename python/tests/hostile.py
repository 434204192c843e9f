"""Calls that use every optional tensor, and ways to spoil a tensor, for NumPy and for torch.

A spoiled tensor is either `wrong` (the call must refuse it, naming it) or `odd` (the same numbers, stored
unusually: the call gives the right result, or refuses it by name).
"""

import numpy as np

GUARD = 64


def guarded(make, shape, dtype):
    """A tensor in the middle of one that is filled with 7, and that one."""
    count = int(np.prod(shape))
    whole = make(np.full(count + 2 * GUARD, 7), dtype)
    return whole[GUARD : GUARD + count].reshape(shape), whole


def calls(make):
    """Name, tensors and options of calls that together use every tensor; `lse` is for plans alone."""
    rng = np.random.default_rng(0)
    floats = lambda *shape: make(rng.standard_normal(shape), "f32")
    integers = lambda *values: make(np.array(values), "i32")
    yield "batched", dict(
        q=floats(2, 3, 4, 16), k=floats(2, 5, 2, 16), v=floats(2, 5, 2, 16), sinks=floats(4), seqused_k=integers(3, 5),
    ), dict(causal=True)  # fmt: skip
    yield "packed", dict(
        q=floats(7, 4, 16), k=floats(9, 2, 16), v=floats(9, 2, 16), cu_seqlens_q=integers(0, 3, 7),
        cu_seqlens_k=integers(0, 4, 9), sinks=floats(4),
    ), dict(max_seqlen_q=4, max_seqlen_k=5)  # fmt: skip
    yield "paged", dict(
        q=floats(2, 1, 4, 16), k=floats(3, 4, 2, 16), v=floats(3, 4, 2, 16), seqused_k=integers(7, 4),
        page_table=integers([2, 0], [1, 1]),
    ), {}  # fmt: skip
    yield "masked", dict(
        q=floats(2, 3, 4, 16), k=floats(2, 5, 2, 16), v=floats(2, 5, 2, 16), attn_mask=floats(2, 4, 3, 5),
    ), {}  # fmt: skip


def outputs(make, tensors):
    """`out` and `lse` for a call, and the memory around them."""
    q, v = tensors["q"], tensors["v"]
    shape = (*q.shape[:-1], v.shape[-1])
    out, around_out = guarded(make, shape, "f32")
    lse, around_lse = guarded(make, (*shape[:-3], shape[-2], shape[-3]), "f32")
    return dict(out=out, lse=lse), (around_out, around_lse)


def numpy_make(x, dtype):
    return np.ascontiguousarray(x, {"f32": np.float32, "i32": np.int32, "u8": np.uint8}[dtype])


def gaps(x):
    """A copy with a hole behind each row."""
    room = np.zeros((*x.shape[:-1], x.shape[-1] + 1), x.dtype)
    room[..., :-1] = x
    return room[..., :-1]


def frozen(x):
    x = x.copy()
    x.flags.writeable = False
    return x


# Shapes and types that a mask may have, with another meaning.
OTHER_MASKS = ("short", "one element", "scalar", "boolean")

# Name, function, whether it is wrong.
NUMPY = [
    ("short", lambda x: x[:-1], True),
    ("one element", lambda x: x.reshape(-1)[:1], True),
    ("empty", lambda x: x[:0], True),
    ("longer", lambda x: np.concatenate([x, x]), True),
    ("scalar", lambda x: x.reshape(-1)[0], True),
    ("complex", lambda x: x.astype(np.complex64), True),
    ("boolean", lambda x: x.astype(bool), True),
    ("text", lambda x: x.astype("S8"), True),
    ("masked", lambda x: np.ma.masked_array(x, np.zeros(x.shape, bool)), True),
    ("list", lambda x: x.tolist(), True),
    ("torch", lambda x: __import__("torch").from_numpy(x.copy()), True),
    ("float64", lambda x: x.astype(np.float64), None),
    ("int64", lambda x: x.astype(np.int64), None),
    ("big-endian", lambda x: x.astype(x.dtype.newbyteorder(">")), False),
    ("gaps", gaps, False),
    ("turned", lambda x: np.asfortranarray(x), False),
    ("backwards", lambda x: x[..., ::-1].copy()[..., ::-1], False),
    ("unaligned", lambda x: np.frombuffer(b"\0" + x.tobytes(), np.uint8)[1:].view(x.dtype).reshape(x.shape), False),
    ("subclass", lambda x: x.view(type("Mine", (np.ndarray,), {})), False),
    ("frozen", frozen, False),
]


def torch_make(x, dtype):
    import torch

    types = {"f32": torch.float32, "i32": torch.int32, "u8": torch.uint8}
    return torch.from_numpy(np.ascontiguousarray(x)).to(types[dtype])


def emptied(x, bytes_left=0):
    x = x.clone()
    x.untyped_storage().resize_(bytes_left)
    return x


def torch_gaps(x):
    room = x.new_zeros((*x.shape[:-1], x.shape[-1] + 1))
    room[..., :-1] = x
    return room[..., :-1]


def turned(x):
    return x.transpose(0, -1).contiguous().transpose(0, -1)


def wrapped(x):
    """A tensor that stands for another and has no memory."""
    import torch

    class Stand(torch.Tensor):
        @classmethod
        def __torch_dispatch__(cls, function, types, arguments=(), keywords=None):
            return function(*arguments, **(keywords or {}))

    return torch.Tensor._make_wrapper_subclass(Stand, x.shape, dtype=x.dtype)


def torch_ways():
    import torch

    class Mine(torch.Tensor):
        pass

    return [
        ("short", lambda x: x[:-1], True),
        ("one element", lambda x: x.reshape(-1)[:1], True),
        ("empty", lambda x: x[:0], True),
        ("longer", lambda x: torch.cat([x, x]), True),
        ("scalar", lambda x: x.reshape(-1)[0], True),
        ("complex", lambda x: x.to(torch.complex64), True),
        ("boolean", lambda x: x.bool(), True),
        ("meta", lambda x: x.to("meta"), True),
        ("sparse", lambda x: x.to_sparse(), True),
        ("emptied", emptied, True),
        ("shrunk", lambda x: emptied(x, 4), True),
        ("stand-in", wrapped, True),
        ("numpy", lambda x: x.numpy(), True),
        ("list", lambda x: x.tolist(), True),
        ("quantised", lambda x: torch.quantize_per_tensor(x.float(), 0.1, 0, torch.qint8), True),
        ("nested", lambda x: torch.nested.nested_tensor([x.float()]), True),
        ("float64", lambda x: x.double(), None),
        ("int64", lambda x: x.long(), None),
        ("negated", lambda x: torch._neg_view(-x), False),
        ("gaps", torch_gaps, False),
        ("turned", turned, False),
        ("subclass", lambda x: x.clone().as_subclass(Mine), False),
        ("parameter", lambda x: torch.nn.Parameter(x, requires_grad=False), False),
        ("inference", lambda x: _inference(x), False),
    ]


def _inference(x):
    import torch

    with torch.inference_mode():
        return x.clone()

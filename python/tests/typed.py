# pyright: reportUnnecessaryTypeIgnoreComment=true
"""What type checkers must say of the package: checked by `mypy --strict` and pyright, never run."""

from typing import Any, List, Optional, Tuple, Union

import numpy as np
import numpy.typing as npt
import torch
from typing_extensions import assert_type

import sixwarp
import sixwarp.dsv4
import sixwarp.flash_mla
import sixwarp.torch

Either = Union[torch.Tensor, Tuple[torch.Tensor, torch.Tensor]]
Halves = npt.NDArray[np.float16]
Floats = npt.NDArray[np.float32]


def numpy_arrays(q: Halves, k: Halves, sinks: Floats, lengths: npt.NDArray[np.int32], lse_too: bool) -> None:
    """Lengths and sinks have types of their own; numbers may be NumPy's."""
    assert_type(sixwarp.attention(q, k, k, sinks=sinks, seqused_k=lengths, scale=np.float32(0.5)), Halves)
    assert_type(sixwarp.attention(q, k, k, window=(np.int64(3), None), max_seqlen_q=np.int32(3)), Halves)
    assert_type(sixwarp.attention(q, k, k, window=[3, 0], return_lse=lse_too), Union[Halves, Tuple[Halves, Halves]])


def torch_tensors(q: torch.Tensor, lengths: torch.Tensor, lse_too: bool) -> None:
    """The result follows `return_lse`."""
    assert_type(sixwarp.attention(q, q, q), torch.Tensor)
    assert_type(sixwarp.attention(q, q, q, return_lse=True), Tuple[torch.Tensor, torch.Tensor])
    assert_type(sixwarp.attention(q, q, q, return_lse=lse_too), Either)
    assert_type(sixwarp.torch.attention(q, q, q), torch.Tensor)
    assert_type(sixwarp.torch.attention(q, q, q, return_lse=True), Tuple[torch.Tensor, torch.Tensor])
    assert_type(sixwarp.torch.attention(q, q, q, return_lse=lse_too), Either)
    assert_type(sixwarp.torch.sdpa(q, q, q, is_causal=True), torch.Tensor)


def support(q: Halves, lists: npt.NDArray[np.int32], cache: torch.Tensor) -> None:
    """A reason, or none."""
    assert_type(sixwarp.supports(q, q, q, device="sm_90a", sinks=lists), Optional[str])
    assert_type(sixwarp.dsv4.supports(q, q, lists, device="cpu"), Optional[str])
    out, lse = sixwarp.flash_mla.flash_mla_with_kvcache(cache, cache, indices=cache, is_fp8_kvcache=True)
    assert_type((out, lse), Tuple[torch.Tensor, torch.Tensor])
    out, largest, lse = sixwarp.flash_mla.flash_mla_sparse_fwd(cache, cache, cache, 0.1)
    assert_type(largest, Optional[torch.Tensor])


def plans(q: torch.Tensor, lengths: torch.Tensor, lse_too: bool) -> None:
    """A plan's result is that of the call it was made for; its type can be written down."""
    plan: "sixwarp.PlannedAttention[torch.Tensor, torch.Tensor]" = sixwarp.plan(q, q, q, seqused_k=lengths)
    assert_type(plan(q, q, q, seqused_k=lengths, out=q), torch.Tensor)
    both = sixwarp.plan(q, q, q, return_lse=True)
    assert_type(both, sixwarp.PlannedAttention[torch.Tensor, Tuple[torch.Tensor, torch.Tensor]])
    assert_type(both(q, q, q, lse=lengths), Tuple[torch.Tensor, torch.Tensor])
    either = sixwarp.plan(q, q, q, return_lse=lse_too)
    assert_type(either(q, q, q), Either)
    assert_type(plan.workspace_bytes, int)


def merging(outs: List[Halves], lses: List[Floats], parts: List[Tuple[torch.Tensor, torch.Tensor]]) -> None:
    """Log-sum-exps are float32 whatever the outputs are."""
    assert_type(sixwarp.merge(outs, lses)[0], Halves)
    assert_type(sixwarp.merge([out for out, _ in parts], (lse for _, lse in parts))[0], torch.Tensor)


def mistakes(q: torch.Tensor, anything: Any) -> None:
    """What is wrong is seen before it is run: each of these must be an error."""
    sixwarp.attention(q, q, q, layout="sbhd")  # type: ignore[call-overload]
    sixwarp.attention(q, q, None)  # type: ignore[call-overload]
    sixwarp.attention(q, q, q, seqused_k=3)  # type: ignore[call-overload]
    sixwarp.attention(q, q, q, scale="0.5")  # type: ignore[call-overload]
    sixwarp.attention(q, q, q, max_seqlen_q=3.5)  # type: ignore[call-overload]
    sixwarp.dsv4.pack_rows(anything, page_rows="64")  # type: ignore[arg-type]

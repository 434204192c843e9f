"""Fused attention for CPUs and NVIDIA GPUs since Ampere.

>>> import numpy as np, sixwarp
>>> rng = np.random.default_rng(0)
>>> q = rng.standard_normal((1, 16, 8, 128), np.float32)    # batch, tokens, heads, dim
>>> kv = rng.standard_normal((1, 300, 2, 128), np.float32)  # fewer KV heads
>>> out, lse = sixwarp.attention(q, kv, kv, causal=True, return_lse=True)
>>> out.shape, lse.shape
((1, 16, 8, 128), (1, 8, 16))

NumPy arrays and CPU tensors of torch run on the CPU; CUDA tensors run on their GPU, on the current
stream. `sixwarp.torch` has drop-in functions for torch and flash-attn, `sixwarp.transformers` the
attention implementation for models, `sixwarp.dsv4` DeepSeek-V4's layers, `sixwarp.flash_mla` FlashMLA's functions.
`sixwarp.vllm` and `sixwarp.sglang` are plug-ins that these engines find by themselves.
"""

from ._attention import PlannedAttention, attention, plan, supports
from ._library import Unsupported
from ._library import version as __version__
from ._merge import merge

__all__ = ["PlannedAttention", "Unsupported", "__version__", "attention", "merge", "plan", "supports"]


def __getattr__(name: str):
    if name in ("dsv4", "flash_mla", "sglang", "torch", "transformers", "vllm"):
        import importlib

        return importlib.import_module(f".{name}", __name__)
    raise AttributeError(f"module 'sixwarp' has no attribute '{name}'")

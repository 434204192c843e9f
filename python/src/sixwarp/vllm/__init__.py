"""sixwarp in vLLM (0.32): `--attention-backend SIXWARP`.

vLLM finds `register` by the package's entry point in the group `vllm.general_plugins`, so installing sixwarp beside
vLLM is enough. Nothing changes until the backend is asked for by name:

- Dense models run the backend `SIXWARP`: paged caches at any strides, sinks, windows, soft caps, mixed batches, CUDA
  graphs of every kind.
- The layers of DeepSeek-V4 and V4.1 then run on sixwarp too, without padding heads to 64 or 128 and without gathering
  caches.

`docs/serving.md` says what is refused. Importing this module imports no part of vLLM; `register` does.
"""

from __future__ import annotations

from typing import Any

from .._plugin import harmless

NAME = "SIXWARP"

__all__ = ["NAME", "SixwarpBackend", "register"]


@harmless("vllm", "0.32")
def register() -> None:
    """Makes the backend's name known to vLLM. It may be called again: then it changes nothing."""
    from vllm.v1.attention.backends.registry import AttentionBackendEnum, register_backend

    from . import _dsv4

    if NAME not in AttentionBackendEnum.__members__:
        register_backend(NAME, f"{__name__}.SixwarpBackend")
    _dsv4.install()


def __getattr__(name: str) -> Any:
    if name == "SixwarpBackend":
        from ._backend import SixwarpBackend

        return SixwarpBackend
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")

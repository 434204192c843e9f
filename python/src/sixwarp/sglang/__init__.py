"""sixwarp in SGLang (0.5.23): `--attention-backend sixwarp`, and DeepSeek-V4's kernels.

SGLang finds `register` by the package's entry point in the group `sglang.srt.plugins`, so installing sixwarp beside
SGLang is enough. Nothing changes until it is asked for:

- Dense models run on `--attention-backend sixwarp`; pages of 64 tokens (`--page-size 64`) are quicker than single ones.
- With the environment variable `SIXWARP_SGLANG_DSV4=1`, the sparse attention of DeepSeek-V4 runs on sixwarp.

`docs/serving.md` says what is refused. Importing this module imports no part of SGLang; `register` does.
"""

from __future__ import annotations

import os
from typing import Any

from .._plugin import harmless

NAME = "sixwarp"
DSV4_VARIABLE = "SIXWARP_SGLANG_DSV4"

__all__ = ["DSV4_VARIABLE", "NAME", "create", "register"]


@harmless("sglang", "0.5.23")
def register() -> None:
    """Makes the backend's name known to SGLang. It may be called again: then it changes nothing."""
    from sglang.srt.arg_groups.choices import ATTENTION_BACKEND_CHOICES, add_attention_backend_choices
    from sglang.srt.layers.attention.attention_registry import ATTENTION_BACKENDS, register_attention_backend

    if NAME not in ATTENTION_BACKEND_CHOICES:
        add_attention_backend_choices([NAME])
    if NAME not in ATTENTION_BACKENDS:
        register_attention_backend(NAME)(create)
    if os.environ.get(DSV4_VARIABLE, "0") not in ("", "0"):
        from ._dsv4 import hook

        hook()


def create(model_runner: Any) -> Any:
    """The backend for a model; what it cannot do is refused here."""
    from ._backend import SixwarpAttnBackend

    return SixwarpAttnBackend(model_runner)

"""SGLang's own registry of hooks, applied to the recorded functions of FlashMLA: DeepSeek-V4's calls reach sixwarp."""

import importlib.util
import sys
import types

import install
import pytest
import torch
from check_signatures import RECORDED

from sixwarp import dsv4
from sixwarp.sglang import _dsv4

HOOKS = "sglang.srt.plugins.hook_registry"


def load(name, folder):
    """Loads one file of SGLang as a module, without the packages around it."""
    path = folder.joinpath(*name.split(".")).with_suffix(".py")
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    parts = name.split(".")
    for n in range(1, len(parts)):
        package = sys.modules.setdefault(".".join(parts[:n]), types.ModuleType(".".join(parts[:n])))
        package.__path__ = []
    setattr(sys.modules[name.rpartition(".")[0]], parts[-1], module)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def functions():
    hooks, functions = load(HOOKS, install.sglang_folder()), load(_dsv4.MODULE, RECORDED)
    for _ in range(2):
        _dsv4.hook()
    hooks.HookRegistry.apply_hooks()
    yield functions
    for name in [name for name in sys.modules if name.split(".")[0] == "sglang"]:
        del sys.modules[name]


def test_hooks_are_applied(functions):
    q, indices = torch.randn(2, 1, 64, 512).bfloat16(), torch.zeros(2, 1, 64, dtype=torch.int32)
    pages = dsv4.pack_rows(torch.randn(64, 512).bfloat16())[:, : 64 * 584].unflatten(1, (64, 1, 584))
    call = lambda pages: functions.flash_mla_with_kvcache(
        q=q, k_cache=pages, block_table=None, cache_seqlens=None, head_dim_v=512, tile_scheduler_metadata=None,
        is_fp8_kvcache=True, indices=indices, softmax_scale=512**-0.5,
    )  # fmt: skip
    out, lse = call(pages)
    assert out.shape == q.shape and lse.shape == (2, 64, 1)
    assert call(torch.zeros(1, 64, 1, 656, dtype=torch.uint8)) == "theirs"
    rows = torch.randn(9, 1, 512).bfloat16()
    assert functions.flash_mla_sparse_fwd(q=q[:, 0], kv=rows, indices=indices, sm_scale=0.1)[0].shape == (2, 64, 512)

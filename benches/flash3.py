"""FlashAttention 3 as it is installed, for paged and packed batches.

Three builds are known. `flash_attn_interface` is one's own, from FlashAttention's repository. vLLM's wheel has kernels for
pages of all sizes, which are loaded without vLLM itself. fa3-fwd of PyPI was built without FLASHATTENTION_PAGEDKV: it takes
pages only where tensor copies bring them. Those are pages whose rows are a multiple of its KV tile, under queries that fill
more than one of its tiles; other calls raise an error that says so.
"""

import importlib
import importlib.metadata
import importlib.util
import pathlib

import torch


class Interface:
    """A build with FlashAttention's own Python interface."""

    def __init__(self, name, distribution):
        self.module = importlib.import_module(name)
        self.name = f"{distribution} {version(distribution)}"

    def paged(self, q, k, v, lengths, table, offsets=None, longest=None):
        """Causal attention of `q` on pages; queries are packed where there are `offsets`."""
        more = {} if offsets is None else dict(cu_seqlens_q=offsets, max_seqlen_q=longest)
        same = dict(cache_seqlens=lengths, page_table=table, causal=True)
        return first(self.module.flash_attn_with_kvcache(q, k, v, **same, **more))

    def packed(self, q, k, v, offsets, longest):
        """Attention without a mask of sequences one after the other."""
        same = dict(cu_seqlens_q=offsets, cu_seqlens_k=offsets, max_seqlen_q=longest, max_seqlen_k=longest)
        return first(self.module.flash_attn_varlen_func(q, k, v, **same))


class Vllm:
    """The operators of vLLM's wheel, with the arguments that FlashAttention's own interface gives them."""

    USUAL = dict(
        window_size_left=-1, window_size_right=-1, softcap=0.0, is_rotary_interleaved=True, num_splits=0, sm_margin=0,
        cp_world_size=1, cp_rank=0,
    )  # fmt: skip

    def __init__(self):
        spec = importlib.util.find_spec("vllm")
        if spec is None:
            raise ImportError("vLLM is not installed")
        path = pathlib.Path(spec.origin).parent / "vllm_flash_attn" / "_vllm_fa3_C.abi3.so"
        if not path.exists():
            raise ImportError("this vLLM has no FlashAttention 3")
        try:
            torch.ops.load_library(path)
        except OSError as error:
            print("FlashAttention 3 of vLLM:", error)
            raise ImportError("another torch than this vLLM is for") from error
        self.forward = torch.ops._vllm_fa3_C.fwd
        self.names = [argument.name for argument in self.forward.default._schema.arguments]
        self.name = f"vllm {version('vllm')}"

    def call(self, q, k, v, **given):
        given = dict.fromkeys(self.names) | self.USUAL | given | dict(q=q, k=k, v=v, softmax_scale=q.shape[-1] ** -0.5)
        return self.forward(**given)[0]

    def paged(self, q, k, v, lengths, table, offsets=None, longest=None):
        more = dict(cu_seqlens_q=offsets, max_seqlen_q=longest)
        return self.call(q, k, v, seqused_k=lengths, page_table=table, is_causal=True, **more)

    def packed(self, q, k, v, offsets, longest):
        same = dict(cu_seqlens_q=offsets, cu_seqlens_k=offsets, max_seqlen_q=longest, max_seqlen_k=longest)
        return self.call(q, k, v, is_causal=False, num_splits=1, **same)


def first(result):
    return result[0] if isinstance(result, (tuple, list)) else result


def version(distribution):
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return "of unknown version"


def installed():
    """The first build that is installed, or None."""
    builds = (
        lambda: Interface("flash_attn_interface", "flash_attn_3"),
        Vllm,
        lambda: Interface("fa3_fwd_interface", "fa3_fwd"),
    )
    for build in builds:
        try:
            return build()
        except ImportError:
            continue
    return None

"""Context-parallel attention: each process holds a part of the keys.

    torchrun --nproc-per-node 4 examples/context_parallel.py            # a GPU for each process and NCCL, or the CPU and gloo
    torchrun --nproc-per-node 4 examples/context_parallel.py --cpu      # the CPU and gloo
    python examples/context_parallel.py                                 # one process alone

Every rank attends to its own keys, the ranks exchange outputs and log-sum-exps, and each merges all of
them; the sink is applied once, after the merge. Each rank compares with attention over all keys on
its own.

The same is done for a layer of DeepSeek-V4, whose pages of fp8 rows are dealt out to the ranks: each reads those
entries of the lists that name rows of its own.
"""

import os
import sys
from typing import Optional, Tuple

import torch
import torch.distributed as dist
from torch import Tensor

import sixwarp
from sixwarp import dsv4

# Rows of a page.
PAGE = 16
# What torchrun says to each process, for one that was started without it.
ALONE = {
    "RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1", "MASTER_ADDR": "localhost",
    "MASTER_PORT": "0",
}  # fmt: skip


def context_parallel(
    q: Tensor, k: Tensor, v: Tensor, sinks: Tensor, group: Optional[dist.ProcessGroup] = None
) -> Tuple[Tensor, Tensor]:
    """Attention of `q` (the same on every rank) over the keys of all ranks."""
    out, lse = sixwarp.attention(q, k, v, return_lse=True)
    return merged(out, lse, sinks, group)


def context_parallel_dsv4(
    q: Tensor, window: Tensor, window_lists: Tensor, compressed: Tensor, lists: Tensor, sinks: Tensor,
    group: Optional[dist.ProcessGroup] = None,
) -> Tuple[Tensor, Tensor]:  # fmt: skip
    """A CSA layer of `q` (`[requests, tokens, heads, 512]`) over the pages of all ranks; lists name rows of all of them."""
    near, far = (own(entries, group) for entries in (window_lists, lists))
    out, lse = dsv4.decode(q, window, near, page_rows=PAGE, compressed=compressed, compressed_lists=far)
    return merged(out, lse, sinks, group)


def own(lists: Tensor, group: Optional[dist.ProcessGroup] = None) -> Tensor:
    """Lists of rows as lists of this rank's rows: page n lies on rank n % ranks, and others' rows are left out."""
    rank, ranks = dist.get_rank(group), dist.get_world_size(group)
    page, row = lists // PAGE, lists % PAGE
    return torch.where((lists >= 0) & (page % ranks == rank), page // ranks * PAGE + row, -1)


def merged(
    out: Tensor, lse: Tensor, sinks: Tensor, group: Optional[dist.ProcessGroup] = None
) -> Tuple[Tensor, Tensor]:
    """The result over all keys from those of the ranks, which were computed without the sink."""
    ranks = dist.get_world_size(group)
    outs = [torch.empty_like(out) for _ in range(ranks)]
    lses = [torch.empty_like(lse) for _ in range(ranks)]
    dist.all_gather(outs, out, group)
    dist.all_gather(lses, lse, group)
    return sixwarp.merge(outs, lses, sinks=sinks)


def main() -> None:
    for name, value in ALONE.items():
        os.environ.setdefault(name, value)
    enough = torch.cuda.device_count() >= int(os.environ["LOCAL_WORLD_SIZE"])
    gpu = enough and "--cpu" not in sys.argv[1:]
    dist.init_process_group("nccl" if gpu else "gloo")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if gpu else torch.device("cpu")
    dtype = torch.bfloat16 if gpu else torch.float32
    if gpu:
        torch.cuda.set_device(device)
    torch.manual_seed(0)
    q = torch.randn(2, 5, 8, 64).to(device, dtype)
    # The last rank's part is the shortest: 1000 keys do not divide evenly.
    k, v = (torch.randn(2, 1000, 2, 64).to(device, dtype) for _ in range(2))
    sinks = torch.randn(8).to(device)
    part = -(-k.shape[1] // ranks)
    mine = slice(rank * part, min((rank + 1) * part, k.shape[1]))
    out, lse = context_parallel(q, k[:, mine], v[:, mine], sinks)
    want, want_lse = sixwarp.attention(q, k, v, sinks=sinks, return_lse=True)
    tolerance = 2e-2 if gpu else 1e-5
    torch.testing.assert_close(out, want, atol=tolerance, rtol=tolerance)
    torch.testing.assert_close(lse, want_lse, atol=1e-3, rtol=0)
    layer(rank, ranks, device)
    print(f"rank {rank} of {ranks} on {device}: keys {mine.start}..{mine.stop}, the merged result is that of one rank")
    dist.destroy_process_group()


def layer(rank: int, ranks: int, device: torch.device) -> None:
    """A layer of DeepSeek-V4 on all ranks and on this one."""
    q = torch.randn(3, 2, 8, dsv4.DIM).bfloat16().to(device)
    rows = (torch.randn(n * PAGE, dsv4.DIM).bfloat16() for n in (24, 40))
    window, compressed = (dsv4.pack_rows(x, PAGE).to(device) for x in rows)
    # Of the last request's window, most ranks have nothing.
    near = torch.randint(24 * PAGE, (3, 2, dsv4.WINDOW), dtype=torch.int32)
    near[2, :, 1:] = -1
    near, far = near.to(device), torch.randint(40 * PAGE, (3, 2, 64), dtype=torch.int32).to(device)
    sinks = torch.randn(8).to(device)
    reason = dsv4.supports(q, window, near, page_rows=PAGE, compressed=compressed, compressed_lists=far)
    if reason is not None:
        print(f"rank {rank} of {ranks} on {device}: no layer of DeepSeek-V4: {reason}")
        return
    out, lse = context_parallel_dsv4(
        q, window[rank::ranks].contiguous(), near, compressed[rank::ranks].contiguous(), far, sinks
    )
    want, want_lse = dsv4.decode(q, window, near, sinks, page_rows=PAGE, compressed=compressed, compressed_lists=far)
    torch.testing.assert_close(out, want, atol=2e-2, rtol=2e-2)
    torch.testing.assert_close(lse, want_lse, atol=1e-3, rtol=0)
    print(f"rank {rank} of {ranks} on {device}: the layer of DeepSeek-V4 is that of one rank")


if __name__ == "__main__":
    main()

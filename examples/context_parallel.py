"""Context-parallel attention: each process holds a part of the keys.

    torchrun --nproc-per-node 4 examples/context_parallel.py            # a GPU for each process and NCCL, or the CPU and gloo
    torchrun --nproc-per-node 4 examples/context_parallel.py --cpu      # the CPU and gloo
    python examples/context_parallel.py                                 # one process alone

Every rank attends to its own keys, the ranks exchange outputs and log-sum-exps, and each merges all of
them; the sink is applied once, after the merge. Each rank compares with attention over all keys on
its own.
"""

import os
import sys
from typing import Optional, Tuple

import torch
import torch.distributed as dist
from torch import Tensor

import sixwarp

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
    print(f"rank {rank} of {ranks} on {device}: keys {mine.start}..{mine.stop}, the merged result is that of one rank")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

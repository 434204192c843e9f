"""A decode loop over a paged cache, one CUDA graph for all steps.

    python examples/paged_decode.py            # on a GPU in a CUDA graph, or without a GPU on the CPU
    python examples/paged_decode.py --cpu      # on the CPU

Requests of different lengths share a pool of pages. A step writes each request's new row into its
page and attends to everything so far; lengths and page table live on the device, so the graph that
was captured once serves every step. The last step is compared with attention over contiguous rows.
"""

import argparse
from typing import Callable, List

import torch
from torch import Tensor

import sixwarp

HEADS, KV_HEADS, DIM, PAGE, PAGES_EACH = 32, 8, 128, 64, 8
START = [1, 63, 64, 300]


class Cache:
    """Pages of keys and values, and which request owns which."""

    def __init__(self, device: str, dtype: torch.dtype) -> None:
        batch = len(START)
        shape = (batch * PAGES_EACH, PAGE, KV_HEADS, DIM)
        self.k = torch.randn(shape, device=device, dtype=dtype)
        self.v = torch.randn(shape, device=device, dtype=dtype)
        pages = torch.randperm(batch * PAGES_EACH, device=device, dtype=torch.int32)
        self.table = pages.reshape(batch, PAGES_EACH)
        self.lengths = torch.tensor(START, device=device, dtype=torch.int32)

    def append(self, k: Tensor, v: Tensor) -> None:
        """Writes one new row per request, on the device."""
        position = self.lengths.long()
        page = self.table.gather(1, (position // PAGE).unsqueeze(1)).squeeze(1).long()
        self.k[page, position % PAGE] = k
        self.v[page, position % PAGE] = v
        self.lengths += 1

    def rows(self, request: int) -> List[Tensor]:
        """A request's keys and values, contiguous."""
        pages, length = self.table[request].long(), int(self.lengths[request])
        return [x[pages].flatten(0, 1)[:length].unsqueeze(0) for x in (self.k, self.v)]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--cpu", action="store_true")
    parser.add_argument("--steps", type=int, default=100)
    args = parser.parse_args()
    gpu = torch.cuda.is_available() and not args.cpu
    device, dtype = ("cuda", torch.bfloat16) if gpu else ("cpu", torch.float32)
    print(f"on {torch.cuda.get_device_name()}, in a CUDA graph" if gpu else "on the CPU")
    torch.manual_seed(0)
    cache, batch = Cache(device, dtype), len(START)
    q, k, v = (torch.randn(batch, n, DIM, device=device, dtype=dtype) for n in (HEADS, KV_HEADS, KV_HEADS))
    out = torch.empty(batch, 1, HEADS, DIM, device=device, dtype=dtype)

    def step() -> None:
        cache.append(k, v)
        sixwarp.attention(
            q.unsqueeze(1), cache.k, cache.v, seqused_k=cache.lengths, page_table=cache.table, out=out
        )

    replay = captured(step, cache) if gpu else step
    for _ in range(args.steps):
        for x in (q, k, v):
            x.copy_(torch.randn_like(x))
        replay()
    for request in range(batch):
        keys, values = cache.rows(request)
        want = sixwarp.attention(q[request : request + 1].unsqueeze(1), keys, values)
        torch.testing.assert_close(out[request : request + 1], want, atol=2e-2, rtol=2e-2)
    print(f"{args.steps} steps, lengths {cache.lengths.tolist()}: equal to attention over contiguous rows")


def captured(step: Callable[[], None], cache: Cache) -> Callable[[], None]:
    """`step` as a CUDA graph; the cache is as before."""
    lengths = cache.lengths.clone()
    step()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    cache.lengths.copy_(lengths)
    return graph.replay


if __name__ == "__main__":
    main()

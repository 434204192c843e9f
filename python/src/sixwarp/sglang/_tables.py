"""Page tables of a step, from SGLang's list of every request's slots."""

from __future__ import annotations

from typing import Any, Optional

import torch
from torch import Tensor

from .._serving import power_of_two


class Tables:
    """Makes page tables `[requests, pages]` of int32; those of captured graphs lie in buffers of their own."""

    def __init__(self, req_to_token: Tensor, page: int, translate: Any, requests: int = 0) -> None:
        self.req_to_token, self.page, self.translate = req_to_token, page, translate
        self.most = -(-req_to_token.shape[1] // page)
        # Of captured graphs: for all layers, and for those with a window and a pool of their own.
        self.full = self._buffer(requests)
        self.window = None if translate is None else self._buffer(requests)

    def _buffer(self, requests: int) -> Tensor:
        return self.req_to_token.new_zeros((requests, self.most), dtype=torch.int32)

    def pages_in_use(self, longest: Optional[int]) -> int:
        """Pages of the longest sequence, rounded up so that there are few different ones."""
        if longest is None:
            return self.most
        return min(power_of_two(max(-(-longest // self.page), 1)), self.most)

    def slots(self, requests: Tensor, pages: int) -> Tensor:
        """The first slot of each page of each request."""
        starts = torch.arange(0, pages * self.page, self.page, device=requests.device)
        return self.req_to_token[requests[:, None], starts[None, :]]

    def pages_of(self, slots: Tensor, window: bool) -> Tensor:
        """Slots as pages, of the windows' pool where asked."""
        slots = self.translate(slots) if window else slots
        return (slots if self.page == 1 else slots // self.page).to(torch.int32).contiguous()

    def fill(self, requests: Tensor, pages: int) -> None:
        """Fills the buffers of captured graphs."""
        slots, count = self.slots(requests, pages), len(requests)
        self.full[:count, :pages] = self.pages_of(slots, False)
        if self.window is not None:
            self.window[:count, :pages] = self.pages_of(slots, True)

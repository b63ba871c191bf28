"""Preallocated keys and values: one row a running request, one column a token.

    row b:  [0, lengths[b])                 committed
            [lengths[b], lengths[b] + N)    the block being verified; kept or overwritten
            beyond                          free

Rows 0 .. B-1 are the running requests, so that a forward takes a view and copies nothing.
"""

from __future__ import annotations

import torch
from torch import Tensor

from wingbeat.model.attention import KV


class KVCache:
    """`layers` pairs of [rows, kv_heads, columns, head_dim]. Zeros, as an unwritten NaN would poison attention."""

    def __init__(self, layers: int, shape: tuple[int, int, int, int], like: Tensor) -> None:
        self.lengths = [0] * shape[0]
        self._layers: list[KV] = [(like.new_zeros(shape), like.new_zeros(shape)) for _ in range(layers)]
        self._device = like.device

    def rows(self, first: int, last: int) -> list[KV]:
        """Views of rows first .. last-1, one pair a layer."""
        return [(keys[first:last], values[first:last]) for keys, values in self._layers]

    def starts(self, first: int, last: int) -> Tensor:
        """lengths of rows first .. last-1, [B] int64."""
        return torch.tensor(self.lengths[first:last], device=self._device)

    def reach(self, first: int, last: int, width: int) -> int:
        """Columns that a forward of `width` new tokens a row must be able to see."""
        return max(self.lengths[first:last]) + width

    def move(self, source: int, destination: int) -> None:
        """Row `source` takes the place of row `destination`."""
        length = self.lengths[source]
        if source != destination:
            for pair in self._layers:
                for tensor in pair:
                    tensor[destination, :, :length] = tensor[source, :, :length]
            self.lengths[destination] = length
        self.lengths[source] = 0

    def compact(self, path: Tensor) -> None:
        """Moves the accepted nodes of each row's block to its front, in place.

        path [B, D] int64: node numbers from the root on; what stands after the accepted ones is ignored later.
        """
        batch, depth = path.shape
        starts = self.starts(0, batch)[:, None]
        rows = torch.arange(batch, device=path.device)[:, None]
        source = starts + path.clamp(min=0)
        destination = starts + torch.arange(depth, device=path.device)
        for pair in self._layers:
            for tensor in pair:
                tensor[rows, :, destination] = tensor[rows, :, source]

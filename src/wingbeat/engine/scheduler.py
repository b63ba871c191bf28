"""Which requests run, and in which row. Holds no tensors."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from wingbeat.engine.request import Request


class Scheduler:
    """First come, first served; running requests fill rows 0 .. len(running)-1 without gaps."""

    def __init__(self, max_batch: int) -> None:
        self.max_batch = max_batch
        self.waiting: deque[Request] = deque()
        self.running: list[Request] = []

    @property
    def has_work(self) -> bool:
        return bool(self.waiting or self.running)

    def submit(self, request: Request) -> None:
        self.waiting.append(request)

    def admit(self) -> Iterator[tuple[int, Request]]:
        """Moves waiting requests into free rows, yielding each with its row."""
        while self.waiting and len(self.running) < self.max_batch:
            request = self.waiting.popleft()
            self.running.append(request)
            yield len(self.running) - 1, request

    def remove(self, row: int) -> int:
        """Takes the request of `row` out; the last row moves into its place. Returns that last row."""
        last = len(self.running) - 1
        self.running[row] = self.running[last]
        self.running.pop()
        return last

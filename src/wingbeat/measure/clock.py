"""Reading the clock: the observer that turns an engine's phases and cycles into columns, and a clock for trials."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from time import perf_counter
from typing import Protocol

from wingbeat.measure.record import CycleColumns

PREFILL = "prefill"


class CycleShape(Protocol):
    """What an engine says about one cycle; one entry a request in each tuple."""

    @property
    def contexts(self) -> Sequence[int]: ...
    @property
    def drafted(self) -> Sequence[int]: ...
    @property
    def accepted(self) -> Sequence[int]: ...
    @property
    def committed(self) -> Sequence[int]: ...
    @property
    def width(self) -> int: ...
    @property
    def path(self) -> str: ...


class FakeClock:
    """A clock in seconds that moves only when told to."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def advance(self, seconds: float) -> None:
        """Moves the clock on."""
        self.now += seconds


class TimingObserver:
    """Times phases and collects one row a cycle.

    A cycle lasts from the end of the one before (or of the prefill before it) to its own end; what no phase covers is
    the host's. `synchronize` waits for the device before the clock is read; without one the time of launching is
    measured on a GPU. Phases must not be nested.
    """

    def __init__(
        self, clock: Callable[[], float] = perf_counter, synchronize: Callable[[], None] | None = None
    ) -> None:
        self.columns = CycleColumns()
        self.prefill_ms = 0.0
        self._clock = clock
        self._synchronize = synchronize
        self._open: dict[str, float] = {}
        self._boundary = clock()

    def phase(self, name: str) -> AbstractContextManager[None]:
        """Times what runs inside it; the same name twice in a cycle adds up."""
        return _Phase(self, name)

    def cycle(self, facts: CycleShape) -> None:
        """Ends the row: the phases since the last call, and what the engine says about the cycle."""
        now = self.read()
        self._open["cycle"] = 1000 * (now - self._boundary)
        self._boundary = now
        columns = self.columns
        for name in self._open.keys() - columns.ms.keys():
            columns.ms[name] = [0.0] * len(columns)
        for name, column in columns.ms.items():
            column.append(round(self._open.get(name, 0.0), 4))
        self._open = {}
        columns.contexts.append(list(facts.contexts))
        columns.drafted.append(list(facts.drafted))
        columns.accepted.append(list(facts.accepted))
        columns.committed.append(list(facts.committed))
        columns.width.append(facts.width)
        columns.path.append(facts.path)

    def read(self) -> float:
        """Seconds, after the device has caught up."""
        if self._synchronize:
            self._synchronize()
        return self._clock()

    def end_phase(self, name: str, start: float) -> None:
        """Books the time since `start` to a phase."""
        now = self.read()
        if name == PREFILL:
            self.prefill_ms += 1000 * (now - start)
            self._boundary = now
        else:
            self._open[name] = self._open.get(name, 0.0) + 1000 * (now - start)


class _Phase(AbstractContextManager[None]):
    def __init__(self, observer: TimingObserver, name: str) -> None:
        self.observer = observer
        self.name = name

    def __enter__(self) -> None:
        self.start = self.observer.read()

    def __exit__(self, *exception: object) -> None:
        self.observer.end_phase(self.name, self.start)

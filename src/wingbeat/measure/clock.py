"""Reading the clock: the observer that turns an engine's phases and cycles into columns, and a clock for trials."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from time import perf_counter
from typing import Protocol

from wingbeat.measure.columns import CycleColumns, floats

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
    @property
    def reason(self) -> str: ...


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
    the host's. A phase inside another stops the outer one while it lasts. `synchronize` waits for the device before the
    clock is read; without one the time of launching is measured on a GPU. `origin`: the clock's reading from which the
    cycles' times count.
    """

    def __init__(
        self,
        clock: Callable[[], float] = perf_counter,
        synchronize: Callable[[], None] | None = None,
        origin: float = 0.0,
    ) -> None:
        self.columns = CycleColumns()
        self.prefill_ms = 0.0
        self._clock = clock
        self._synchronize = synchronize
        self._origin = origin
        self._ms: dict[str, float] = {}
        self._open: list[str] = []
        self._last = self._boundary = clock()

    def phase(self, name: str) -> AbstractContextManager[None]:
        """Times what runs inside it; the same name twice in a cycle adds up."""
        return _Phase(self, name)

    def cycle(self, facts: CycleShape) -> None:
        """Ends the row: the phases since the last call, and what the engine says about the cycle."""
        now = self.read()
        whole = 1000 * (now - self._boundary)
        self._ms["host"] = max(0.0, whole - sum(self._ms.values()))
        self._ms["cycle"] = whole
        self._boundary = now
        columns = self.columns
        for name in self._ms:
            if name not in columns.ms:
                columns.ms[name] = floats([0.0] * len(columns))
        for name, column in columns.ms.items():
            column.append(self._ms.get(name, 0.0))
        self._ms = {}
        columns.time.append(now - self._origin)
        columns.contexts.append(facts.contexts)
        columns.drafted.append(facts.drafted)
        columns.accepted.append(facts.accepted)
        columns.committed.append(facts.committed)
        columns.width.append(facts.width)
        columns.path.append(facts.path)
        columns.reason.append(facts.reason)

    def read(self) -> float:
        """Seconds, after the device has caught up."""
        if self._synchronize:
            self._synchronize()
        return self._clock()

    def begin_phase(self, name: str) -> None:
        """From now on time is the phase's."""
        self._book()
        self._open.append(name)

    def end_phase(self) -> None:
        """The innermost phase is over."""
        now = self._book()
        if self._open.pop() == PREFILL:
            self.prefill_ms += self._ms.pop(PREFILL)
            self._boundary = now

    def _book(self) -> float:
        """Gives the time since the last reading to the phase that was running, if any."""
        now = self.read()
        if self._open:
            name = self._open[-1]
            self._ms[name] = self._ms.get(name, 0.0) + 1000 * (now - self._last)
        self._last = now
        return now


class _Phase(AbstractContextManager[None]):
    def __init__(self, observer: TimingObserver, name: str) -> None:
        self.observer = observer
        self.name = name

    def __enter__(self) -> None:
        self.observer.begin_phase(self.name)

    def __exit__(self, *exception: object) -> None:
        self.observer.end_phase()

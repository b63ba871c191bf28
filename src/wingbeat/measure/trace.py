"""Cycles as a trace that Perfetto (ui.perfetto.dev) and Chrome (chrome://tracing) show: one track an arm."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from wingbeat.errors import StorageError
from wingbeat.measure.columns import ROWS, CycleColumns
from wingbeat.measure.record import Launch, RunRecord

ORDER = ("extend", "draft", "verify", "accept", "commit", "host")


def events(record: RunRecord, most: int = 200) -> list[dict[str, Any]]:
    """The first `most` measured cycles of every arm in every launch, as Chrome trace events (microseconds).

    A process is a launch, a thread an arm. A record knows how long each phase of a cycle took, not when it began: the
    phases are drawn one after the other in the order in which they run, the host's time last.
    """
    found: list[dict[str, Any]] = []
    for number, launch in enumerate(record.launches, start=1):
        found.append(_name("process_name", number, 0, f"launch {number}"))
        for thread, arm in enumerate(record.arms, start=1):
            found.append(_name("thread_name", number, thread, arm))
            for event in _arm(launch, arm, most):
                found.append({**event, "pid": number, "tid": thread})
    return found


def save(record: RunRecord, path: Path, most: int = 200) -> None:
    """Writes the trace as JSON. Raises StorageError where that fails."""
    try:
        path.write_text(json.dumps({"traceEvents": events(record, most), "displayTimeUnit": "ms"}), encoding="utf-8")
    except OSError as error:
        raise StorageError(f"cannot write the trace {path}: {error.strerror}; choose another place") from error


def _name(kind: str, process: int, thread: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "name": kind, "pid": process, "tid": thread, "args": {"name": name}}


def _arm(launch: Launch, arm: str, most: int) -> Iterator[dict[str, Any]]:
    """Cycle and phase events of one arm; its cycles follow one another unless the record has their times."""
    end = 0.0
    for entry in launch.rounds:
        if entry.warmup:
            continue
        cycles = entry.arms[arm].cycles
        for index in range(min(len(cycles), most)):
            length = 1000 * cycles.ms["cycle"][index]
            end = 1e6 * cycles.time[index] if len(cycles.time) else end + length
            yield from _cycle(cycles, index, end - length, entry.prompt)
        most -= min(len(cycles), most)


def _cycle(cycles: CycleColumns, index: int, start: float, prompt: str) -> Iterator[dict[str, Any]]:
    facts: dict[str, Any] = {name: getattr(cycles, name)[index] for name in ROWS}
    whole = 1000 * cycles.ms["cycle"][index]
    facts |= {"width": cycles.width[index], "path": cycles.path[index], "prompt": prompt}
    yield {"ph": "X", "name": "cycle", "ts": start, "dur": whole, "args": facts}
    for name in sorted(cycles.ms.keys() - {"cycle"}, key=_place):
        length = 1000 * cycles.ms[name][index]
        if length:
            yield {"ph": "X", "name": name, "ts": start, "dur": length}
        start += length


def _place(phase: str) -> tuple[int, str]:
    """Phases in their order; one that is not known comes last."""
    return ORDER.index(phase) if phase in ORDER else len(ORDER), phase

"""Runs that nobody recorded: the few figures that a person noted down."""

from __future__ import annotations

import re
from collections.abc import Mapping

from wingbeat.errors import UsageError
from wingbeat.measure.record import UNITS, Figure, Launch, RunRecord
from wingbeat.measure.runner import now

SOURCE = "noted"
_NUMBER = r"(\d+(?:\.\d*)?|\.\d+)"
_NOTATION = re.compile(rf"{_NUMBER}(?::{_NUMBER}-{_NUMBER})?(?:x(\d+))?")


def figure(text: str, unit: str) -> Figure:
    """A figure from VALUE[:LOW-HIGH][xCOUNT]: "19", "19:17.47-19.10" (seen between), "19x40" (the mean of 40).

    Raises UsageError for anything else, and for a value outside its range.
    """
    match = _NOTATION.fullmatch(text.strip())
    if not match:
        raise UsageError(f"cannot read the figure {text!r}; write VALUE, VALUE:LOW-HIGH or VALUE:LOW-HIGHxCOUNT")
    value, low, high = (None if part is None else float(part) for part in match.group(1, 2, 3))
    assert value is not None
    if low is not None and high is not None and not low <= value <= high:
        raise UsageError(f"{text!r}: the value is not within its range")
    return Figure(value, low, high, int(match[4]) if match[4] else None, unit)


def figures(noted: Mapping[str, str | None], acceptance: str | None) -> dict[str, Figure]:
    """The figures that were given, from their texts by name (see UNITS).

    acceptance: by position, unconditional, such as "0.6,0.4". Raises UsageError as `figure`, and where there is none.
    """
    found = {name: figure(text, UNITS[name]) for name, text in noted.items() if text is not None}
    for position, text in enumerate(acceptance.split(",") if acceptance else (), start=1):
        found[f"acceptance_{position}"] = figure(text, UNITS["acceptance"])
        if found[f"acceptance_{position}"].value > 1:
            raise UsageError(f"acceptance is a share between 0 and 1, not {text}")
    if not found:
        raise UsageError("a run needs at least one figure, such as --tokens-per-second 94")
    return found


def add_arm(run: RunRecord, arm: str, found: dict[str, Figure]) -> None:
    """Adds an arm to a noted run. Raises UsageError for a run that was not noted, or has the arm already."""
    if run.source != SOURCE:
        raise UsageError(f"{run.name} is no noted run (it comes from {run.source}): nothing can be added to it")
    if arm in run.arms:
        raise UsageError(f"{run.name} has an arm {arm} already; name another arm, or remove the run and note it anew")
    run.arms.append(arm)
    run.launches[0].figures[arm] = found


def new(name: str) -> RunRecord:
    """A noted run without an arm yet."""
    return RunRecord("bench", now(), {}, {}, [], [Launch(finished=True)], name=name, source=SOURCE)

"""What changed without any cause that looks at it: it explains nothing, and rules nothing out either."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from wingbeat.investigate.causes import ALL
from wingbeat.investigate.facts import Fact
from wingbeat.investigate.hypothesis import Cause, absent

if TYPE_CHECKING:
    from wingbeat.investigate.case import Case

LEAST = 2  # importance
IN_PARTS = {"process.argv"}  # every flag of it is a fact of its own
NEVER = {"setting.note", "calibration.timer"}  # words; the clock's own cost, which moves by its resolution


def unwatched(case: Case) -> list[Fact]:
    """The changed facts that may matter and that no cause watches which is possible here, the important first."""
    possible = [cause for cause in ALL if not absent(cause, case)]
    seen = {fact.name for cause in possible for pattern in _patterns(cause) for fact in case.match(pattern)}
    seen |= IN_PARTS | NEVER
    changed = [fact for fact in case.facts.values() if fact.state == "changed" and fact.importance >= LEAST]
    return sorted((fact for fact in changed if fact.name not in seen), key=lambda fact: -fact.importance)


def _patterns(cause: Cause) -> Iterator[str]:
    yield from (watch.pattern for watch in cause.watches)
    for decides in cause.decides:
        yield from decides.split("|")

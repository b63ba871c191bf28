"""Two fingerprints side by side: what changed, the important first, and what cannot be told."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Mapping

from wingbeat.probe import registry
from wingbeat.probe.reading import Reading, not_applicable, unknown


@dataclass(frozen=True)
class Change:
    """One field that is not known to be the same. grew: how much a counter rose between two readings of one boot."""

    name: str
    before: Reading
    after: Reading
    grew: float | None = None

    @property
    def importance(self) -> int:
        """3 (moves speed or output by itself) to 0 (does not)."""
        found = registry.spec(self.name)
        return found.importance if found else 0

    @property
    def predicts(self) -> str:
        """What a change of this field would show in a run."""
        found = registry.spec(self.name)
        return registry.EFFECTS[found.predicts] if found else "not known"


@dataclass(frozen=True)
class Comparison:
    """changed: identity or state is another; moved: what moves in any case, and counters; unsure: not known on a side;
    same: how many fields are the same. Each list has the important first."""

    changed: list[Change]
    moved: list[Change]
    unsure: list[Change]
    same: int


def compare(before: Mapping[str, Reading], after: Mapping[str, Reading]) -> Comparison:
    """Compares two fingerprints field by field. Unknown never equals unknown; a field that one side does not have is
    absent only where all of its family were read there."""
    found = Comparison([], [], [], 0)
    same = 0
    one_boot = _one_boot(before, after)
    for name in sorted({*before, *after}, key=registry.order):
        pair = (before.get(name) or missing(name, before), after.get(name) or missing(name, after))
        field = registry.spec(name)
        change = Change(name, *pair, grew=_grew(*pair) if one_boot and field and field.type == "counter" else None)
        verdict = pair[0].same(pair[1])
        if verdict is False and field and field.within:
            verdict = _close(field, pair[0].value, pair[1].value)
        if verdict:
            same += 1
        elif verdict is None:
            found.unsure.append(change)
        elif field is None or field.kind != "noise":
            found.changed.append(change)
        else:
            found.moved.append(change)
    return Comparison(found.changed, found.moved, found.unsure, same)


def missing(name: str, readings: Mapping[str, Reading]) -> Reading:
    """The reading of a field that a fingerprint does not have."""
    field = registry.spec(name)
    family = readings.get(field.family) if field and field.family else None
    if family is None:
        return unknown("not in this fingerprint")
    if family.state in ("value", "not applicable"):
        return not_applicable("absent")
    return unknown(family.reason)


def _one_boot(before: Mapping[str, Reading], after: Mapping[str, Reading]) -> bool:
    boots = [readings.get("boot_id") or unknown("not read") for readings in (before, after)]
    return bool(boots[0].same(boots[1]))


def _grew(before: Reading, after: Reading) -> float | None:
    numbers = all(isinstance(reading.value, (int, float)) for reading in (before, after))
    return after.value - before.value if numbers else None


def _close(field: registry.Field, before: Any, after: Any) -> bool:
    """Whether two measured values are the same within the field's share (one point, for percentages)."""
    if isinstance(before, dict) and isinstance(after, dict):
        names = ["median"] if "median" in before else sorted({*before, *after})
        return all(_close(field, before.get(name, 0), after.get(name, 0)) for name in names)
    if not isinstance(before, (int, float)) or not isinstance(after, (int, float)):
        return False
    least = 1.0 if field.unit == "%" else 0.0
    return abs(before - after) <= max(least, field.within * max(abs(before), abs(after)))

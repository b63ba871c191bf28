"""Two fingerprints side by side: what changed, the important first, and what cannot be told."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Mapping

from wingbeat.probe import registry
from wingbeat.probe.reading import Reading, not_applicable, unknown

SAMPLES = "load.samples"  # the family of what was sampled under load


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
        pair = sides(name, before, after)
        field = registry.spec(name)
        change = Change(name, *pair, grew=_grew(*pair) if one_boot and field and field.type == "counter" else None)
        verdict = pair[0].same(pair[1])
        if verdict is False and field and (field.within or field.family == SAMPLES):
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


def sides(name: str, before: Mapping[str, Reading], after: Mapping[str, Reading]) -> tuple[Reading, Reading]:
    """A field of both fingerprints. What was sampled under another load than on the other side is not known."""
    pair = (before.get(name) or missing(name, before), after.get(name) or missing(name, after))
    loads = [(one.get("load.kind") or unknown("")).value for one in (before, after)]
    field = registry.spec(name)
    if field is None or field.family != SAMPLES or loads[0] == loads[1]:
        return pair
    first, second = (_under(load, one) for load, one in zip(loads, pair))
    return first, second


def _under(load: Any, reading: Reading) -> Reading:
    if reading.state != "value":
        return reading
    return unknown(f"{_middle(reading.value)} under {load or 'some load'}, and the other side had another load")


def _middle(value: Any) -> Any:
    return value.get("median", value) if isinstance(value, dict) else value


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
    """Whether two measured values are the same within the field's share (one point, for percentages); of a sample its
    middle, and where nothing may differ also its ends, but not how often was read."""
    if isinstance(before, dict) and isinstance(after, dict):
        names = sorted({*before, *after})
        if "median" in names:
            names = ["median"] if field.within else ["min", "median", "max"]
        return all(_close(field, before.get(name, 0), after.get(name, 0)) for name in names)
    if not isinstance(before, (int, float)) or not isinstance(after, (int, float)):
        return False
    least = 1.0 if field.unit == "%" else 0.0
    return abs(before - after) <= max(least, field.within * max(abs(before), abs(after)))

"""A fingerprint, or the difference of two, as text."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from wingbeat.probe import registry
from wingbeat.probe.difference import Change, Comparison
from wingbeat.probe.document import Fingerprint
from wingbeat.probe.reading import Reading
from wingbeat.report.table import paragraph

NOTHING = "Nothing that was read on both sides changed."
LONGEST = 160  # characters of a value
IMPORTANCE = {3: "Moves speed or output", 2: "May matter", 1: "Seldom matters", 0: "Does not matter by itself"}


def render(fingerprint: Fingerprint) -> str:
    """The values that matter, then what could not be read, and why."""
    readings = fingerprint.readings
    parts = [_heading(fingerprint)]
    for importance in (3, 2):
        names = [name for name in _sorted(readings) if _importance(name) == importance and _has_value(readings[name])]
        parts.append(_block(IMPORTANCE[importance], _readings(names, readings)))
    hidden = [name for name in _sorted(readings) if readings[name].state in ("unknown", "error")]
    parts.append(_block("Could not be read", _readings(hidden, readings)))
    rest = sum(_importance(name) < 2 and _has_value(reading) for name, reading in readings.items())
    absent = sum(reading.state == "not applicable" for reading in readings.values())
    parts.append(paragraph(f"{rest} more fields have values, and {absent} do not apply here; --json or --out has all."))
    return "\n\n".join(part for part in parts if part)


def render_difference(before: Fingerprint, after: Fingerprint, found: Comparison) -> str:
    """What changed, the important first; what cannot be told; what moves in any case."""
    parts = [f"A: {_when(before)}\nB: {_when(after)}"]
    parts += [_block(title, _lines(changes, effects=True)) for title, changes in changed(found)]
    if not found.changed:
        parts.append(NOTHING)
    parts += [_block(title, _lines(changes)) for title, changes in beside(found)]
    parts.append(paragraph(remainder(found)))
    return "\n\n".join(part for part in parts if part)


def changed(found: Comparison) -> list[tuple[str, list[Change]]]:
    """What changed, by importance, under its title."""
    return [
        (f"Changed. {title}", [change for change in found.changed if change.importance == importance])
        for importance, title in IMPORTANCE.items()
    ]


def beside(found: Comparison) -> list[tuple[str, list[Change]]]:
    """What cannot be told and what moves in any case, as far as it matters, under its title."""
    counted = [change for change in found.moved if change.importance >= 2 and change.grew != 0]
    return [("Cannot be told", _weighty(found)), ("Moves in any case", counted)]


def remainder(found: Comparison) -> str:
    """The fields that are not listed."""
    minor = len(found.unsure) - len(_weighty(found))
    return f"Fields that are the same: {found.same}; minor ones that cannot be told: {minor}."


def _weighty(found: Comparison) -> list[Change]:
    return [change for change in found.unsure if change.importance >= 2]


def document(found: Comparison) -> dict[str, Any]:
    """The difference as JSON has it."""
    lists = {"changed": found.changed, "moved": found.moved, "unsure": found.unsure}
    return {**{name: [_entry(change) for change in changes] for name, changes in lists.items()}, "same": found.same}


def value(name: str, reading: Reading) -> str:
    """A reading in words: its value with the unit, or its state and the reason."""
    if reading.state != "value":
        return f"{reading.state}: {reading.reason}"
    field = registry.spec(name)
    text = reading.value if isinstance(reading.value, str) else json.dumps(reading.value, ensure_ascii=False)
    text = " ".join(text.split())
    cut = text if len(text) <= LONGEST else f"{text[:LONGEST]} ..."
    return f"{cut} {field.unit}".strip() if field else cut


def _readings(names: Sequence[str], readings: Mapping[str, Reading]) -> list[str]:
    return _shared([(name, f"  {value(name, readings[name])}") for name in names])


def rows(changes: Sequence[Change]) -> list[tuple[str, str, str, Change]]:
    """Name, both values (of long ones what the other does not have) and the change; devices that say the same once."""
    alike: dict[tuple[str, ...], list[Change]] = {}
    for change in changes:
        alike.setdefault((_family(change.name), *_sides(change)), []).append(change)
    return [
        (f"{group[0].name}{_more(len(group))}", before, after, group[0])
        for (_, before, after), group in alike.items()
    ]


def _lines(changes: Sequence[Change], effects: bool = False) -> list[str]:
    """A line or more for each change."""
    return _shared([(change.name, _text(change) + (_effect(change) if effects else "")) for change in changes])


def _shared(entries: Sequence[tuple[str, str]]) -> list[str]:
    """Names with their texts; of devices that say the same, the first with the number of the others."""
    alike: dict[tuple[str, str], list[str]] = {}
    for name, text in entries:
        alike.setdefault((_family(name), text), []).append(name)
    return [f"{names[0]}{_more(len(names))}{text}" for (_, text), names in alike.items()]


def _family(name: str) -> str:
    """One name for the same field of all devices."""
    field = registry.spec(name)
    return field.name if field and "gpu.*" in field.name else name


def _more(count: int) -> str:
    return f" and {count - 1} more" if count > 1 else ""


def _text(change: Change) -> str:
    before, after = _sides(change)
    if before == after and change.before.state != "value":
        return f"  {before} (A and B)"
    ratio = _ratio(change)
    if len(before) + len(after) > 80:
        return f"{ratio}\n    A {before}\n    B {after}"
    return f"  {before} -> {after}{ratio}"


def _sides(change: Change) -> tuple[str, str]:
    """Both values; of long ones what the other does not have."""
    before, after = value(change.name, change.before), value(change.name, change.after)
    if before[:LONGEST] != after[:LONGEST] or change.before.state != "value":
        return before, after
    return _only(change.before, change.after), _only(change.after, change.before)


def _only(one: Reading, other: Reading) -> str:
    """What of a long value the other does not have."""
    theirs = _parts(other.value)
    found = " ".join(part for part in _parts(one.value) if part not in theirs)
    return f"... {found[:LONGEST]} ..."


def _parts(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [f"{name}: {entry}" for name, entry in value.items()]
    return [str(entry) for entry in value] if isinstance(value, list) else str(value).split()


def _effect(change: Change) -> str:
    return f"\n    would show as: {change.predicts}" if change.importance >= 2 else ""


def _ratio(change: Change) -> str:
    if change.grew is not None:
        return f" (grew by {change.grew:g})"
    numbers = [reading.value for reading in (change.before, change.after)]
    if all(isinstance(number, int | float) for number in numbers) and numbers[0]:
        return f" ({numbers[1] / numbers[0] - 1:+.1%})"
    return ""


def _entry(change: Change) -> dict[str, Any]:
    sides = {"before": change.before, "after": change.after}
    shown = {side: {"state": r.state, "value": r.value, "reason": r.reason} for side, r in sides.items()}
    facts = {"name": change.name, "importance": change.importance, "predicts": change.predicts, "grew": change.grew}
    return {**facts, **shown}


def _heading(fingerprint: Fingerprint) -> str:
    notes = "".join(f"\n{paragraph(note)}" for note in fingerprint.notes)
    facts = f"{len(fingerprint.readings)} fields, {fingerprint.seconds:.2f} s"
    return f"Fingerprint of {_when(fingerprint)} ({facts}){notes}"


def _when(fingerprint: Fingerprint) -> str:
    return f"{fingerprint.where}, {fingerprint.taken}"


def _block(title: str, lines: Sequence[str]) -> str:
    return "\n".join([f"{title}:", *(f"  {line}" for line in lines)]) if lines else ""


def _sorted(readings: Mapping[str, Reading]) -> list[str]:
    return sorted(readings, key=registry.order)


def _importance(name: str) -> int:
    field = registry.spec(name)
    return field.importance if field else 0


def _has_value(reading: Reading) -> bool:
    return reading.state == "value"

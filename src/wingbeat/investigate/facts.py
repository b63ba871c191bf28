"""What is known of both sides beside their figures: fingerprints, settings, and how the runs were measured.

Every fact has a name that causes look for by pattern: a field of the fingerprint ("gpu.0.power.limit"), a setting
("setting.temperature"), something about the run ("run.context"), or a calibration ("calibration.memory_read").
"""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from wingbeat.investigate import courses, mla
from wingbeat.investigate.compare import Comparison
from wingbeat.investigate.side import Side
from wingbeat.probe import difference, from_json, registry
from wingbeat.probe.reading import Reading, Readings, unknown
from wingbeat.probe.redact import HIDDEN

CALIBRATED = 0.15  # machines at rest give the same calibration to within this
EXPLAINS = 0.4  # of the change of speed, from which a smaller change of a calibration may be behind it
FACTOR = 2.0  # from which a reading that always moves counts as changed
LEAST = {"s": 600.0}  # by how much at least, by unit; 10 of others
FLAG = re.compile("--?[A-Za-z]")
GREW = 3.0  # times as much as on the other side, for a counter
FLOORS = {"us": 1e5, "10 ms": 100.0, "lines": 0.0}  # a counter that grew by no more than this is still, by unit
LEFT_OUT = {
    "arms", "launches", "rounds", "imported", "definitions", "workload", "name", "prompts", "store", "limit",
    "out", "port", "host", "served_model_name",
}  # fmt: skip


State = Literal["changed", "same", "unknown"]
Fields = dict[str, Any]  # a fingerprint, as a record keeps it


@dataclass(frozen=True)
class Fact:
    """One thing on both sides. reason: why it is unknown."""

    name: str
    state: State
    before: Any = None
    after: Any = None
    reason: str = ""

    @property
    def ratio(self) -> float | None:
        """Log of after / before; None where that means nothing."""
        first, second = _number(self.before), _number(self.after)
        return math.log(second / first) if first and second and min(first, second) > 0 else None

    @property
    def rise(self) -> float | None:
        """Above zero where it became more."""
        first, second = _number(self.before), _number(self.after)
        return None if first is None or second is None else second - first

    @property
    def absent(self) -> bool:
        """Whether neither side has such a thing."""
        return all(str(value).startswith("not applicable") for value in (self.before, self.after))

    @property
    def importance(self) -> int:
        """3 (moves speed or output by itself) to 0; facts that are no fields of a fingerprint have 3."""
        found = registry.spec(self.name)
        return found.importance if found else 3


def gather(found: Comparison) -> dict[str, Fact]:
    """All facts of a comparison, by name."""
    return {
        fact.name: fact
        for fact in (*_fields(found), *_counters(found), *_settings(found), *_calibrations(found), *_runs(found))
    }


def readings(one: Side, after: bool = False) -> Readings:
    """The first fingerprint of a side, or the one that was taken at the end of the same launch; {} where there is
    none."""
    start, end = _ends(one)[0]
    return from_json(end if after else start)


def _ends(one: Side) -> list[tuple[Fields, Fields]]:
    """The fingerprints at both ends of every launch that has both; of a run without one those of the whole run."""
    launches = [launch for record in one.records for launch in record.launches]
    taken = [(launch.fingerprint, launch.fingerprint_after) for launch in launches]
    both = [ends for ends in taken if all(ends)]
    first = next((start for start, _ in taken if start), {})
    last: Fields = next((end for _, end in reversed(taken) if end), {})
    return both or [(first, last)]


def settings(one: Side) -> dict[str, Any]:
    """What the run was asked for and ran with, by the last part of each name; what it really ran with comes first."""
    record = one.records[0]
    effective = next((launch.effective.get(one.arm) for launch in record.launches if launch.effective), None)
    found: dict[str, Any] = {}
    config = readings(one).get("model.config")
    shape = mla.configuration(config.raw) if config else {}
    for source in (shape, record.workload, record.requested, effective or {}):
        found |= dict(_flat(source))
    return found


def drift(one: Side) -> list[difference.Change]:
    """What of the environment changed in the course of a run, within launches and from one to the next, and which of
    the counters that matter grew; the important first."""
    found: dict[str, difference.Change] = {}
    for record in one.records:
        taken = [fields for launch in record.launches for fields in (launch.fingerprint, launch.fingerprint_after)]
        first, *later = [from_json(fields) for fields in taken if fields] or [{}]
        for compared in (difference.compare(first, read) for read in later):
            grown = [change for change in compared.moved if change.importance == 3 and _grew_much(change)]
            for change in (*(change for change in compared.changed if change.importance >= 2), *grown):
                found.setdefault(change.name, change)
    return sorted(found.values(), key=lambda change: registry.order(change.name))


def _grew_much(change: difference.Change) -> bool:
    return change.grew is not None and change.grew > _floor(change.name)


def _floor(name: str) -> float:
    spec = registry.spec(name)
    return FLOORS.get(spec.unit if spec else "", 1.0)


def _runs(found: Comparison) -> Iterator[Fact]:
    for one in courses.run(found):
        state: State = "unknown" if one.reason else "same" if one.same else "changed"
        yield Fact(f"run.{one.name}", state, one.before, one.after, one.reason)


def _flat(source: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for key, value in source.items():
        if isinstance(value, Mapping) and key not in ("definitions", "workload"):
            yield from _flat(value)
        elif key not in LEFT_OUT:
            yield key.replace("-", "_"), value


def _settings(found: Comparison) -> Iterator[Fact]:
    first, second = settings(found.before), settings(found.after)
    for key in sorted({*first, *second} - {"sha256"}):
        name = f"setting.{key}"
        if key in first and key in second:
            yield _setting(key, first[key], second[key])
        else:
            yield Fact(name, "unknown", first.get(key), second.get(key), "not recorded on one side")
    argued = [readings(one).get("process.argv") for one in (found.before, found.after)]
    if all(one is not None and one.state == "value" and any(one.value) for one in argued):
        flags = [_flags(one.value) for one in argued if one]
        yield Fact("setting.arguments", "same" if flags[0] == flags[1] else "changed", len(flags[0]), len(flags[1]))
        for key in sorted({*flags[0], *flags[1]} - {*first, *second}):
            yield _setting(key, *(side.get(key, "not given") for side in flags))


def _setting(key: str, first: Any, second: Any) -> Fact:
    if HIDDEN in str(first) and HIDDEN in str(second):
        return Fact(f"setting.{key}", "unknown", first, second, "kept secret on both sides")
    return Fact(f"setting.{key}", "same" if first == second else "changed", first, second)


def _flags(arguments: list[str]) -> dict[str, str]:
    """The flags of a command line: --a b, --a=b, --a and -a b."""
    found = {}
    for place, argument in enumerate(arguments):
        if FLAG.match(argument):
            flag, sign, value = argument.lstrip("-").partition("=")
            following = arguments[place + 1] if place + 1 < len(arguments) else "--end"
            found[flag.replace("-", "_")] = value if sign else "given" if FLAG.match(following) else following
    return {flag: value for flag, value in found.items() if flag not in LEFT_OUT}


def _fields(found: Comparison) -> Iterator[Fact]:
    before, after = _seen(found.before), _seen(found.after)
    if not before and not after:
        return
    compared = difference.compare(before, after)
    states: dict[str, State] = {change.name: "changed" for change in compared.changed}
    states |= {change.name: "unknown" for change in compared.unsure}
    for name in sorted({*before, *after}):
        sides = difference.sides(name, before, after)
        spec = registry.spec(name)
        if spec and spec.type == "counter":
            continue
        shown = [_shown(side) for side in sides]
        state = states.get(name, "same")
        reason = _reason(sides)
        if spec and spec.kind == "noise" and state == "same" and not sides[0].same(sides[1]):
            state = _moved(_number(shown[0]), _number(shown[1]), LEAST.get(spec.unit, 10.0))
            reason = "it moves in any case, and has no figure" if state == "unknown" else ""
        yield Fact(name, state, shown[0], shown[1], reason)


def _seen(one: Side) -> Readings:
    """The fields at a launch's start; of pressure, what the last seconds of the launch had: others may come later."""
    ended = {name: read for name, read in readings(one, after=True).items() if name.startswith("pressure.")}
    return {**readings(one), **ended}


def _counters(found: Comparison) -> Iterator[Fact]:
    """Counters by how much they grew during the launches of each side, a second where their length is known."""
    first, second = (_grown(one) for one in (found.before, found.after))
    seconds = [side.get("uptime", 0.0) for side in (first, second)]
    per, each = (seconds, "/s") if all(seconds) else ([1.0, 1.0], "")
    for name in sorted({name for one in (found.before, found.after) for name in readings(one) if _counts(name)}):
        if name not in first or name not in second:
            reason = "not read both at the start and at the end of the runs"
            yield Fact(name, "unknown", first.get(name), second.get(name), reason)
            continue
        rates = [first[name] / per[0], second[name] / per[1]]
        far = max(first[name], second[name]) > _floor(name) and max(rates) > GREW * min(rates)
        yield Fact(name, "changed" if far else "same", *(f"+{rate:.6g}{each}" for rate in rates))


def _grown(one: Side) -> dict[str, float]:
    """By how much each counter, and the uptime, grew in a launch, on average over those that were read at both ends."""
    found: dict[str, list[float]] = {}
    for start, end in ((from_json(first), from_json(last)) for first, last in _ends(one)):
        for name in start:
            counts = name == "uptime" or _counts(name)
            grown = _grew(start[name], end.get(name, unknown("not read"))) if counts else None
            if grown is not None and grown >= 0:
                found.setdefault(name, []).append(grown)
    return _in_time({name: statistics.fmean(values) for name, values in found.items()})


def _in_time(grown: dict[str, float]) -> dict[str, float]:
    """Devices that count in how many of their checks the clocks were held back: the share of the checks, in
    microseconds of the run."""
    found = dict(grown)
    for name in (name for name in grown if ".slowed." in name):
        checks = grown.get(f"{name.partition('.slowed.')[0]}.slowed.checks")
        if checks and "uptime" in grown:
            found[name] = grown[name] / checks * 1e6 * grown["uptime"]
    return found


def _counts(name: str) -> bool:
    spec = registry.spec(name)
    return spec is not None and (spec.type == "counter" or name == "cgroup.cpu.throttled")


def _grew(start: Reading, end: Reading) -> float | None:
    values = [one.value["us"] if isinstance(one.value, dict) else one.value for one in (start, end)]
    return values[1] - values[0] if all(isinstance(value, int | float) for value in values) else None


def _calibrations(found: Comparison) -> Iterator[Fact]:
    """Each figure of the machine at the start of the launches, as the median over them. A small change, as machines at
    rest show it, is not known to be none where it might be behind a small change of speed."""
    effect = found.primary.change.value if found.primary and found.primary.change else 0.0
    sides = [_calibration(one) for one in (found.before, found.after)]
    for name in sorted(sides[0].keys() & sides[1].keys()):
        first, second = (statistics.median(side[name]) for side in sides)
        if min(first, second) > 0:
            moved = abs(math.log(second / first))
            state: State = "changed" if moved > CALIBRATED else "unknown" if moved > EXPLAINS * abs(effect) else "same"
            yield Fact(f"calibration.{name}", state, first, second, f"{moved:.1%} apart" if state == "unknown" else "")


def _calibration(one: Side) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {}
    for record in one.records:
        for launch in record.launches:
            for name, value in launch.calibration.get("before", {}).items():
                found.setdefault(name, []).append(value)
    return found


def _shown(reading: Reading) -> Any:
    return reading.value if reading.state == "value" else f"{reading.state} ({reading.reason})"


def _reason(sides: Sequence[Reading]) -> str:
    return next((side.reason for side in sides if side.state in ("unknown", "error")), "")


def _number(value: Any) -> float | None:
    """A number, a counter's growth, or the middle of a sample."""
    if isinstance(value, dict):
        return _number(value.get("median", value.get("middle")))
    if isinstance(value, str) and value.startswith("+"):
        return float(value.removesuffix("/s"))
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _moved(first: float | None, second: float | None, least: float) -> State:
    """Whether a reading that always moves has moved far."""
    if first is None or second is None:
        return "unknown"
    low, high = sorted((first, second))
    return "changed" if high >= FACTOR * low and high - low >= least else "same"

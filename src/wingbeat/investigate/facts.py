"""What is known of both sides beside their figures: fingerprints, settings, and how the runs were measured.

Every fact has a name that causes look for by pattern: a field of the fingerprint ("gpu.0.power.limit"), a setting
("setting.temperature"), something about the run ("run.context"), or a calibration ("calibration.memory_read").
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from wingbeat.investigate import courses, mla
from wingbeat.investigate.compare import Comparison
from wingbeat.investigate.side import Side
from wingbeat.probe import difference, from_json, registry
from wingbeat.probe.reading import Reading, Readings, unknown

CALIBRATED = 0.15  # machines at rest give the same calibration to within this
FACTOR, LEAST = 2.0, 10.0  # from which a reading that always moves counts as changed
GREW = 3.0  # times as much as on the other side, for a counter
FLOORS = {"us": 1e5, "10 ms": 100.0}  # a counter that grew by less than this is still, by unit
LEFT_OUT = {
    "arms", "launches", "rounds", "imported", "definitions", "workload", "name", "prompts", "store", "limit",
}  # fmt: skip


State = Literal["changed", "same", "unknown"]


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
    """The first fingerprint of a side, taken before or after its launch; {} where there is none."""
    launches = [launch for record in one.records for launch in record.launches]
    kept = (launch.fingerprint_after if after else launch.fingerprint for launch in launches)
    return from_json(next((fields for fields in kept if fields), {}))


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
    """What of the environment changed between the start and the end of a launch, the important first."""
    before, after = readings(one), readings(one, after=True)
    changed = difference.compare(before, after).changed if before and after else []
    return [change for change in changed if change.importance >= 2]


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
            yield Fact(name, "same" if first[key] == second[key] else "changed", first[key], second[key])
        else:
            yield Fact(name, "unknown", first.get(key), second.get(key), "not recorded on one side")
    argued = [readings(one).get("process.argv") for one in (found.before, found.after)]
    if all(one is not None and one.state == "value" for one in argued):
        flags = [_flags(one.value) for one in argued if one]
        yield Fact("setting.arguments", "same" if flags[0] == flags[1] else "changed", len(flags[0]), len(flags[1]))
        for key in sorted({*flags[0], *flags[1]} - {*first, *second}):
            values = [side.get(key, "not given") for side in flags]
            yield Fact(f"setting.{key}", "same" if values[0] == values[1] else "changed", *values)


def _flags(arguments: list[str]) -> dict[str, str]:
    """The flags of a command line: --a b, --a=b and --a."""
    found = {}
    for place, argument in enumerate(arguments):
        if argument.startswith("--"):
            flag, sign, value = argument[2:].partition("=")
            following = arguments[place + 1] if place + 1 < len(arguments) else "--"
            found[flag.replace("-", "_")] = value if sign else "given" if following.startswith("--") else following
    return found


def _fields(found: Comparison) -> Iterator[Fact]:
    before, after = _seen(found.before), _seen(found.after)
    if not before and not after:
        return
    compared = difference.compare(before, after)
    states: dict[str, State] = {change.name: "changed" for change in compared.changed}
    states |= {change.name: "unknown" for change in compared.unsure}
    for name in sorted({*before, *after}):
        sides = [own.get(name) or difference.missing(name, own) for own in (before, after)]
        spec = registry.spec(name)
        if spec and spec.type == "counter":
            continue
        shown = [_shown(side) for side in sides]
        state = states.get(name, "same")
        if spec and spec.kind == "noise" and state == "same":
            state = "changed" if _far(*map(_number, shown)) else "same"
        yield Fact(name, state, shown[0], shown[1], _reason(sides))


def _seen(one: Side) -> Readings:
    """The fields at a launch's start; of pressure, what the last seconds of the launch had: others may come later."""
    ended = {name: read for name, read in readings(one, after=True).items() if name.startswith("pressure.")}
    return {**readings(one), **ended}


def _counters(found: Comparison) -> Iterator[Fact]:
    """Counters by how much they grew during the first launch of each side, a second where its length is known."""
    names: set[str] = set()
    grown = []
    lasted = []
    for one in (found.before, found.after):
        start, end = readings(one), readings(one, after=True)
        changes = {name: _grew(start[name], end.get(name, unknown("not read"))) for name in start if _counts(name)}
        grown.append(changes)
        names |= changes.keys()
        lasted.append(_grew(*(read.get("uptime", unknown("not read")) for read in (start, end))))
    seconds = [length or 1.0 for length in lasted] if all(lasted) else [1.0, 1.0]
    each = "/s" if all(lasted) else ""
    for name in sorted(names):
        first, second = (side.get(name) for side in grown)
        if first is None or second is None:
            yield Fact(name, "unknown", first, second, "not read both at the start and at the end of the runs")
            continue
        spec = registry.spec(name)
        rates = [first / seconds[0], second / seconds[1]]
        far = max(first, second) > FLOORS.get(spec.unit if spec else "", 1.0) and max(rates) > GREW * min(rates)
        yield Fact(name, "changed" if far else "same", *(f"+{rate:.6g}{each}" for rate in rates))


def _counts(name: str) -> bool:
    spec = registry.spec(name)
    return spec is not None and (spec.type == "counter" or name == "cgroup.cpu.throttled")


def _grew(start: Reading, end: Reading) -> float | None:
    values = [one.value["us"] if isinstance(one.value, dict) else one.value for one in (start, end)]
    return values[1] - values[0] if all(isinstance(value, int | float) for value in values) else None


def _calibrations(found: Comparison) -> Iterator[Fact]:
    """Each figure of the machine at the start of the launches, as the median over them."""
    sides = [_calibration(one) for one in (found.before, found.after)]
    for name in sorted(sides[0].keys() & sides[1].keys()):
        first, second = (statistics.median(side[name]) for side in sides)
        if min(first, second) > 0:
            far = abs(math.log(second / first)) > CALIBRATED
            yield Fact(f"calibration.{name}", "changed" if far else "same", first, second)


def _calibration(one: Side) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {}
    for record in one.records:
        for launch in record.launches:
            for name, value in launch.calibration.get("before", {}).items():
                found.setdefault(name, []).append(value)
    return found


def _shown(reading: Reading) -> Any:
    return reading.value if reading.state == "value" else f"{reading.state} ({reading.reason})"


def _reason(sides: list[Reading]) -> str:
    return next((side.reason for side in sides if side.state in ("unknown", "error")), "")


def _number(value: Any) -> float | None:
    """A number, a counter's growth, or the middle of a sample."""
    if isinstance(value, dict):
        return _number(value.get("median", value.get("middle")))
    if isinstance(value, str) and value.startswith("+"):
        return float(value.removesuffix("/s"))
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _far(first: float | None, second: float | None) -> bool:
    if first is None or second is None:
        return False
    low, high = sorted((first, second))
    return high >= FACTOR * low and high - low >= LEAST

"""Whether two sides measured the same thing, and what may be compared if they did not."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from wingbeat.investigate.side import OTHER_NAMES, PARTS, Side

SAMPLING = ("temperature", "top_k", "top_p", "min_p")
LENGTHS = ("max_tokens", "ignore_eos", "stop")
DEFINED = ("tokens_per_second", "tokens_per_cycle", "cycle_ms", *PARTS)  # quantities that importers may count otherwise
LIFETIME = "since the server started"  # as importers say of what a figure was averaged over
CLOSE = 0.1  # mean lengths that differ by less than this are taken as equal


@dataclass(frozen=True)
class Comparable:
    """obstacles: why the sides are not comparable, in sentences. allowed: whether a quantity may be compared even so.

    prompts: what both sides ran. matched: whether cycles may be compared at equal context lengths. settings: what
    differs in what was asked for, which may be the very point. cautions: what is not known.
    """

    obstacles: list[str]
    allowed: Callable[[str], bool]
    prompts: list[str]
    matched: bool
    settings: list[str]
    cautions: list[str]


def check(before: Side, after: Side) -> Comparable:
    """Looks at prompts, sampling, lengths, concurrency and definitions. Unknown is never taken for equal."""
    obstacles: list[str] = []
    unknown: list[str] = []
    tokens_differ = times_differ = batch_differs = False
    for title, keys in (("the prompts", ("sha256",)), ("sampling", SAMPLING), ("the longest output", LENGTHS)):
        found = [text for key in keys if (text := _difference(key, before, after))]
        tokens_differ |= bool(found)
        times_differ |= bool(found) and title != "sampling"
        obstacles += [f"{title} differ{'s' * (title != 'the prompts')}: {', '.join(found)}" for _ in found[:1]]
        unknown += [title] * (not found and _unknown(keys[0], before, after))
    if batch := _difference("concurrency", before, after):
        batch_differs = True
        obstacles.append(f"the number of requests at once differs: {batch}")
    elif _unknown("concurrency", before, after) and "cycles" not in (before.evidence, after.evidence):
        unknown.append("how many requests ran at once")
    prompts, text = _prompts(before, after)
    tokens_differ |= bool(text)
    times_differ |= bool(text)
    obstacles += [text] if text else []
    meant = [definitions(one) for one in (before, after)]
    redefined = {name for name in meant[0] if meant[0][name] != meant[1].get(name, meant[0][name])}
    obstacles += [
        f'{name.replace("_", " ")} means "{meant[0][name]}" before and "{meant[1][name]}" after'
        for name in sorted(redefined)
    ]

    def allowed(name: str) -> bool:
        if name in redefined:
            return False
        if name.endswith("_ms"):
            return not times_differ and not batch_differs
        return not tokens_differ and (name == "tokens_per_cycle" or not batch_differs)

    cautions = [f"Not known on both sides, and taken as equal: {', '.join(unknown)}."] if unknown else []
    if before.records[0].source != after.records[0].source:
        cautions.append(
            f"The figures come from different places ({before.records[0].source}, {after.records[0].source}), which "
            "may not count the same things."
        )
    return Comparable(
        obstacles, allowed, prompts, not batch_differs, _settings(before, after), cautions + _lengths(before, after)
    )


def asked(one: Side, key: str) -> Any:
    """A setting of the workload as it was given; None: not known."""
    record = one.records[0]
    places = (record.workload, record.workload.get("sampling", {}), record.requested)
    return next((place[key] for place in places if place.get(key) is not None), None)


def _difference(key: str, before: Side, after: Side) -> str:
    first, second = asked(before, key), asked(after, key)
    if first is None or second is None or first == second:
        return ""
    if key == "sha256":
        names = [f"{asked(one, 'name') or '?'} ({str(asked(one, key))[:8]})" for one in (before, after)]
        return f"{names[0]} and {names[1]}"
    return f"{key} {first} and {second}"


def _unknown(key: str, before: Side, after: Side) -> bool:
    return asked(before, key) is None or asked(after, key) is None


def _prompts(before: Side, after: Side) -> tuple[list[str], str]:
    """What every launch with cycles ran; a sentence where that is nothing."""
    ran = [launch.prompts for one in (before, after) for launch in one.launches if launch.prompts]
    shared = [prompt for prompt in (ran[0] if ran else ()) if all(prompt in other for other in ran)]
    return shared, "no prompt is in both" if ran and not shared else ""


def _settings(before: Side, after: Side) -> list[str]:
    """Settings that differ, apart from those that make sides incomparable."""
    first, second = ({**_flat(one.records[0].requested), **_flat(_effective(one))} for one in (before, after))
    left_out = {*SAMPLING, *LENGTHS, "concurrency", "arms", "launches", "rounds", "imported"}
    shared = [key for key in first if key in second and key.rpartition(".")[2] not in left_out]
    return [f"{key} {first[key]} and {second[key]}" for key in shared if first[key] != second[key]]


def _effective(one: Side) -> dict[str, Any]:
    launches = one.records[0].launches
    found = launches[0].effective.get(one.arm, {}) if launches else {}
    return {key: value for key, value in found.items() if key not in ("workload", "definitions")}


def definitions(one: Side) -> dict[str, str]:
    """What an importer says that a quantity counts, and whether over the whole life of a server."""
    launches = one.records[0].launches
    effective = launches[0].effective.get(one.arm) or {} if launches else {}
    found = effective.get("definitions", {})
    named = {
        OTHER_NAMES.get(name, name): entry["what"] + f", {LIFETIME}" * entry.get("over", "").startswith(LIFETIME)
        for name, entry in found.items()
    }
    return {name: what for name, what in named.items() if name in DEFINED}


def _flat(settings: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in settings.items():
        found |= _flat(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value}
    return found


def _lengths(before: Side, after: Side) -> list[str]:
    """A sentence where the contexts are known to differ."""
    means = []
    for one in (before, after):
        known = [mean for launch in one.launches if (mean := launch.mean_context())]
        if not known:
            return []
        means.append(statistics.fmean(known))
    if abs(means[1] / means[0] - 1) < CLOSE:
        return []
    return [f"Context lengths differ: {means[0]:.0f} and {means[1]:.0f} tokens on average."]

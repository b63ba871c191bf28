"""Quantities that were not noted but follow from those that were, and how they follow."""

from __future__ import annotations

from dataclasses import replace

from wingbeat.investigate.side import PARTS, LaunchView, Side
from wingbeat.measure.record import PLAIN

SPEED, TOKENS, CYCLE, REST = "tokens_per_second", "tokens_per_cycle", "cycle_ms", "rest_ms"


def complete(before: Side, after: Side) -> tuple[Side, Side, dict[str, str]]:
    """The sides with what follows added to launches without cycles, and in words how each quantity was found.

    Plain decoding adds one token a cycle. Where no side has the whole cycle, the parts that both noted stand for it: it
    took at least as long, so tokens per cycle were at least as many. What known parts leave of a known cycle is "rest".
    """
    before, after = _copy(before), _copy(after)
    origins: dict[str, str] = {}
    noted = [(launch, one) for one in (before, after) for launch in one.launches if launch.evidence != "cycles"]
    for launch, one in noted:
        launch.levels.setdefault("requests", _concurrency(one))
        if one.arm == PLAIN:
            launch.levels.setdefault(TOKENS, 1.0)
    views = [launch for launch, _ in noted]
    for launch in views:
        if CYCLE not in launch.levels and {SPEED, TOKENS} <= launch.levels.keys():
            launch.levels[CYCLE] = 1000 * launch.levels[TOKENS] * launch.levels["requests"] / launch.levels[SPEED]
            origins[CYCLE] = "from tok/s and tokens per cycle"
    everything = len(noted) == len(before.launches) + len(after.launches)
    parts = [name for name in PARTS if all(name in launch.levels for launch in views)]
    if everything and parts and not all(CYCLE in launch.levels for launch in views):
        _stand_in(views, parts)
        origins[CYCLE] = f"at least: {' + '.join(name.removesuffix('_ms') for name in parts)} alone"
    elif everything and parts:
        _add_rest(views, parts)
    for launch in views:
        _speed_and_tokens(launch.levels, origins)
    return before, after, origins


def _copy(one: Side) -> Side:
    groups = [
        [replace(launch, levels={**launch.levels}, ranges={**launch.ranges}) for launch in group]
        for group in one.groups
    ]
    return replace(one, groups=groups)


def _speed_and_tokens(levels: dict[str, float], origins: dict[str, str]) -> None:
    if CYCLE in levels and SPEED in levels and TOKENS not in levels:
        levels[TOKENS] = levels[SPEED] * levels[CYCLE] / 1000 / levels["requests"]
        bound = "at least: " if origins.get(CYCLE, "").startswith("at least") else ""
        origins[TOKENS] = f"{bound}tok/s x cycle time"
    if CYCLE in levels and TOKENS in levels and SPEED not in levels:
        levels[SPEED] = 1000 * levels[TOKENS] * levels["requests"] / levels[CYCLE]
        origins[SPEED] = "tokens per cycle / cycle time"


def _stand_in(views: list[LaunchView], parts: list[str]) -> None:
    for launch in views:
        launch.levels[CYCLE] = sum(launch.levels[name] for name in parts)
        lows, highs = zip(*(launch.ranges.get(name, (launch.levels[name],) * 2) for name in parts), strict=True)
        launch.ranges[CYCLE] = (sum(lows), sum(highs))


def _add_rest(views: list[LaunchView], parts: list[str]) -> None:
    rests = [launch.levels[CYCLE] - sum(launch.levels[name] for name in parts) for launch in views]
    for launch, rest in zip(views, rests, strict=True):
        if min(rests) > 0:
            launch.levels[REST] = rest


def _concurrency(one: Side) -> float:
    """How many requests ran at once, as far as the run says; 1 otherwise."""
    known = one.records[0].workload.get("concurrency")
    return float(known) if isinstance(known, int | float) and known > 0 else 1.0

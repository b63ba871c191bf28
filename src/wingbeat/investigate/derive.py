"""Quantities that were not noted but follow from those that were, and how they follow."""

from __future__ import annotations

from wingbeat.investigate.side import PARTS, LaunchView, Side
from wingbeat.measure.record import PLAIN

SPEED, TOKENS, CYCLE = "tokens_per_second", "tokens_per_cycle", "cycle_ms"


def complete(before: Side, after: Side) -> dict[str, str]:
    """Adds what follows to the levels of launches without cycles; returns in words how each quantity was found.

    Plain decoding adds one token a cycle. Where no side has the whole cycle, the parts that both noted stand for it: it
    took at least as long, so tokens per cycle were at least as many.
    """
    origins: dict[str, str] = {}
    noted = [(launch, one) for one in (before, after) for launch in one.launches if launch.evidence != "cycles"]
    if not noted:
        return origins
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
    for launch in views:
        _speed_and_tokens(launch.levels, origins)
    return origins


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


def _concurrency(one: Side) -> float:
    """How many requests ran at once, as far as the run says; 1 otherwise."""
    known = one.records[0].workload.get("concurrency")
    return float(known) if isinstance(known, int | float) and known > 0 else 1.0

"""Both sides with what the machine did taken out: every launch beside plain decoding in the same launch."""

from __future__ import annotations

import math
import statistics
from dataclasses import replace

from wingbeat.investigate.derive import SPEED
from wingbeat.investigate.pair import Pair
from wingbeat.investigate.side import LaunchView


def beside_plain(sides: Pair, plain: Pair) -> Pair | None:
    """The sides as if plain decoding had run at one speed in all launches; None where that is not known of each.

    plain: the plain arms of the same runs. With one launch a side there is nothing to tell a launch from its side by.
    """
    counts = [len(one.groups) for one in sides.sides]
    if min(counts) < 2 or counts != [len(one.groups) for one in plain.sides] or SPEED not in plain.names():
        return None
    speeds = plain.logs(SPEED)
    middle = statistics.fmean([*speeds[0], *speeds[1]])
    before, after = (
        [
            [_scaled(launch, math.exp(speed - middle)) for launch in group]
            for group, speed in zip(one.groups, own, strict=True)
        ]
        for one, own in zip(sides.sides, speeds, strict=True)
    )
    return replace(sides, before=replace(sides.before, groups=before), after=replace(sides.after, groups=after))


def _scaled(launch: LaunchView, faster: float) -> LaunchView:
    """A launch whose machine was so much faster than the others', as if it had not been."""

    def scale(name: str) -> float:
        return faster if name.endswith("_ms") else 1 / faster if name == SPEED else 1.0

    totals = {name: column * scale(name) for name, column in launch.totals.items()}
    levels = {name: value * scale(name) for name, value in launch.levels.items()}
    return replace(launch, totals=totals, levels=levels)

"""A change of tokens a second taken apart, as places along one axis: what each quantity did, with its interval."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from wingbeat.investigate.pair import Row
from wingbeat.measure.replicates import Change

STEPS = (0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0)  # between ticks
MOST_TICKS = 20
REACH = 2.0  # intervals are drawn up to so many times the largest effect
LEAST = 0.05  # of an effect, that the axis has room for
APART = 14.0  # between ticks, in percent of the width


@dataclass(frozen=True)
class Bar:
    """From zero to an effect, with its 95 % interval; all in percent of the width. open: ends that go on outside."""

    better: bool
    start: float
    width: float
    low: float
    high: float
    open: tuple[bool, bool]


@dataclass(frozen=True)
class Axis:
    """Log ratios from `least` to `most`, which enclose zero."""

    least: float
    most: float

    def place(self, log: float) -> float:
        """Where it is, in percent of the width; what lies outside is at the end."""
        inside = min(max(log, self.least), self.most)
        return round(100 * (inside - self.least) / (self.most - self.least), 2)

    def ticks(self) -> list[tuple[float, float]]:
        """Places and log ratios of ticks, with room for their labels: zero, and multiples of one change."""
        enough = APART / 100 * (self.most - self.least)
        step = next((step for step in STEPS if math.log1p(step) >= enough), STEPS[-1])
        shares = [sign * count * step for count in range(1, MOST_TICKS) for sign in (-1, 1)]
        found = [0.0]
        for log in (math.log1p(share) for share in shares if share > -1):
            inside = 5 <= self.place(log) <= 95
            if inside and all(abs(self.place(log) - self.place(other)) >= APART for other in found):
                found.append(log)
        return [(self.place(log), log) for log in sorted(found)]


def effect(row: Row) -> Change | None:
    """What a row did to the log of tokens a second; of tokens a second itself, its change."""
    return row.change if row.name == "tokens_per_second" else row.effect


def axis(rows: Sequence[Row]) -> Axis:
    """One that holds all effects, and their intervals as far as they are of any use."""
    effects = [found for row in rows if (found := effect(row))]
    reach = REACH * max([LEAST, *(abs(found.value) for found in effects)])  # an interval may have no end
    least = min([-LEAST, *(max(found.low, -reach) for found in effects)])
    most = max([LEAST, *(min(found.high, reach) for found in effects)])
    room = 0.03 * (most - least)
    return Axis(least - room, most + room)


def bar(row: Row, along: Axis) -> Bar | None:
    """The bar of a row; None where its effect is not known."""
    found = effect(row)
    if found is None:
        return None
    ends = sorted((along.place(0.0), along.place(found.value)))
    is_open = (found.low < along.least, found.high > along.most)
    low, high = along.place(found.low), along.place(found.high)
    return Bar(found.value >= 0, ends[0], round(ends[1] - ends[0], 2), low, high, is_open)

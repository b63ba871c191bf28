"""Two sides set against each other: one row for each quantity, with its change and interval."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

from wingbeat.investigate.side import LaunchView, Side
from wingbeat.measure.replicates import Answer, Change, answer, change
from wingbeat.measure.series import ratio_error

ROUGH = 4  # with more prompts than this in common, they say how well a single launch is known; otherwise its cycles do


@dataclass(frozen=True)
class Row:
    """One quantity on both sides: its levels, its change, and what that did to the log of tokens a second.

    change: None where a level is zero. effect: the change as a part of the log change in tokens a second, so that
    effects add up; None where there is none. share: of that whole (None: it did not certainly change). origin: how the
    levels were found where they are not measured ("" otherwise).
    """

    name: str
    before: float
    after: float
    change: Change | None
    answer: Answer
    effect: Change | None = None
    share: float | None = None
    origin: str = ""


def named(rows: Iterable[Row], name: str) -> Row | None:
    """The row of a quantity, if there is one."""
    return next((row for row in rows if row.name == name), None)


@dataclass(frozen=True)
class Pair:
    """The sides, the prompts that both ran, and whether their launches are the same ones."""

    before: Side
    after: Side
    prompts: list[str]
    paired: bool
    same_within: float

    @property
    def sides(self) -> tuple[Side, Side]:
        """Both."""
        return self.before, self.after

    def names(self) -> set[str]:
        """The quantities that every launch has; none where no prompt is in all."""
        launches = [launch for one in self.sides for launch in one.launches]
        if not self.prompts and any(launch.prompts for launch in launches):
            return set()
        return set.intersection(*(set(launch.profile(self.prompts)) for launch in launches))

    def logs(self, name: str) -> tuple[list[float], list[float]]:
        """The log of a quantity in every replicate: the mean over prompts and launches."""
        before, after = ([_mean_log(group, name, self.prompts) for group in one.groups] for one in self.sides)
        return before, after

    def shares(self, part: str) -> tuple[list[float], list[float]]:
        """The share of a part in the cycle of every replicate."""
        before, after = ([_share(group, part, self.prompts) for group in one.groups] for one in self.sides)
        return before, after


def rate(pair: Pair, name: str) -> Row:
    """The row of a quantity that multiplies into tokens a second, or of tokens a second itself."""
    before, after = pair.logs(name)
    found = change(before, after, pair.paired, _within(pair, name))
    levels = [math.exp(sum(side) / len(side)) for side in (before, after)]
    sign = {"tokens_per_second": 0, "cycle_ms": -1}.get(name, 1)
    effect = None if sign == 0 else replace(found, value=sign * found.value)
    return Row(name, levels[0], levels[1], found, answer(found, pair.same_within), effect)


def part(pair: Pair, name: str, cycle: Row | None) -> Row:
    """The row of a part of the cycle. Without the whole cycle it has no effect on tokens a second."""
    if cycle is None:
        bare = rate(pair, name)
        return Row(name, bare.before, bare.after, bare.change, bare.answer)
    wholes = pair.logs("cycle_ms")
    shares = pair.shares(name)
    levels = [whole * sum(side) / len(side) for whole, side in zip((cycle.before, cycle.after), shares, strict=True)]
    scale = _logarithmic_mean(cycle.before, cycle.after)
    before, after = (
        [math.exp(whole) * share / scale for whole, share in zip(logs, side, strict=True)]
        for logs, side in zip(wholes, shares, strict=True)
    )
    found = change(before, after, pair.paired, _within(pair, "cycle_ms"), max(levels) / scale)
    effect = replace(found, value=(levels[0] - levels[1]) / scale)
    moved = None
    if min(*before, *after) > 0:
        moved = change([math.log(b) for b in before], [math.log(a) for a in after], pair.paired, _within(pair, name))
    return Row(name, levels[0], levels[1], moved, answer(moved or effect, pair.same_within), effect)


def _mean_log(group: list[LaunchView], name: str, prompts: list[str]) -> float:
    import numpy as np

    return float(np.mean([np.log(launch.profile(prompts)[name]).mean() for launch in group]))


def _share(group: list[LaunchView], name: str, prompts: list[str]) -> float:
    import numpy as np

    profiles = [launch.profile(prompts) for launch in group]
    return float(np.mean([profile[name].sum() / profile["cycle_ms"].sum() for profile in profiles]))


def _logarithmic_mean(before: float, after: float) -> float:
    """Such that (after - before) / mean = log(after / before)."""
    ratio = after / before
    return before if abs(ratio - 1) < 1e-9 else (after - before) / math.log(ratio)


def _within(pair: Pair, name: str) -> float:
    """Standard error of a change inside single launches; only needed where there are no more of them."""
    import numpy as np

    if max(len(one.groups) for one in pair.sides) > 1:
        return 0.0
    first, second = pair.before.launches[0], pair.after.launches[0]
    if first.prompts and second.prompts and len(pair.prompts) > ROUGH:
        with np.errstate(divide="ignore", invalid="ignore"):
            moved = np.log(second.profile(pair.prompts)[name] / first.profile(pair.prompts)[name])
        return float(moved.std(ddof=1)) / math.sqrt(len(moved)) if np.isfinite(moved).all() else math.inf
    return math.hypot(_own_error(first, name), _own_error(second, name))


def _own_error(launch: LaunchView, name: str) -> float:
    """From cycles or samples by block bootstrap; from a noted range as if it held 19 values in 20."""
    import numpy as np

    values = launch.series.get(name)
    if launch.evidence == "cycles" and name == "tokens_per_second" and "cycle_ms" in launch.series:
        return ratio_error(launch.series["tokens_per_cycle"], launch.series["cycle_ms"])
    if values is not None:
        values = values[np.isfinite(values)]
        return ratio_error(values, np.ones(len(values))) if len(values) > 1 else 0.0
    low, high = launch.ranges.get(name, (1.0, 1.0))
    return math.log(high / low) / 4 if low > 0 else 0.0

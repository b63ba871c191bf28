"""What weakens a comparison: launches that did not keep still or fall into groups, and what was never measured."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from wingbeat.investigate.pair import Pair
from wingbeat.investigate.side import LaunchView, Side
from wingbeat.measure.replicates import ASSUMED_NOISE, ASSUMED_PAIRED_NOISE, Change, two_groups
from wingbeat.measure.series import SHORTEST, Trend, trend

if TYPE_CHECKING:
    import numpy as np

MOVES_TOGETHER = 0.5  # correlation from which a trend may be one of context length


def cautions(pair: Pair) -> list[str]:
    """What was found inside and between launches, in sentences."""
    found = []
    name = _steady_name(pair.names())
    if name and (gap := two_groups(*pair.logs(name))):
        found.append(
            f"Launches fall into two groups {math.expm1(gap):.0%} apart, and not by side: this looks like a state that "
            "is chosen when a process starts. More launches are needed than the interval says."
        )
    for one in pair.sides:
        found += _moving(one, math.log1p(pair.same_within))
        found += [
            f"{one.label}: {record.damage}; only what stands before it is used."
            for record in one.records
            if record.damage
        ]
        launches = [launch for record in one.records for launch in record.launches if launch.rounds]
        cut = sum(not launch.finished for launch in launches)
        if cut:
            found.append(
                f"{one.label}: {cut} of {len(launches)} launches did not finish; their finished rounds are used."
            )
        ran = {prompt for launch in one.launches for prompt in launch.prompts}
        if pair.prompts and len(ran) > len(pair.prompts):
            found.append(
                f"{one.label}: of its {len(ran)} prompts, the {len(pair.prompts)} that ran in all launches are used."
            )
    return found


def unclaimed(pair: Pair, primary: Change | None, contexts_matched: bool) -> list[str]:
    """What these records cannot show, in sentences."""
    noted = _labels(pair, lambda launch: launch.evidence == "figures")
    short = _labels(pair, lambda launch: launch.evidence != "figures" and _times(launch)[0].size < SHORTEST)
    unknown = _labels(pair, lambda launch: launch.mean_context() is None)
    drafted = all(launch.accepted is not None for one in pair.sides for launch in one.launches)
    counts = [len(one.groups) for one in pair.sides]
    sentences = {
        "Not measured by turns: whatever else changed in between is part of the change.": not pair.paired,
        f"Single figures ({noted}) hold no course over time: warm-up and drift were not looked at.": noted,
        f"Launches of {short} have fewer than {SHORTEST} cycles or samples: too few to see drift.": short,
        "With fewer than 4 launches in all, whether they fall into groups cannot be seen.": sum(counts) < 4,
        "Intervals of acceptance are between prompts here: another launch may accept otherwise.": drafted
        and pair.prompts
        and min(counts) == 1,
        f"Context lengths are not known ({unknown}): longer contexts alone may be the change.": unknown,
        "No range of context lengths has enough cycles on both sides: nothing was matched by context.": not unknown
        and not contexts_matched,
    }
    found = [sentence for sentence, applies in sentences.items() if applies]
    return [_basis(pair, primary), *found] if primary and primary.basis in ("assumed", "one side") else found


def _labels(pair: Pair, which: Callable[[LaunchView], bool]) -> str:
    """The sides with a launch that is so."""
    return " and ".join(one.label for one in pair.sides if any(map(which, one.launches)))


def _basis(pair: Pair, primary: Change) -> str:
    if primary.basis == "one side":
        several = max(pair.sides, key=lambda one: len(one.groups))
        return (
            f"How much {several.units} differ is known from {several.label} alone, and taken as the same on the other "
            "side."
        )
    if pair.paired:
        return (
            "One launch: how much launches differ was not measured. Assumed: from launch to launch, the difference "
            f"between the arms has a standard deviation of {ASSUMED_PAIRED_NOISE:.0%}."
        )
    least = 1.96 * math.sqrt(2) * ASSUMED_NOISE
    return (
        "One launch a side: how much launches of one configuration differ was not measured. Assumed: a standard "
        f"deviation of {ASSUMED_NOISE:.0%}, which is more than most, so that no rise below {math.expm1(least):.0%} and "
        f"no fall below {-math.expm1(-least):.0%} counts."
    )


def _steady_name(names: set[str]) -> str | None:
    return next((name for name in ("cycle_ms", "tokens_per_second") if name in names), None)


def _moving(one: Side, least: float) -> list[str]:
    found: dict[str, list[Trend]] = {}
    for launch in one.launches:
        seen = _trend(launch, least)
        if seen and seen.kind != "steady":
            found.setdefault(seen.kind, []).append(seen)
    return [_sentence(one, kind, trends) for kind, trends in found.items()]


def _trend(launch: LaunchView, least: float) -> Trend | None:
    times, contexts = _times(launch)
    return trend(times, contexts, least)


def _times(launch: LaunchView) -> tuple[np.ndarray, np.ndarray | None]:
    """The times of the cycles in order, or where only speeds are known their reciprocals; and the contexts."""
    import numpy as np

    name = _steady_name(set(launch.series))
    if name is None:
        return np.array([]), None
    values, contexts = launch.series[name], launch.series.get("context")
    known = np.isfinite(values) & (values > 0)
    times = values[known] if name == "cycle_ms" else 1 / values[known]
    return times, None if contexts is None else contexts[known]


def _sentence(one: Side, kind: str, trends: list[Trend]) -> str:
    typical = sorted(trends, key=lambda seen: abs(seen.change))[len(trends) // 2]
    size = f"{math.expm1(typical.change):+.0%}"
    what = {
        "drift": f"the time of a cycle drifted by {size} from start to end",
        "step": f"the time of a cycle changed by {size} after {typical.at:.0%} of the run: no steady state",
        "warm-up": f"the first {typical.at:.0%} of the cycles were slower (then {size}): warm-up was counted in",
    }[kind]
    text = f"{one.label}: in {len(trends)} of {len(one.launches)} launches {what}"
    if typical.context is not None and abs(typical.context) > MOVES_TOGETHER:
        text += f"; context length moved with it (correlation {typical.context:.2f}), so it may be that"
    return text + "."

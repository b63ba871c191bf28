"""Launches as replicates: a change with its interval, what may be said of it, and how many launches would say more.

All values are logarithms, so that a change of 0.05 is a factor of exp(0.05), and a change the other way is as large.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

SAME_WITHIN = 0.03
LEVEL = 0.05
POWER = 0.8
MOST_LAUNCHES = 200
GROUPED = 0.999
# What is taken for the standard deviation between launches of one configuration where it was not measured. Launches of
# the same configuration have been seen to differ by 9 % (two runs of an autotuner) and by 27 % (26 or 33 tok/s, fixed
# when the process started); with 0.10, no rise below 32 % and no fall below 24 % counts. Arms of one process share its
# memory, clocks and placement, but not the kernels chosen for each.
ASSUMED_NOISE = 0.10
ASSUMED_PAIRED_NOISE = 0.05

Answer = Literal["differs", "same", "cannot tell"]
Basis = Literal["launches", "pairs", "one side", "assumed"]


@dataclass(frozen=True)
class Change:
    """How a quantity changed, as a log ratio: `value`, give or take `half` (95 % interval) or `half_90` (90 %).

    noise: standard deviation between launches (between the differences of paired ones). basis: where it comes from:
    launches of both sides, paired launches, the one side that has several, or an assumption.
    """

    value: float
    half: float
    half_90: float
    noise: float
    basis: Basis
    launches: tuple[int, int]

    @property
    def low(self) -> float:
        """The lower end of the 95 % interval."""
        return self.value - self.half

    @property
    def high(self) -> float:
        """The upper end of the 95 % interval."""
        return self.value + self.half


def change(
    before: Sequence[float], after: Sequence[float], paired: bool = False, within: float = 0.0, size: float = 1.0
) -> Change:
    """The change of the mean over launches, with t intervals; launch noise may differ between the sides (Welch).

    before, after: one value a launch, at least one each; paired: the n-th of both come from the same launch. Only where
    no side has two launches: within (standard error of the change inside them) and the assumed noise times `size`.
    """
    counts = (len(before), len(after))
    value = statistics.fmean(after) - statistics.fmean(before)
    if paired and counts[0] > 1:
        noise = statistics.stdev([b - a for a, b in zip(before, after, strict=True)])
        return _interval(value, noise, noise / math.sqrt(counts[0]), counts[0] - 1, ("pairs", counts))
    if min(counts) > 1:
        first, second = (statistics.variance(side) / len(side) for side in (before, after))
        error = first + second
        freedom = error**2 / (first**2 / (counts[0] - 1) + second**2 / (counts[1] - 1)) if error else sum(counts) - 2
        noise = math.sqrt((first * counts[0] + second * counts[1]) / 2)
        return _interval(value, noise, math.sqrt(error), freedom, ("launches", counts))
    if max(counts) > 1:
        noise = statistics.stdev(before if counts[0] > 1 else after)
        error = noise * math.sqrt(1 / counts[0] + 1 / counts[1])
        return _interval(value, noise, error, max(counts) - 1, ("one side", counts))
    noise = size * (ASSUMED_PAIRED_NOISE if paired else ASSUMED_NOISE)
    return _interval(
        value, noise, math.hypot(noise * (1 if paired else math.sqrt(2)), within), 1e9, ("assumed", counts)
    )


def answer(found: Change, same_within: float = SAME_WITHIN) -> Answer:
    """What the interval allows to say.

    same: both one-sided tests put the change within `same_within` (0.03: 3 %), even where a smaller one is certain;
    differs: the 95 % interval holds no zero; cannot tell: neither.
    """
    if abs(found.value) + found.half_90 <= math.log1p(same_within):
        return "same"
    return "differs" if abs(found.value) > found.half else "cannot tell"


def launches_needed(found: Change, same_within: float = SAME_WITHIN) -> int | None:
    """Launches a side that would give an answer 4 times in 5, if change and noise are what they now seem to be.

    More than there are, where these do not tell. None: the noise is not known, or more than 200 would be needed.
    """
    if found.basis == "assumed":
        return None
    paired = found.basis == "pairs"
    room = math.log1p(same_within) - abs(found.value)
    least = max(found.launches) + 1 if answer(found, same_within) == "cannot tell" else 2
    for count in range(least, MOST_LAUNCHES + 1):
        freedom = count - 1 if paired else 2 * (count - 1)
        error = found.noise * math.sqrt((1 if paired else 2) / count)
        spare = quantile(freedom, POWER) * error
        if abs(found.value) - spare > quantile(freedom, 1 - LEVEL / 2) * error:
            return count
        if room - spare > quantile(freedom, 1 - LEVEL) * error:
            return count
    return None


def two_groups(before: Sequence[float], after: Sequence[float], least: float = 0.05) -> float | None:
    """The gap (log ratio) between two groups into which the launches fall, or None.

    Two or more in each group, a gap of `least` and of more standard deviations inside the groups than chance gives so
    few launches, and a side that is in both: a state chosen when a process starts looks like this, a difference between
    the sides does not.
    """
    ordered = sorted([*before, *after])
    if len(ordered) < 4:
        return None
    gaps = [high - low for low, high in pairwise(ordered[1:-1])]
    at = max(range(len(gaps)), key=gaps.__getitem__) + 2
    low, high = ordered[:at], ordered[at:]
    freedom = len(ordered) - 2
    inside = math.sqrt((len(low) * statistics.pvariance(low) + len(high) * statistics.pvariance(high)) / freedom)
    straddles = any(min(side) < high[0] <= max(side) for side in (before, after))
    gap = high[0] - low[-1]
    return gap if straddles and gap >= least and gap > quantile(freedom, GROUPED) * inside else None


def quantile(freedom: float, probability: float) -> float:
    """The quantile of Student's t."""
    from scipy.special import stdtrit

    return float(stdtrit(freedom, probability))


def _interval(
    value: float, noise: float, error: float, freedom: float, origin: tuple[Basis, tuple[int, int]]
) -> Change:
    halves = (quantile(freedom, 1 - LEVEL / 2) * error, quantile(freedom, 1 - LEVEL) * error)
    return Change(value, *halves, noise, *origin)

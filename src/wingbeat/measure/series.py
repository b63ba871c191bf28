"""What happened inside a launch: how well its own mean is known, and whether it kept still.

Neighbouring cycles resemble each other, so cycles are resampled in blocks, and prompts as a whole.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    import numpy as np

RESAMPLES = 1000
MOST_BLOCKS = 500
MOST_LAG = 200
PARTS = 40  # at most, and of so many cycles that neighbouring parts hardly resemble each other
FEWEST_PARTS = 10
SHORTEST = 80  # cycles from which a trend can be looked for
WARMUP_ENDS = 0.3
CERTAIN_STEP = 5.0  # standard errors; of 40 parts the best of all splits reaches 3 by chance


@dataclass(frozen=True)
class Trend:
    """How a series moved from its start to its end.

    steady; drift (change: along the whole series); step (change: at the share `at` of it); warm-up: a step down in the
    first 30 %. change: log ratio. context: correlation of the series with the context length (None: not known, or it
    did not change).
    """

    kind: Literal["steady", "drift", "step", "warm-up"]
    change: float = 0.0
    at: float = 0.0
    context: float | None = None


def decorrelation(values: np.ndarray) -> float:
    """How many neighbouring values say as much as one independent value (1.0: all of them do).

    1 + 2 x the sum of autocorrelations, as long as pairs of them are positive (Geyer's initial positive sequence).
    """
    centred = values - values.mean()
    scale = float(centred @ centred)
    if scale <= 0:
        return 1.0
    total = 1.0
    for lag in range(1, min(MOST_LAG, len(values) // 4), 2):
        pair = float(centred[lag:] @ centred[:-lag] + centred[lag + 1 :] @ centred[: -lag - 1]) / scale
        if pair <= 0:
            break
        total += 2 * pair
    return total


def block_sums(columns: np.ndarray) -> np.ndarray:
    """[cycles, columns] summed over blocks of twice the decorrelation length of any column: [blocks, columns]."""
    import numpy as np

    count = len(columns)
    length = math.ceil(2 * max(decorrelation(column) for column in columns.T))
    length = max(1, min(max(length, math.ceil(count / MOST_BLOCKS)), count // 4))
    return np.add.reduceat(columns, np.arange(0, count, length), axis=0)


def resampled(sums: np.ndarray, seed: int = 0) -> np.ndarray:
    """Totals of 1,000 drawings, with replacement, of as many clusters as there are: [clusters, columns] to
    [1000, columns]. A cluster is a prompt, a launch or a block of cycles.
    """
    import numpy as np

    count = len(sums)
    drawn = np.random.default_rng(seed).multinomial(count, np.full(count, 1 / count), size=RESAMPLES)
    return drawn @ sums


def ratio_error(above: np.ndarray, below: np.ndarray) -> float:
    """Standard error of log(sum of `above` / sum of `below`), two columns of one series, by block bootstrap."""
    import numpy as np

    totals = resampled(block_sums(np.stack([above, below], axis=1)))
    positive = (totals > 0).all(axis=1)
    return float(np.std(np.log(totals[positive, 0] / totals[positive, 1]))) if positive.sum() > 1 else math.inf


def trend(values: np.ndarray, contexts: np.ndarray | None, least: float) -> Trend | None:
    """Whether a series of positive values (one a cycle or sample, in order) kept still; None: too short to say.

    least: changes smaller than this (log ratio) are no matter. The slope is Theil and Sen's over medians of up to 40
    parts, with its 99.9 % interval; a step counts where it fits better than a line.
    """
    import numpy as np
    from scipy.stats import theilslopes

    if len(values) < SHORTEST:
        return None
    count = _parts(values)
    parts = np.log(np.median(values[: len(values) // count * count].reshape(count, -1), axis=1))
    places = np.linspace(0, 1, count)
    slope, level, low, high = theilslopes(parts, places, alpha=0.999)
    line = float(((parts - level - slope * places) ** 2).sum())
    at, step, error, rest = _best_step(parts)
    context = _correlation(parts, contexts)
    if rest < line and abs(step) > max(least, CERTAIN_STEP * error):
        return Trend("warm-up" if at < WARMUP_ENDS and step < 0 else "step", step, at, context)
    if low * high > 0 and abs(slope) > least:
        return Trend("drift", float(slope), 0.0, context)
    return Trend("steady", float(slope), 0.0, context)


def _parts(values: np.ndarray) -> int:
    """In how many parts a series is looked at: each four times as long as cycles resemble each other.

    How long that is, is taken from tenths of the series less their means, so that what is looked for does not count.
    """
    whole = values[: len(values) // FEWEST_PARTS * FEWEST_PARTS].reshape(FEWEST_PARTS, -1)
    alike = decorrelation((whole - whole.mean(axis=1, keepdims=True)).ravel())
    return max(FEWEST_PARTS, min(PARTS, int(len(values) / (4 * alike))))


def _best_step(parts: np.ndarray) -> tuple[float, float, float, float]:
    """The split that leaves the least squares: where (share), how much, standard error, what is left."""
    import numpy as np

    count = len(parts)
    sizes = np.arange(2, count - 1)
    sums = np.cumsum(parts)[1 : count - 2]
    left, right = sums / sizes, (parts.sum() - sums) / (count - sizes)
    rest = (parts**2).sum() - sizes * left**2 - (count - sizes) * right**2
    best = int(np.argmin(rest))
    size, left_over = int(sizes[best]), max(float(rest[best]), 0.0)
    error = math.sqrt(left_over / (count - 2) * (1 / size + 1 / (count - size)))
    return size / count, float(right[best] - left[best]), error, left_over


def _correlation(parts: np.ndarray, contexts: np.ndarray | None) -> float | None:
    import numpy as np

    if contexts is None or not np.isfinite(contexts).all():
        return None
    means = contexts[: len(contexts) // len(parts) * len(parts)].reshape(len(parts), -1).mean(axis=1)
    if np.std(means) == 0 or np.std(parts) == 0:
        return None
    return float(np.corrcoef(parts, means)[0, 1])

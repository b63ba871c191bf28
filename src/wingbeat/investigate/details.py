"""Where a change sits: at which context lengths, at which positions of the draft, and how far from breaking even."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from wingbeat.investigate.pair import Pair, Row
from wingbeat.investigate.side import LaunchView, Side
from wingbeat.measure.replicates import answer, change, quantile
from wingbeat.measure.series import resampled

if TYPE_CHECKING:
    import numpy as np

FEWEST = {"cycles": 30, "samples": 3}  # of them in a bin of context lengths, for a launch to count there
BINS = 25  # powers of two


@dataclass(frozen=True)
class ContextRow:
    """Cycles at contexts from `low` up to `high` tokens: how many on both sides, and the quantity there."""

    low: int
    high: int
    counts: tuple[int, int]
    row: Row


@dataclass(frozen=True)
class Position:
    """Acceptance at a position of the draft, before and after: of all drafts, and of those accepted up to there.

    moved: change of the unconditional share, low and high its 95 % interval (None: too little is known for one).
    """

    position: int
    unconditional: tuple[float, float]
    conditional: tuple[float | None, float | None]
    moved: float
    low: float | None
    high: float | None


@dataclass(frozen=True)
class BreakEven:
    """Tokens per cycle at which speculation equals plain decoding, and what was reached.

    bound: both are lower bounds, and verify_ms an upper one, as the whole cycle is not known. verify_ms: what verify
    would have to cost, all else equal (None: not known, or even nothing would be too much).
    """

    needed: float
    reached: float
    bound: bool
    verify_ms: float | None


def by_context(pair: Pair) -> tuple[list[ContextRow], list[Row]]:
    """The cycle's time in each bin of context lengths, and time and tokens per cycle at equal weights of the bins."""
    rows: list[ContextRow] = []
    matched: list[Row] = []
    for name in ("cycle_ms", "tokens_per_cycle", "tokens_per_second"):
        tables = [[_binned(group, name) for group in one.groups] for one in pair.sides]
        if any(table is None for side in tables for table in side):
            continue
        counts, logs = (_stacked(tables, index) for index in (0, 1))
        fewest = [FEWEST["cycles" if one.evidence == "cycles" else "samples"] for one in pair.sides]
        least = [side.min(axis=0) for side in counts]
        bins = [place for place in range(BINS) if all(at[place] >= few for at, few in zip(least, fewest, strict=True))]
        if not bins:
            continue
        if not rows:
            for place in bins:
                sizes = (int(counts[0][:, place].sum()), int(counts[1][:, place].sum()))
                row = _row(pair, name, [side[:, place] for side in logs])
                rows.append(ContextRow(2**place, 2 ** (place + 1), sizes, row))
        weights = _weights(counts, bins)
        matched.append(_row(pair, name, [side[:, bins] @ weights for side in logs]))
    return rows, matched


def _binned(group: list[LaunchView], name: str) -> tuple[np.ndarray, np.ndarray] | None:
    """Counts and logs of the mean by bin, of the launches of a replicate; None where they do not know."""
    import numpy as np

    if not all({"context", name} <= launch.series.keys() for launch in group):
        return None
    contexts, values = (np.concatenate([launch.series[key] for launch in group]) for key in ("context", name))
    known = np.isfinite(contexts) & np.isfinite(values) & (contexts >= 1)
    place = np.minimum(np.frexp(contexts[known])[1] - 1, BINS - 1)
    counts = np.bincount(place, minlength=BINS)
    with np.errstate(divide="ignore", invalid="ignore"):
        return counts, np.log(np.bincount(place, values[known], BINS) / counts)


def _stacked(tables: list[list[tuple[np.ndarray, np.ndarray] | None]], index: int) -> list[np.ndarray]:
    import numpy as np

    return [np.array([table[index] for table in side if table]) for side in tables]


def _weights(counts: list[np.ndarray], bins: list[int]) -> np.ndarray:
    """The smaller of the two sides' shares of each bin, summing to one."""
    import numpy as np

    shares = [side[:, bins].sum(axis=0) / side.sum() for side in counts]
    least = np.minimum(*shares)
    return least / least.sum()


def _row(pair: Pair, name: str, logs: Sequence[np.ndarray]) -> Row:
    before, after = ([float(value) for value in side] for side in logs)
    found = change(before, after, pair.paired)
    levels = [math.exp(sum(side) / len(side)) for side in (before, after)]
    return Row(name, levels[0], levels[1], found, answer(found, pair.same_within))


def positions(pair: Pair) -> list[Position]:
    """Acceptance by position where both sides drafted; from noted figures without an interval."""
    tables = [[_accepted(group, pair.prompts) for group in one.groups] for one in pair.sides]
    if any(table is None for side in tables for table in side):
        return _noted_positions(pair)
    import numpy as np

    deepest = max(table.shape[1] for side in tables for table in side if table is not None)
    before, after = (np.stack([_deep(table, deepest) for table in side if table is not None]) for side in tables)
    totals = [side.sum(axis=(0, 1)) for side in (before, after)]
    halves = _halves(before, after, pair)
    found = []
    for place in range(deepest):
        rates = [float(total[place, 0] / total[place, 2]) for total in totals]
        given = [float(total[place, 0] / total[place, 1]) if total[place, 1] else None for total in totals]
        moved, half = rates[1] - rates[0], halves[place]
        low, high = (None, None) if half is None else (moved - half, moved + half)
        found.append(Position(place + 1, (rates[0], rates[1]), (given[0], given[1]), moved, low, high))
    return found


def _accepted(group: list[LaunchView], prompts: Sequence[str]) -> np.ndarray | None:
    """[prompts, positions, 3] of a replicate; None where nothing was drafted."""
    import numpy as np

    tables = [launch.accepted[launch.places(prompts)] for launch in group if launch.accepted is not None]
    if not prompts or len(tables) < len(group):
        return None
    deepest = max(table.shape[1] for table in tables)
    return np.sum([_deep(table, deepest) for table in tables], axis=0)


def _deep(table: np.ndarray, deepest: int) -> np.ndarray:
    """[prompts, positions, 3] with positions that were never reached added."""
    import numpy as np

    more = np.zeros((table.shape[0], deepest - table.shape[1], 3))
    more[:, :, 2] = table[:, :1, 2]
    return np.concatenate([table, more], axis=1)


def _halves(before: np.ndarray, after: np.ndarray, pair: Pair) -> list[float | None]:
    """Half widths of the intervals: between launches where there are several, otherwise between prompts.

    The prompts of one launch say nothing about another launch of the same configuration.
    """
    import numpy as np

    if min(len(before), len(after)) > 1:
        rates = [(side.sum(axis=1)[:, :, 0] / side.sum(axis=1)[:, :, 2]) for side in (before, after)]
        return [change(list(rates[0][:, p]), list(rates[1][:, p]), pair.paired).half for p in range(before.shape[2])]
    if len(pair.prompts) < 2:
        return [None] * before.shape[2]
    pooled = np.concatenate([before.sum(axis=0), after.sum(axis=0)], axis=2)  # drawn together: the prompts are the same
    totals = resampled(pooled.reshape(len(pooled), -1)).reshape(-1, before.shape[2], 6)
    moved = totals[:, :, 3] / totals[:, :, 5] - totals[:, :, 0] / totals[:, :, 2]
    return [quantile(len(pooled) - 1, 0.975) * float(np.std(moved[:, place])) for place in range(before.shape[2])]


def _noted_positions(pair: Pair) -> list[Position]:
    found = []
    for position in range(1, 65):
        name = f"acceptance_{position}"
        sides = [[launch.levels[name] for launch in one.launches if name in launch.levels] for one in pair.sides]
        if not all(sides):
            break
        before, after = (sum(side) / len(side) for side in sides)
        found.append(Position(position, (before, after), (None, None), after - before, None, None))
    return found


def break_even(one: Side, plain: Side | None, prompts: Sequence[str], bound: bool) -> BreakEven | None:
    """A side beside the plain arm of its own run; None where there is none, or a cycle's time is not known."""
    if plain is None:
        return None
    cycle, step, reached = (
        _mean(side, name, prompts) for side, name in ((one, "cycle_ms"), (plain, "cycle_ms"), (one, "tokens_per_cycle"))
    )
    verify = _mean(one, "verify_ms", prompts)
    if cycle is None or step is None or reached is None:
        return None
    affordable = None if verify is None else verify - (cycle - reached * step)
    return BreakEven(cycle / step, reached, bound, affordable if affordable and affordable > 0 else None)


def _mean(one: Side, name: str, prompts: Sequence[str]) -> float | None:
    import numpy as np

    profiles = [launch.profile([prompt for prompt in prompts if prompt in launch.prompts]) for launch in one.launches]
    if not all(name in profile and len(profile[name]) for profile in profiles):
        return None
    return math.exp(float(np.mean([np.log(profile[name]).mean() for profile in profiles])))


def outputs(before: Side, after: Side) -> tuple[int, int] | None:
    """How many outputs of the same prompt are the same, of how many compared; None where none were kept."""
    first, second = (_outputs(one) for one in (before, after))
    shared = first.keys() & second.keys()
    return (sum(first[key] == second[key] for key in shared), len(shared)) if shared else None


def _outputs(one: Side) -> dict[tuple[str, int], str]:
    """By prompt and place in the batch, from the first launch that ran it."""
    found: dict[tuple[str, int], str] = {}
    for record in one.records:
        for entry in record.measured():
            requests = entry.arms[one.arm].requests if one.arm in entry.arms else []
            for place, request in enumerate(requests):
                found.setdefault((entry.prompt, place), request.output_hash)
    return found

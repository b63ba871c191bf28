"""What a forward costs, as measured, beside what this machine could do; and what that predicts for speculation.

Tables hold medians of measured times (never constants of a formula): a prediction that differs from what a run did is
then a finding about the run. Formulas: eagle3.md 7.1.
"""

from __future__ import annotations

import bisect
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Any

from wingbeat.errors import UsageError
from wingbeat.measure.columns import ROWS, CycleColumns, Rows
from wingbeat.measure.record import PLAIN, RunRecord

VERIFY, DRAFT = "verify", "draft"
EXTEND_IS = "eager"  # the forward by which the engine verifies as extend
Cycles = Sequence[CycleColumns]  # an arm's, one entry a round


@dataclass(frozen=True)
class Line:
    """y = intercept + slope * x. worst: the largest relative distance of a point from it."""

    intercept: float
    slope: float
    worst: float

    def at(self, x: float) -> float:
        return self.intercept + self.slope * x


@dataclass(frozen=True)
class Ceilings:
    """The best that this machine did: reading memory, multiplying matrices, and starting the smallest operation."""

    gb_per_s: float
    gflop_per_s: float
    launch_us: float


@dataclass(frozen=True)
class Timing:
    """One measured cell: milliseconds (median and quartiles) beside the bytes and operations that it takes at least.

    part: "verify", a forward of the target over `width` tokens, or "draft", all of drafting `width` steps with
    `branches` a node. path: which kind of forward. context: tokens in the cache before it.
    """

    part: str
    path: str
    width: int
    context: int
    branches: int
    ms: float
    low: float
    high: float
    bytes: int
    flops: int

    @property
    def gb_per_s(self) -> float:
        return self.bytes / self.ms / 1e6

    @property
    def gflop_per_s(self) -> float:
        return self.flops / self.ms / 1e6

    def bound_ms(self, ceilings: Ceilings) -> float:
        """The least time that the ceilings allow: moving the bytes or computing, whichever takes longer."""
        return max(self.bytes / ceilings.gb_per_s, self.flops / ceilings.gflop_per_s) / 1e6


@dataclass(frozen=True)
class Parts:
    """Mean milliseconds of a cycle; rest is what is neither draft nor verify: accept, commit, host."""

    draft: float
    verify: float
    rest: float

    @property
    def cycle(self) -> float:
        return self.draft + self.verify + self.rest


@dataclass(frozen=True)
class BreakEven:
    """needed: tokens per cycle at which an arm is as fast as plain; verify_ms: what verify would have to cost."""

    needed: float
    achieved: float
    verify_ms: float

    @classmethod
    def of(cls, cycle: Parts, plain_ms: float, tokens_per_cycle: float) -> BreakEven:
        """From the parts of a cycle and the time of a plain one."""
        allowed = tokens_per_cycle * plain_ms - cycle.draft - cycle.rest
        return cls(cycle.cycle / plain_ms, tokens_per_cycle, allowed)


@dataclass(frozen=True)
class Prediction:
    """What the tables say an arm should cost and gain, and what it did.

    The first cycle of every answer is left out: there the draft head also reads the prompt. acceptance: share of cycles
    that accepted at least 1, 2, ... drafts; tokens_per_cycle: 1 + their sum. predicted takes draft and verify from the
    tables and rest from the run; where no table has the arm's drafting (it runs no forward), draft is the run's too.
    residual: observed / predicted speed-up - 1.
    """

    arm: str
    acceptance: tuple[float, ...]
    tokens_per_cycle: float
    predicted: Parts
    observed: Parts
    plain_predicted: Parts
    plain_observed: Parts
    speed_up_predicted: float
    speed_up_observed: float
    draft_from_run: bool

    @property
    def residual(self) -> float:
        return self.speed_up_observed / self.speed_up_predicted - 1

    @property
    def break_even(self) -> BreakEven:
        return BreakEven.of(self.observed, self.plain_observed.cycle, self.tokens_per_cycle)

    @property
    def break_even_predicted(self) -> BreakEven:
        return BreakEven.of(self.predicted, self.plain_predicted.cycle, self.tokens_per_cycle)


@dataclass(frozen=True)
class Profile:
    """Everything that `wingbeat profile` found. subject: the engine's settings in force."""

    subject: dict[str, Any]
    ceilings: Ceilings
    timings: tuple[Timing, ...]
    predictions: tuple[Prediction, ...]


def fit(x: Sequence[float], y: Sequence[float]) -> Line:
    """The least-squares line through points, such as round time against drafted steps; y must not be zero.

    Raises UsageError for fewer than two different x.
    """
    if len(set(x)) < 2:
        raise UsageError("a line needs measurements at two places or more")
    slope, intercept = statistics.linear_regression(x, y)
    worst = max(abs(intercept + slope * a - b) / abs(b) for a, b in zip(x, y, strict=True))
    return Line(intercept, slope, worst)


def tokens_per_cycle(acceptance: Sequence[float]) -> float:
    """1 + the sum of the unconditional acceptance of positions 1, 2, ..."""
    return 1 + sum(acceptance)


def speed_up(tokens: float, cycle_ms: float, plain_ms: float) -> float:
    """tokens per cycle * plain time / cycle time."""
    return tokens * plain_ms / cycle_ms


def lookup(timings: Sequence[Timing], width: float, context: float) -> float:
    """Milliseconds at a width and a context: linear between measured cells, the nearest one's outside of them.

    timings: cells of one part, path and number of branches, every width at every context.
    """
    columns: dict[int, dict[int, float]] = {}
    for timing in timings:
        columns.setdefault(timing.width, {})[timing.context] = timing.ms
    return _between({each: _between(column, context) for each, column in columns.items()}, width)


def _between(points: Mapping[int, float], x: float) -> float:
    places = sorted(points)
    after = bisect.bisect_left(places, x)
    if after in (0, len(places)):
        return points[places[min(after, len(places) - 1)]]
    low, high = places[after - 1], places[after]
    return points[low] + (points[high] - points[low]) * (x - low) / (high - low)


def predict(record: RunRecord, timings: Sequence[Timing]) -> tuple[Prediction, ...]:
    """One prediction for each arm that drafts, from the tables and the record's acceptance.

    Empty where the record has no cycles of a plain arm. Raises UsageError for cycles of several requests, as the tables
    are for one, and for a path that they do not have.
    """
    arms = {arm: [_steady(entry.arms[arm].cycles) for entry in record.measured()] for arm in record.arms}
    cycles = arms.pop(PLAIN, [])
    if not any(map(len, cycles)):
        return ()
    observed = _parts(cycles)
    plain = (Parts(observed.draft, _mean_verify(cycles, timings), observed.rest), observed)
    drafting = {arm: columns for arm, columns in arms.items() if any(_flat(columns, "drafted"))}
    return tuple(
        _prediction(arm, columns, timings, _draft_cells(record, arm, timings), plain)
        for arm, columns in drafting.items()
    )


def _prediction(
    arm: str, cycles: Cycles, timings: Sequence[Timing], draft: Sequence[Timing], plain: tuple[Parts, Parts]
) -> Prediction:
    """plain: the plain arm's parts, predicted and observed."""
    observed = _parts(cycles)
    draft_ms = _mean_draft(cycles, draft) if draft else observed.draft
    predicted = Parts(draft_ms, _mean_verify(cycles, timings), observed.rest)
    accepted = _flat(cycles, "accepted")
    acceptance = [sum(one >= place for one in accepted) / len(accepted) for place in range(1, max(accepted) + 1)]
    tokens, committed = tokens_per_cycle(acceptance), statistics.fmean(_flat(cycles, "committed"))
    return Prediction(
        arm, tuple(acceptance), tokens, predicted, observed, *plain,
        speed_up_predicted=speed_up(tokens, predicted.cycle, plain[0].cycle),
        speed_up_observed=speed_up(committed, observed.cycle, plain[1].cycle),
        draft_from_run=not draft,
    )


def _steady(columns: CycleColumns) -> CycleColumns:
    """All cycles of one answer but the first."""
    if len(columns.contexts.flat) != len(columns):
        raise UsageError("the tables are for one request at a time, but this record has cycles of several")
    steady = CycleColumns(ms={name: column[1:] for name, column in columns.ms.items()})
    steady.width, steady.path = columns.width[1:], columns.path[1:]
    for name in ROWS:
        setattr(steady, name, Rows([value] for value in getattr(columns, name).flat[1:]))
    return steady


def _flat(cycles: Cycles, name: str) -> list[int]:
    """A column of all cycles, of which each has one request."""
    return [value for columns in cycles for value in getattr(columns, name).flat]


def _parts(cycles: Cycles) -> Parts:
    """Means over cycles; extending the head over what was committed is part of drafting."""
    total = sum(map(len, cycles))
    mean = {
        name: sum(sum(columns.ms.get(name, ())) for columns in cycles) / total
        for name in ("cycle", "draft", "extend", "verify")
    }
    draft = mean["draft"] + mean["extend"]
    return Parts(draft, mean["verify"], mean["cycle"] - draft - mean["verify"])


def _mean_verify(cycles: Cycles, timings: Sequence[Timing]) -> float:
    """The tables' verify, over the paths, widths and contexts that the cycles really had."""
    tables = {one.path: [cell for cell in timings if (cell.part, cell.path) == (VERIFY, one.path)] for one in timings}
    tables["extend"] = tables.get(EXTEND_IS, [])
    paths, widths = ([value for one in cycles for value in getattr(one, name)] for name in ("path", "width"))
    counts = Counter(zip(paths, widths, _flat(cycles, "contexts"), strict=True))
    missing = {path for path, _, _ in counts if not tables.get(path)}
    if missing:
        raise UsageError(
            f"the run's forwards were {', '.join(sorted(missing))}, of which the tables have none; profile "
            "on the run's machine, without --no-eager"
        )
    return sum(count * lookup(tables[path], *place) for (path, *place), count in counts.items()) / counts.total()


def _mean_draft(cycles: Cycles, cells: Sequence[Timing]) -> float:
    """The tables' draft: of chains at the depths that the cycles really drafted, which may be none; of trees as set."""
    depths = _flat(cycles, "drafted") if cells[0].branches == 1 else repeat(cells[0].width)
    counts = Counter(zip(depths, _flat(cycles, "contexts"), strict=False))
    total = sum(count * lookup(cells, *place) for place, count in counts.items() if place[0])
    return total / counts.total()


def _draft_cells(record: RunRecord, arm: str, timings: Sequence[Timing]) -> list[Timing]:
    """The cells that measured the arm's drafting; none for a drafter that runs no forward."""
    settings = record.launches[0].effective[arm].get("draft", {})
    if settings.get("drafter") != "eagle3":
        return []
    steps, branches = settings.get("steps"), settings.get("topk")
    cells = [one for one in timings if (one.part, one.branches) == (DRAFT, branches)]
    return [one for one in cells if branches == 1 or one.width == steps]

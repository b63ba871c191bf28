"""One side of a comparison: what the launches of an arm say, from cycles, from samples over time or from noted figures.

The names of quantities: tokens_per_second (all requests, after prefill), tokens_per_cycle (of one request), requests
(in a cycle), cycle_ms, and <phase>_ms for the parts of a cycle.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from wingbeat.errors import UsageError
from wingbeat.measure.record import PLAIN, ArmFacts, Launch, RunRecord

if TYPE_CHECKING:
    import numpy as np

Evidence = Literal["cycles", "samples", "figures"]
OTHER_NAMES = {"tok_s": "tokens_per_second", "running": "requests"}
PHASES = ("draft", "verify", "accept", "commit", "extend")  # of a cycle; what none of them covers is the host's
PARTS = (*(f"{phase}_ms" for phase in PHASES), "host_ms")


@dataclass
class LaunchView:
    """One launch of one arm.

    prompts: the place of each in the arrays. totals: sums over the cycles of each prompt ("cycles", "rows": cycles x
    requests, "tokens", "cycle_ms", "draft_ms", ...). levels, ranges: where there are no cycles, the known quantities
    and their noted ranges. series: one value a cycle or sample, in order ("context" among them). accepted: [prompts,
    positions, 3]: how often the position was accepted, how often it was drafted with the one before it accepted, and
    the drafts (None: nothing was drafted).
    """

    evidence: Evidence
    prompts: dict[str, int] = field(default_factory=dict)
    totals: dict[str, np.ndarray] = field(default_factory=dict)
    levels: dict[str, float] = field(default_factory=dict)
    ranges: dict[str, tuple[float, float]] = field(default_factory=dict)
    series: dict[str, np.ndarray] = field(default_factory=dict)
    accepted: np.ndarray | None = None

    def profile(self, prompts: Sequence[str]) -> dict[str, np.ndarray]:
        """Each quantity, for one prompt after another; without cycles one number each."""
        import numpy as np

        if not self.prompts:
            return {name: np.array([value]) for name, value in self.levels.items()}
        sums = {name: column[self.places(prompts)] for name, column in self.totals.items()}
        found = {name: sums[name] / sums["cycles"] for name in sums if name.endswith("_ms")}
        return found | {
            "tokens_per_second": 1000 * sums["tokens"] / sums["cycle_ms"],
            "tokens_per_cycle": sums["tokens"] / sums["rows"],
            "requests": sums["rows"] / sums["cycles"],
        }

    def places(self, prompts: Sequence[str]) -> list[int]:
        """Where these prompts stand in the arrays."""
        return [self.prompts[prompt] for prompt in prompts]

    def mean_context(self) -> float | None:
        """Tokens in the cache, on average over cycles or samples."""
        known = self.series.get("context")
        return self.levels.get("context") if known is None or not len(known) else float(known.mean())


@dataclass
class Side:
    """An arm of a record, or of several.

    groups: the launches that make one replicate (one each; where units are "runs", those of a whole run).
    """

    label: str
    arm: str
    records: list[RunRecord]
    groups: list[list[LaunchView]]
    units: Literal["launches", "runs"] = "launches"

    @property
    def launches(self) -> list[LaunchView]:
        """All launches, in order."""
        return [launch for group in self.groups for launch in group]

    @property
    def evidence(self) -> Evidence:
        """What the side rests on."""
        return self.launches[0].evidence


def side(label: str, record: RunRecord, arm: str) -> Side:
    """The launches of an arm that say anything. Raises UsageError where none does."""
    views = [view for launch in record.launches if (view := _view(launch, arm))]
    if not views:
        there = f"there are {', '.join(record.arms)}" if arm not in record.arms else "no round, sample or figure of it"
        raise UsageError(f"{label} has nothing to compare of the arm {arm!r}: {there}")
    return Side(label, arm, [record], [[view] for view in views])


def runs(label: str, sides: Sequence[Side]) -> Side:
    """Runs of one arm as one side, each run being one replicate."""
    records = [record for one in sides for record in one.records]
    return Side(label, sides[0].arm, records, [one.launches for one in sides], "runs")


def common_arm(records: Iterable[RunRecord]) -> str:
    """The arm to compare where none was named: the only one that speculates in all, else plain.

    Raises UsageError where there are several, or none that all have.
    """
    first, *others = (record.arms for record in records)
    shared = [arm for arm in first if all(arm in other for other in others)]
    candidates = [arm for arm in shared if arm != PLAIN] or shared
    if len(candidates) == 1:
        return candidates[0]
    names = ", ".join(dict.fromkeys(arm for arms in (first, *others) for arm in arms))
    which = "several arms are in both" if candidates else "no arm is in both"
    raise UsageError(f"{which}; name the arms, as in A:ARM B:ARM (there are {names})")


def _view(launch: Launch, arm: str) -> LaunchView | None:
    measured = [(entry.prompt, entry.arms[arm]) for entry in launch.rounds if not entry.warmup and arm in entry.arms]
    measured = [(prompt, facts) for prompt, facts in measured if len(facts.cycles)]
    if measured:
        return _from_cycles([prompt for prompt, _ in measured], [facts for _, facts in measured])
    samples, figures = launch.samples.get(arm, {}), launch.figures.get(arm, {})
    if not samples and not figures:
        return None
    import numpy as np

    view = LaunchView("samples" if samples else "figures")
    for name, column in samples.items():
        values = np.array([math.nan if value is None else value for value in column], dtype=float)
        view.series[_name(name)] = values
        if np.isfinite(values).any():
            view.levels[_name(name)] = float(np.nanmean(values))
    for name, figure in figures.items():
        view.levels[_name(name)] = figure.value
        if figure.low is not None and figure.high is not None:
            view.ranges[_name(name)] = (figure.low, figure.high)
    view.levels = {name: value for name, value in view.levels.items() if value > 0 or name.startswith("acceptance")}
    return view


def _name(name: str) -> str:
    return OTHER_NAMES.get(name, name)


def _from_cycles(prompts: list[str], facts: list[ArmFacts]) -> LaunchView:
    import numpy as np

    cycles = [entry.cycles for entry in facts]
    known = {prompt: place for place, prompt in enumerate(dict.fromkeys(prompts))}
    places = np.array([known[prompt] for prompt in prompts])
    code = np.repeat(places, [len(entry) for entry in cycles])
    rows = np.concatenate([np.diff(np.asarray(entry.committed.ends), prepend=0) for entry in cycles])
    flat = {
        name: np.concatenate([np.asarray(getattr(entry, name).flat) for entry in cycles])
        for name in ("contexts", "drafted", "accepted", "committed")
    }
    starts = np.concatenate([[0], np.cumsum(rows)[:-1]])
    per_cycle = {name: np.add.reduceat(flat[name], starts).astype(float) for name in ("contexts", "committed")}
    phases = (*PHASES, "cycle")
    ms = {name: np.concatenate([_column(entry.ms, name, len(entry)) for entry in cycles]) for name in phases}

    def by_prompt(values: np.ndarray) -> np.ndarray:
        return np.bincount(code, values, len(known))

    totals = {
        "cycles": by_prompt(np.ones(len(code))),
        "rows": by_prompt(rows),
        "tokens": by_prompt(per_cycle["committed"]),
    }
    wall = [1000 * entry.seconds - entry.prefill_ms for entry in facts]
    totals["cycle_ms"] = np.bincount(places, wall, len(known))
    totals |= {f"{name}_ms": by_prompt(ms[name]) for name in PHASES}
    totals["host_ms"] = totals["cycle_ms"] - sum(totals[f"{name}_ms"] for name in PHASES)
    series = {"context": per_cycle["contexts"] / rows, "tokens_per_cycle": per_cycle["committed"] / rows}
    series |= {f"{name}_ms": column for name, column in ms.items() if column.any()}
    return LaunchView(
        "cycles",
        prompts=known,
        totals=totals,
        series=series,
        accepted=_accepted(np.repeat(code, rows), flat["drafted"], flat["accepted"], len(known)),
    )


def _column(ms: Mapping[str, Sequence[float]], name: str, count: int) -> np.ndarray:
    import numpy as np

    return np.asarray(ms[name], dtype=float) if name in ms else np.zeros(count)


def _accepted(code: np.ndarray, drafted: np.ndarray, accepted: np.ndarray, prompts: int) -> np.ndarray | None:
    import numpy as np

    code, drafted, accepted = (values[drafted > 0] for values in (code, drafted, accepted))
    if not len(drafted):
        return None
    found = np.zeros((prompts, int(drafted.max()), 3))
    found[:, :, 2] = np.bincount(code, minlength=prompts)[:, None]
    for position in range(1, found.shape[1] + 1):
        found[:, position - 1, 0] = np.bincount(code[accepted >= position], minlength=prompts)
        chance = (drafted >= position) & (accepted >= position - 1)
        found[:, position - 1, 1] = np.bincount(code[chance], minlength=prompts)
    return found[:, : max(1, int(accepted.max()))]  # of a tree, nodes are more than positions

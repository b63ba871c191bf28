"""Facts about how two runs were measured, from the runs themselves: contexts, paths, course over time, launches."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from wingbeat.investigate import comparable
from wingbeat.investigate.side import LaunchView, Side
from wingbeat.measure.record import ArmFacts
from wingbeat.measure.replicates import two_groups
from wingbeat.measure.series import SHORTEST, Trend, trend

if TYPE_CHECKING:
    from wingbeat.investigate.compare import Comparison

CAPTURED = {"graph", "native", "repeat"}  # paths that are prepared once, and take verify as they take decode
CLOSE = 0.1  # means that differ by less are the same
SHARE = 0.05  # of cycles
SPEEDS = ("cycle_ms", "tokens_per_second")  # by which launches are told apart
FEWEST_LAUNCHES = 5  # on each side, from which a second kind of them would have shown


@dataclass(frozen=True)
class Measured:
    """What one thing was on both sides (None: not known, for this reason)."""

    name: str
    before: Any
    after: Any
    same: bool
    reason: str = ""


def run(found: Comparison) -> Iterator[Measured]:
    """How both sides of a comparison were measured."""
    sides = (found.before, found.after)
    for name, (measure, close, why) in MEASURES.items():
        first, second = map(measure, sides)
        known = first is not None and second is not None
        yield Measured(name, first, second, known and close(first, second), "" if known else why)
    yield _definitions(*sides)
    yield _groups(*sides)


def level(one: Side, name: str) -> float | None:
    """A quantity over all launches of a side, whether or not it may be compared."""
    known = _levels(one, name)
    return statistics.fmean(known) if known else None


def logs(one: Side, name: str) -> list[float]:
    """The logs of a quantity in the launches of a side; none where one of them does not know it."""
    known = _levels(one, name)
    return [math.log(value) for value in known] if all(known) else []


def _levels(one: Side, name: str) -> list[float]:
    known = [value for launch in one.launches if (value := _level(launch, name)) is not None]
    return known if len(known) == len(one.launches) else []


def prefill(one: Side) -> float | None:
    """Milliseconds before the first cycle of a round, else to the first token."""
    rounds = _rounds(one)
    if rounds:
        return statistics.fmean(facts.prefill_ms for facts in rounds) or None
    return level(one, "ttft_ms")


def _rounds(one: Side) -> list[ArmFacts]:
    """What the arm did in every round that counts."""
    return [entry.arms[one.arm] for record in one.records for entry in record.measured() if one.arm in entry.arms]


def _level(launch: LaunchView, name: str) -> float | None:
    if not launch.prompts:
        return launch.levels.get(name)
    sums = {key: float(column.sum()) for key, column in launch.totals.items()}
    if name.endswith("_ms"):
        return sums[name] / sums["cycles"] if name in sums else None
    ratios = {
        "tokens_per_second": 1000 * sums["tokens"] / sums["cycle_ms"],
        "tokens_per_cycle": sums["tokens"] / sums["rows"],
        "requests": sums["rows"] / sums["cycles"],
    }
    return ratios.get(name)


def _context(one: Side) -> float | None:
    means = [launch.mean_context() for launch in one.launches]
    known = [mean for mean in means if mean]
    return round(statistics.fmean(known)) if len(known) == len(means) else None


def _new_tokens(one: Side) -> float | None:
    lengths = [request.new_tokens for facts in _rounds(one) for request in facts.requests]
    return round(statistics.fmean(lengths), 1) if lengths else level(one, "new_tokens")


def _prompts(one: Side) -> str | None:
    known = comparable.asked(one, "sha256")
    return str(known)[:12] if known else None


def _requests(one: Side) -> float | None:
    """How many ran at once: as it was asked for, else in the cycles; a figure alone may be a guess of one."""
    asked = comparable.asked(one, "concurrency")
    return asked if asked or one.evidence == "figures" else level(one, "requests")


def _captured(one: Side) -> float | None:
    """The share of cycles that ran captured."""
    known = _noted(one, "captured")
    if known is not None:
        return known
    paths = _paths(one)
    return None if paths is None else sum(paths[path] for path in paths if path in CAPTURED) / sum(paths.values())


def _noted(one: Side, name: str) -> float | None:
    """The mean of a noted or imported figure, zero among them."""
    launches = [launch for record in one.records for launch in record.launches]
    found = [launch.figures[one.arm][name].value for launch in launches if name in launch.figures.get(one.arm, {})]
    return statistics.fmean(found) if found else None


def _path(one: Side) -> str | None:
    """The path that most cycles took."""
    paths = _paths(one)
    return paths.most_common(1)[0][0] if paths else None


def _paths(one: Side) -> Counter[str] | None:
    found = Counter(path for facts in _rounds(one) for path in facts.cycles.path)
    return found or None


def _width(one: Side) -> float | None:
    """Tokens that a verify took for each request, on average."""
    widths = [width for facts in _rounds(one) for width in facts.cycles.width]
    return round(statistics.fmean(widths), 2) if widths else None


def _spread(one: Side) -> str | None:
    """What is known of the spread behind the averages; None for bare figures."""
    bare = one.evidence == "figures" and not any(launch.ranges for launch in one.launches)
    single = one.evidence == "figures" and len(one.groups) == 1
    return None if bare or single else "kept"


def _course(kinds: set[str]) -> Callable[[Side], str | None]:
    def seen(one: Side) -> str | None:
        found = Counter(kind for launch in one.launches if (kind := _kind(launch)))
        if not found:
            return None
        most = next((kind for kind in kinds if found[kind] > len(one.launches) / 2), None)
        return most or "steady"

    return seen


def drifted(one: Side) -> float:
    """The log ratio by which cycles that became longer within launches made the mean cycle longer."""
    return _longer(
        one, lambda found: {"drift": 0.5, "step": 1 - found.at}.get(found.kind, 0.0) * math.expm1(found.change)
    )


def warmed(one: Side) -> float:
    """The log ratio by which slow first cycles of launches made the mean cycle longer."""
    return _longer(one, lambda found: found.at * math.expm1(-found.change) if found.kind == "warm-up" else 0.0)


def _longer(one: Side, by: Callable[[Trend], float]) -> float:
    """By how much a part of the course made the mean cycle longer, on average over the launches."""
    added = [max(0.0, by(found)) for launch in one.launches if (found := _trend(launch))]
    return math.log1p(statistics.fmean(added)) if added else 0.0


def _kind(launch: LaunchView) -> str | None:
    found = _trend(launch)
    if found is None:
        return None
    with_context = found.context is not None and abs(found.context) > 0.5
    return "steady" if with_context and found.kind == "drift" else found.kind


def _trend(launch: LaunchView) -> Trend | None:
    """How the times of cycles went in a launch; None where there are too few."""
    import numpy as np

    times = launch.series.get("cycle_ms")
    if times is None or np.isfinite(times).sum() < SHORTEST:
        return None
    known = np.isfinite(times) & (times > 0)
    contexts = launch.series.get("context")
    found = trend(times[known], None if contexts is None else contexts[known], 0.03)
    return found or Trend("steady")


def _uneven(one: Side) -> float | None:
    """The share of time in cycles of more than four times the median: compilation, pauses."""
    import numpy as np

    series = [launch.series["cycle_ms"] for launch in one.launches if "cycle_ms" in launch.series]
    times = np.concatenate(series) if series else np.array([])
    times = times[np.isfinite(times)]
    if len(times) < SHORTEST:
        return None
    return round(float(times[times > 4 * np.median(times)].sum() / times.sum()), 3)


def _observer(one: Side) -> str | None:
    """What took the figures, where it is known to be the same for every run."""
    return "wingbeat's own clock" if one.records[0].source == "wingbeat" else None


def _repetition(one: Side) -> float | None:
    """The share of runs of four output tokens that the same output had before."""
    outputs = [request.tokens for facts in _rounds(one) for request in facts.requests if len(request.tokens) > 4]
    runs = [list(zip(*(tokens[start:] for start in range(4)), strict=False)) for tokens in outputs]
    total = sum(map(len, runs))
    return round(1 - sum(len(set(each)) for each in runs) / total, 3) if total else None


def _definitions(before: Side, after: Side) -> Measured:
    """Whether importers say that their figures count the same; what somebody noted says nothing of it."""
    sources = [one.records[0].source for one in (before, after)]
    meant = [comparable.definitions(one) for one in (before, after)]
    shared = [name for name in meant[0] if name in meant[1]]
    others = [name for name in shared if meant[0][name] != meant[1][name]]
    if others:
        first, second = (f"{others[0]}: {side[others[0]]}" for side in meant)
        return Measured("definitions", first, second, False)
    alike = shared or sources[0] == sources[1] != "noted"
    why = "" if alike else "nothing says that they count the same"
    return Measured("definitions", sources[0], sources[1], not why, why)


def _groups(before: Side, after: Side) -> Measured:
    """Whether the launches of both sides fall into two kinds; few of one kind do not say that there is no other."""
    sides = next((both for name in SPEEDS if all(both := [logs(one, name) for one in (before, after)])), None)
    gap = two_groups(sides[0], sides[1]) if sides else None
    kind = "launches of one kind"
    if gap:
        return Measured("groups", kind, f"launches of two kinds, {math.expm1(gap):.0%} apart", False)
    few = sides is None or min(map(len, sides)) < FEWEST_LAUNCHES
    return Measured("groups", kind, kind, not few, f"fewer than {FEWEST_LAUNCHES} launches on a side" if few else "")


def _near(first: float, second: float) -> bool:
    return first == second or (min(first, second) > 0 and abs(math.log(second / first)) < CLOSE)


def _alike(first: float, second: float) -> bool:
    return abs(first - second) < SHARE


def _equal(first: Any, second: Any) -> bool:
    return bool(first == second)


MEASURES: dict[str, tuple[Callable[[Side], Any], Callable[[Any, Any], bool], str]] = {
    "prompts": (_prompts, _equal, "the run does not say which prompts it ran"),
    "context": (_context, _near, "no context lengths were recorded"),
    "new_tokens": (_new_tokens, _near, "no lengths of outputs were recorded"),
    "requests": (_requests, _near, "how many requests ran at once was not recorded"),
    "captured": (_captured, _alike, "whether verify ran captured was not recorded"),
    "path": (_path, _equal, "which path verify took was not recorded"),
    "width": (_width, _near, "how many tokens a verify took was not recorded"),
    "prefix_hits": (lambda one: _noted(one, "prefix_hits"), _alike, "hits of the prefix cache were not recorded"),
    "spread": (_spread, _equal, "a single figure hides its spread"),
    "observer": (_observer, _equal, "whether a profiler ran was not recorded"),
    "warmup": (_course({"warm-up"}), _equal, "too few cycles or samples over time to see warm-up"),
    "drift": (_course({"drift", "step"}), _equal, "too few cycles or samples over time to see drift"),
    "uneven": (_uneven, _alike, "no times of single cycles were recorded"),
    "repetition": (_repetition, _alike, "no outputs were kept"),
}

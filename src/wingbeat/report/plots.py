"""Pictures of runs: cycle time over time and context, phases, acceptance, verify against width, distributions.

Arms have a colour, a brightness and a marker of their own, runs a line style and a hatch, so that every picture reads
without colour as well.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wingbeat.errors import StorageError, UsageError
from wingbeat.measure.record import CycleColumns, RunRecord
from wingbeat.measure.roofline import DRAFT, VERIFY, Ceilings, Profile, Timing
from wingbeat.measure.stats import acceptance

if TYPE_CHECKING:
    import numpy as np
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

ENDINGS = (".png", ".svg", ".pdf")
PARTS = 40  # medians along an axis
MOST_POINTS = 2000  # of a distribution
PHASES = ("draft", "extend", "verify", "accept", "commit", "host")
FILLS = ("#8c8c8c", "#c9c9c9", "#a8cbe8", "#f0b27a", "#f7dcae", "#f7f7f7")
HATCHES = ("", "---", "///", "xxxx", "...", "")
COLOURS = ("#111111", "#1f77b4", "#e07b1f", "#6aa84f", "#9467bd", "#b59a1d")
MARKERS = "osD^vP"
LINES = ("-", "--", ":", "-.")
BODIES = ("", "////", "....", "xxxx")


@dataclass(frozen=True, eq=False)
class Series:
    """One arm of one run, and how it is drawn. arm, run: their numbers among those drawn.

    columns: a value for every cycle (or sample): "time" in seconds, "context", "width", and milliseconds by phase, as
    far as they are known. phases: mean milliseconds by phase. accepted: unconditional acceptance by position.
    """

    label: str
    arm: int
    run: int
    columns: dict[str, np.ndarray]
    phases: dict[str, float]
    accepted: tuple[float, ...]

    @property
    def look(self) -> dict[str, Any]:
        """Colour and marker say which arm, the line style which run."""
        return _look(self.arm, self.run)


@dataclass(frozen=True)
class Panel:
    """One picture: what it is called, which columns a series must have for it, and how it is drawn."""

    title: str
    needs: tuple[str, ...]
    draw: Callable[[Axes, Sequence[Series]], None]

    def takes(self, series: Series) -> bool:
        """Whether the series has what this picture shows."""
        return all(len(series.columns.get(name, ())) or getattr(series, name, None) for name in self.needs)

    def on(self, axes: Axes, shown: Sequence[Series]) -> None:
        """Draws the series, which the picture takes, on the axes."""
        axes.tick_params(labelsize=8)
        self.draw(axes, shown)


def save(runs: Mapping[str, RunRecord], path: Path) -> None:
    """Draws the runs, by name, on one page; what the records do not hold is left out.

    Raises UsageError for an ending that is not .png, .svg or .pdf and where there is nothing to draw, StorageError
    where the file cannot be written.
    """
    check(path)
    _write(draw(runs), path)


def check(path: Path) -> None:
    """Raises UsageError for a picture that could not be written for its ending."""
    if path.suffix not in ENDINGS:
        raise UsageError(f"cannot draw {path.name}: the name must end in {', '.join(ENDINGS)}")


def _write(figure: Figure, path: Path) -> None:
    try:
        figure.savefig(path, dpi=120)
    except OSError as error:
        raise StorageError(f"cannot write {path}: {error.strerror}; choose another place") from error


def draw(runs: Mapping[str, RunRecord]) -> Figure:
    """The page that `save` writes."""
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    series = _series(runs)
    panels = [(panel, shown) for panel in PANELS if (shown := [one for one in series if panel.takes(one)])]
    if not panels:
        raise UsageError(f"nothing to draw in {', '.join(runs) or 'no run'}: it has no cycles, samples or phases")
    columns = min(3, len(panels))
    rows = -(-len(panels) // columns)
    figure = Figure(figsize=(4.8 * columns, 3.5 * rows + 0.5), layout="constrained")
    for place, (panel, shown) in enumerate(panels, start=1):
        axes = figure.add_subplot(rows, columns, place)
        axes.set_title(panel.title, fontsize=10, loc="left")
        panel.on(axes, shown)
    drawn = [one for one in series if any(one in shown for _, shown in panels)]
    handles = [Line2D([], [], label=one.label, **one.look) for one in drawn]
    arms = min(4, len({one.arm for one in drawn}))
    figure.legend(handles=handles, loc="outside lower center", ncols=arms, fontsize=9, frameon=False, handlelength=3)
    return figure


def save_forwards(profile: Profile, path: Path) -> None:
    """Draws a profile's tables, with the least time that the machine's ceilings allow. Raises as `save` does."""
    check(path)
    _write(draw_forwards(profile), path)


def draw_forwards(profile: Profile) -> Figure:
    """What a forward costs by width, and drafting by steps: a colour and marker a path, a line style a context."""
    from matplotlib.figure import Figure

    tables = [
        (title, unit, cells)
        for part, title, unit in (
            (VERIFY, "A forward of the target", "tokens"), (DRAFT, "Drafting a chain", "drafted steps"),
        )
        if (cells := [one for one in profile.timings if one.part == part and one.branches == 1])
    ]  # fmt: skip
    figure = Figure(figsize=(5.4 * len(tables), 5.0), layout="constrained")
    for place, (title, unit, cells) in enumerate(tables, start=1):
        axes = figure.add_subplot(1, len(tables), place)
        axes.set_title(title, fontsize=10, loc="left")
        _forwards(axes, cells, profile.ceilings)
        axes.set_xlabel(unit, fontsize=8)
        axes.set_ylabel("ms", fontsize=8)
    return figure


def _look(kind: int, style: int) -> dict[str, Any]:
    return {
        "color": COLOURS[kind % len(COLOURS)], "marker": MARKERS[kind % len(MARKERS)],
        "linestyle": LINES[style % len(LINES)], "markersize": 4, "linewidth": 1.3,
    }  # fmt: skip


def _forwards(axes: Axes, cells: Sequence[Timing], best: Ceilings) -> None:
    paths = list(dict.fromkeys(one.path for one in cells))
    contexts = sorted({one.context for one in cells})
    for path, context in product(range(len(paths)), range(len(contexts))):
        row = [one for one in cells if (one.path, one.context) == (paths[path], contexts[context])]
        label = f"{paths[path]}, context {contexts[context]}"
        axes.plot([one.width for one in row], [one.ms for one in row], label=label, **_look(path, context))
    for context, marker in {contexts[0]: "|", contexts[-1]: "_"}.items():
        row = [one for one in cells if (one.path, one.context) == (paths[0], context)]
        axes.plot([one.width for one in row], [one.bound_ms(best) for one in row], color="#777777", linewidth=0.8,
                  marker=marker, label=f"least, context {context}")  # fmt: skip
    _from_zero(axes)
    axes.tick_params(labelsize=8)
    axes.legend(fontsize=8, frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.13), ncols=3, handlelength=3.5)


def _series(runs: Mapping[str, RunRecord]) -> list[Series]:
    """All arms of all runs, the runs of an arm one after the other; with one arm in all, runs look as arms do."""
    arms = list(dict.fromkeys(arm for record in runs.values() for arm in record.arms))
    found = []
    for number, (name, record) in enumerate(runs.items()):
        for arm in record.arms:
            label = arm if len(runs) == 1 else f"{name}: {arm}"
            kind = arms.index(arm) if len(arms) > 1 else number
            found.append(of_arm(record, arm, label, (kind, number)))
    return sorted(found, key=lambda one: (one.arm, one.run))


def of_arm(record: RunRecord, arm: str, label: str, look: tuple[int, int]) -> Series:
    """One arm of a record. look: the numbers of an arm and of a run, which say how it is drawn."""
    cycles = [entry.arms[arm].cycles for entry in record.measured() if arm in entry.arms]
    columns = _columns(cycles) if cycles else _samples(record, arm)
    phases = _phases(columns) or _figures(record, arm, [f"{phase}_ms" for phase in PHASES])
    return Series(label, *look, columns, phases, _accepted(record, arm, cycles))


def _columns(cycles: Sequence[CycleColumns]) -> dict[str, np.ndarray]:
    """All cycles of an arm as arrays. A context is the mean over the requests of a cycle."""
    import numpy as np

    names = dict.fromkeys(name for one in cycles for name in one.ms)
    found = {name: np.concatenate([one.ms.get(name, np.zeros(len(one))) for one in cycles]) for name in names}
    found["width"] = np.concatenate([one.width for one in cycles])
    found["time"] = np.concatenate([one.time for one in cycles])
    ends = [np.asarray(one.contexts.ends) for one in cycles]
    sums = [np.append(0, np.cumsum(one.contexts.flat)) for one in cycles]
    totals = [np.diff(total[np.append(0, end)]) for total, end in zip(sums, ends, strict=True)]
    found["context"] = np.concatenate(totals) / np.concatenate([np.diff(end, prepend=0) for end in ends])
    if len(found["time"]) != len(found["width"]):  # records of schema 1 have neither times nor the host's share
        found["time"] = np.cumsum(found["cycle"]) / 1000
        found["host"] = found["cycle"] - sum(found[name] for name in names if name != "cycle")
    return found


def _samples(record: RunRecord, arm: str) -> dict[str, np.ndarray]:
    """Samples over time of an imported run, NaN where one is missing; a column without any is left out."""
    import numpy as np

    names = {"time_s": "time", "context": "context", **{f"{phase}_ms": phase for phase in ("cycle", *PHASES)}}
    parts = [launch.samples.get(arm, {}) for launch in record.launches]
    known = {name for name in names if parts and all(name in part for part in parts)}
    table = {
        names[name]: np.array([value for part in parts for value in part[name]], dtype=float) for name in sorted(known)
    }
    return {name: column for name, column in table.items() if np.isfinite(column).any()}


def _phases(columns: Mapping[str, np.ndarray]) -> dict[str, float]:
    import numpy as np

    return {name: float(np.nanmean(columns[name])) for name in PHASES if len(columns.get(name, ()))}


def _figures(record: RunRecord, arm: str, names: Sequence[str]) -> dict[str, float]:
    """Means over launches of figures that were noted, without their unit's ending."""
    found: dict[str, list[float]] = {}
    for launch in record.launches:
        noted = launch.figures.get(arm, {})
        for name in names:
            if name in noted:
                found.setdefault(name.removesuffix("_ms"), []).append(noted[name].value)
    return {name: sum(values) / len(values) for name, values in found.items()}


def _accepted(record: RunRecord, arm: str, cycles: Sequence[CycleColumns]) -> tuple[float, ...]:
    if cycles:
        drafted, accepted = ([n for one in cycles for n in getattr(one, name).flat] for name in ("drafted", "accepted"))
        found = acceptance(drafted, accepted)
        return found.unconditional if found else ()
    noted = _figures(record, arm, [f"acceptance_{place}" for place in range(1, 65)])
    return tuple(noted[name] for name in sorted(noted, key=lambda name: int(name.rpartition("_")[2])))


def _medians(axes: Axes, series: Series, along: str, value: str) -> None:
    """Medians of equally many neighbours along a column, with the band between their quartiles."""
    import numpy as np

    where, what = series.columns[along], series.columns[value]
    known = np.flatnonzero(np.isfinite(where) & np.isfinite(what))
    order = known[np.argsort(where[known], kind="stable")]
    parts = np.array_split(order, min(PARTS, len(order)))
    x = [float(np.median(where[part])) for part in parts]
    low, middle, high = np.array([np.quantile(what[part], (0.25, 0.5, 0.75)) for part in parts]).T
    axes.plot(x, middle, **{**series.look, "markersize": 2.5})
    axes.fill_between(x, low, high, color=series.look["color"], alpha=0.18, linewidth=0)


def _over(along: str, unit: str) -> Callable[[Axes, Sequence[Series]], None]:
    def panel(axes: Axes, shown: Sequence[Series]) -> None:
        for one in shown:
            _medians(axes, one, along, "cycle")
        _from_zero(axes)
        axes.set_xlabel(unit, fontsize=8)
        axes.set_ylabel("ms a cycle", fontsize=8)

    return panel


def _stack(axes: Axes, shown: Sequence[Series]) -> None:
    ends = [0.0] * len(shown)
    for phase, fill, hatch in zip(PHASES, FILLS, HATCHES, strict=True):
        widths = [one.phases.get(phase, 0.0) for one in shown]
        if any(widths):
            axes.barh(range(len(shown)), widths, 0.6, ends, color=fill, hatch=hatch, edgecolor="#222222",
                      linewidth=0.5, label=phase)  # fmt: skip
            ends = [end + width for end, width in zip(ends, widths, strict=True)]
    _name_rows(axes, shown)
    axes.set_xlabel("mean ms a cycle", fontsize=8)
    axes.set_ylim(max(len(shown), 3) - 0.4, -1.1 - 0.12 * len(shown))
    axes.legend(fontsize=8, ncols=3, loc="upper left", frameon=False)


def _acceptance(axes: Axes, shown: Sequence[Series]) -> None:
    for one in shown:
        axes.plot(range(1, len(one.accepted) + 1), one.accepted, **one.look)
    axes.set_ylim(0, 1)
    axes.set_xticks(range(1, max(len(one.accepted) for one in shown) + 1))
    axes.set_xlabel("drafted position", fontsize=8)
    axes.set_ylabel("accepted, share of all drafts (unconditional)", fontsize=8)


def _widths(axes: Axes, shown: Sequence[Series]) -> None:
    import numpy as np
    from matplotlib.ticker import MaxNLocator

    for place, one in enumerate(shown):
        widths = np.unique(one.columns["width"])
        verify = [one.columns["verify"][one.columns["width"] == width] for width in widths]
        low, middle, high = np.array([np.quantile(values, (0.25, 0.5, 0.75)) for values in verify]).T
        aside = 0.06 * (place - (len(shown) - 1) / 2)  # what lies at one width lies side by side
        axes.errorbar(widths + aside, middle, (middle - low, high - middle), capsize=3, **one.look)
    _from_zero(axes)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    axes.set_xlim(axes.dataLim.xmin - 0.5, axes.dataLim.xmax + 0.5)
    axes.set_xlabel("tokens verified", fontsize=8)
    axes.set_ylabel("ms of verify", fontsize=8)


def _distribution(axes: Axes, shown: Sequence[Series]) -> None:
    """A violin a series, from the 1st to the 99th percentile, with median and quartiles."""
    import numpy as np

    for place, one in enumerate(shown):
        cycle = one.columns["cycle"][np.isfinite(one.columns["cycle"])]
        values = np.quantile(cycle, np.linspace(0.01, 0.99, min(MOST_POINTS, len(cycle))))
        if np.ptp(values) > 0:
            parts: Any = axes.violinplot(values, [place], orientation="horizontal", widths=0.8, showextrema=False)
            look = {"facecolor": one.look["color"], "hatch": BODIES[one.run % len(BODIES)]}
            parts["bodies"][0].set(edgecolor="#222222", alpha=0.45, **look)
        low, middle, high = np.quantile(cycle, (0.25, 0.5, 0.75))
        axes.plot([low, high], [place, place], color="#111111", linewidth=3, solid_capstyle="butt")
        axes.plot([middle], [place], "o", color="white", markeredgecolor="#111111", markersize=6)
    _name_rows(axes, shown)
    axes.set_ylim(max(len(shown), 3) - 0.4, -0.6)
    axes.set_xlabel("ms a cycle, 1st to 99th percentile; dot: median, bar: quartiles", fontsize=8)


def _from_zero(axes: Axes) -> None:
    axes.set_ylim(0, 1.08 * axes.dataLim.ymax)


def _name_rows(axes: Axes, shown: Sequence[Series]) -> None:
    axes.set_yticks(range(len(shown)), [one.label for one in shown])


PANELS = (
    Panel("Cycle time over time", ("time", "cycle"), _over("time", "s since the start of the launch")),
    Panel("Cycle time over context", ("context", "cycle"), _over("context", "tokens in the cache")),
    Panel("Phases of a cycle", ("phases",), _stack),
    Panel("Acceptance by position", ("accepted",), _acceptance),
    Panel("Verify against width", ("width", "verify"), _widths),
    Panel("Distribution of cycle time", ("cycle",), _distribution),
)

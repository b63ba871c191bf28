"""The picture for the README: tokens a second of every arm, and of the main ones by question set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from peers import figures
from wingbeat.measure.stats import spread

OURS, OTHERS = "#1f6f8b", ("#b8b8b8", "#8d8d8d", "#d9a441")


def save(record: Mapping[str, Any], file: Path) -> None:
    """Draws the units of one prompt; the ending of `file` says in what format."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    units, _ = figures.split(record["units"])
    drawn, (left, right) = pyplot.subplots(1, 2, figsize=(12, 4.5), layout="constrained", width_ratios=(1, 1.3))
    _arms(left, units)
    _sets(right, units)
    machine, settings = record["machine"], record["settings"]
    drawn.suptitle(
        f"SmolLM2-135M-Instruct, greedy, {machine['processor']}, {len(settings['cores'])} cores, {machine['date']}",
        fontsize=10,
    )
    drawn.savefig(file, dpi=150)
    pyplot.close(drawn)


def _arms(axes: Any, units: Sequence[figures.Unit]) -> None:
    values = {label: figures.speeds(units, label) for label in figures.labels(units)}
    around = {label: spread(found) for label, found in values.items() if found}
    names = sorted(around, key=lambda label: around[label].median)
    middle = [around[name].median for name in names]
    errors = [[around[n].median - around[n].low for n in names], [around[n].high - around[n].median for n in names]]
    colours = [OURS if name.startswith("wingbeat") else OTHERS[0] for name in names]
    axes.barh(names, middle, color=colours, xerr=errors, error_kw={"lw": 1, "ecolor": "#444444"})
    axes.set_xlabel("tokens a second (median, quartiles)")
    axes.spines[["top", "right"]].set_visible(False)


def _sets(axes: Any, units: Sequence[figures.Unit]) -> None:
    sets = list(dict.fromkeys(unit["set"] for unit in units))
    chosen = (figures.EAGLE, figures.PLAIN, figures.LLAMA, figures.best(units, figures.VLLM_EAGLE))
    shown = [label for label in chosen if figures.speeds(units, label)]
    width = 0.8 / max(len(shown), 1)
    for place, label in enumerate(shown):
        speeds = [figures.speeds([u for u in units if u["set"] == name], label) for name in sets]
        heights = [median(found) if found else 0.0 for found in speeds]
        colour = {figures.EAGLE: OURS, figures.PLAIN: "#8fb8c6", figures.LLAMA: OTHERS[1]}.get(label, OTHERS[2])
        axes.bar([i + (place - (len(shown) - 1) / 2) * width for i in range(len(sets))], heights, width, label=label,
                 color=colour)
    axes.set_xticks(range(len(sets)), sets)
    axes.set_ylabel("tokens a second (median)")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, ncols=len(shown), fontsize=8, loc="lower center", bbox_to_anchor=(0.5, 1.0))

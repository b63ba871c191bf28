"""The figures of a run that was noted or imported: one table a launch, with the ranges that are known."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from wingbeat.measure.record import Figure, RunRecord
from wingbeat.report.table import columns, paragraph

ABSENT = "-"


def render(record: RunRecord) -> str:
    """Heading and tables as text; what is not known is a dash."""
    parts = [paragraph(_heading(record))]
    for number, launch in enumerate(record.launches, start=1):
        title = f"launch {number}" if len(record.launches) > 1 else ""
        names = list(dict.fromkeys(name for named in launch.figures.values() for name in named))
        arms = list(launch.figures)
        units = {name: one.unit for named in launch.figures.values() for name, one in named.items()}
        rows = [[_label(name, units[name]), *(_cell(launch.figures[arm].get(name)) for arm in arms)] for name in names]
        parts.append(columns([title, *arms], rows))
    return "\n\n".join(parts)


def document(record: RunRecord) -> dict[str, Any]:
    """The same for a program: settings, workload, and for each launch its figures by arm and name."""
    found = [
        {arm: {name: asdict(one) for name, one in named.items()} for arm, named in launch.figures.items()}
        for launch in record.launches
    ]
    return {"requested": record.requested, "workload": record.workload, "source": record.source, "launches": found}


def _heading(record: RunRecord) -> str:
    known = "; ".join(f"{name} {value}" for name, value in record.requested.items() if isinstance(value, str))
    return f"{record.name}, {record.source}, {record.created}.{f' {known}.' if known else ''}"


def _label(name: str, unit: str) -> str:
    return name if unit in ("", "1") or name.endswith((f"_{unit}", "_per_second")) else f"{name} ({unit})"


def _cell(figure: Figure | None) -> str:
    if figure is None:
        return ABSENT
    known = figure.low is not None and figure.high is not None
    return f"{figure.value:.6g}" + (f" ({figure.low:.6g} to {figure.high:.6g})" if known else "")

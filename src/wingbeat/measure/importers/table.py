"""CSV with named columns: the names of figures here, one row a measurement, over time.

A column "arm" tells arms apart, a column "launch" processes. An empty cell is unknown.
"""

from __future__ import annotations

import csv
import io

from wingbeat.errors import UsageError
from wingbeat.measure.importers import evidence as ev

NAME, TITLE = "csv", f"CSV with named columns: {', '.join(ev.UNITS)}, acceptance_1, ..., and arm, launch"

_PLACES = ("arm", "launch")


def looks_like(text: str) -> bool:
    """Whether the first line names at least one known column, and is a list of names."""
    header = _cells(text.lstrip().partition("\n")[0])
    return any(ev.unit(name) for name in header) and all(name and " " not in name for name in header)


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in next(csv.reader([line]), [])]


def read(text: str) -> ev.Reading:
    """One launch and arm for each value of those columns. Raises UsageError for a table without a known column."""
    reader = csv.reader(io.StringIO(text.lstrip()))
    header = [name.strip() for name in next(reader, [])]
    known = [name for name in header if ev.unit(name)]
    if not known:
        raise UsageError(f"no column has a known name; name at least one of them: {', '.join(ev.UNITS)}")
    if len(set(header)) < len(header):
        raise UsageError("two columns have the same name; rename one")
    launches: dict[str, dict[str, list[ev.Row]]] = {}
    skipped = 0
    for cells in reader:
        row = dict(zip(header, cells, strict=False))
        numbers = _numbers(row, known) if len(cells) == len(header) else None
        if numbers is None:
            skipped += bool(cells)
            continue
        launch, arm = row.get("launch", ""), row.get("arm", "")
        launches.setdefault(launch, {}).setdefault(arm, []).append(numbers)
    used = sum(len(rows) for arms in launches.values() for rows in arms.values())
    others = [name for name in header if name not in known and name not in _PLACES]
    notes = [f"columns without a known name are left out: {', '.join(others)}"] if others else []
    return ev.Reading([[_arm(*arm) for arm in arms.items()] for arms in launches.values()], used, skipped, notes)


def _numbers(row: dict[str, str], known: list[str]) -> ev.Row | None:
    """None: a cell is no number."""
    try:
        cells = {name: float(row[name]) if row[name].strip() else None for name in known}
    except ValueError:
        return None
    return {name: ev.number(value) for name, value in cells.items()}


def _arm(name: str, rows: list[ev.Row]) -> ev.Evidence:
    made = ev.Evidence(name.strip(), samples=ev.columns(rows))
    for column, values in made.samples.items():
        if column != "time_s":
            made.put(column, ev.median(column, values), "as the table's author means it", "median of rows")
    return made

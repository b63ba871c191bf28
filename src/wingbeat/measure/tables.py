"""A record as flat tables, for other programs: one row a cycle and request, a request, a sample or a figure."""

from __future__ import annotations

import csv
import dataclasses
import json
from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from wingbeat.errors import StorageError, UsageError
from wingbeat.measure.columns import Rows
from wingbeat.measure.record import RunRecord

Row = dict[str, Any]
FORMATS = (".json", ".csv", ".parquet")


def export(record: RunRecord, path: Path, table: str | None = None) -> None:
    """Writes the record to `path` by its ending: .json (all of it, as one document), .csv or .parquet (one table).

    table: one of TABLES, by default the first that is not empty. Raises UsageError for another ending, an empty table
    or where pyarrow is missing, StorageError where the file cannot be written.
    """
    if path.suffix not in FORMATS:
        raise UsageError(f"cannot export to {path.name}; end it in {', '.join(FORMATS)}")
    if path.suffix == ".json" and table:
        raise UsageError("a .json export holds the whole record; leave --table out, or export to .csv")
    try:
        if path.suffix == ".json":
            path.write_text(json.dumps(document(record)), encoding="utf-8")
        else:
            found = _columns(record, table)
            (_write_csv if path.suffix == ".csv" else _write_parquet)(found, path)
    except OSError as error:
        raise StorageError(f"cannot write {path}: {error.strerror}; choose another place") from error


def document(record: RunRecord) -> Row:
    """The whole record as plain JSON values, columns as lists."""
    return _plain({name: value for name, value in vars(record).items() if name != "damage"})


def cycles(record: RunRecord) -> Iterator[Row]:
    """One row for every request in every cycle."""
    for place, arm, facts in _facts(record):
        columns = facts.cycles
        for index in range(len(columns)):
            whole = {f"{name}_ms": column[index] for name, column in columns.ms.items()}
            time_s = columns.time[index] if columns.time else None
            shared = {**place, "arm": arm, "cycle": index, "time_s": time_s}
            rows = (columns.contexts, columns.drafted, columns.accepted, columns.committed)
            for request, (context, drafted, accepted, committed) in enumerate(
                zip(*(column[index] for column in rows), strict=True)
            ):
                own = {"request": request, "context": context, "drafted": drafted, "accepted": accepted}
                yield {**shared, **own, "committed": committed, "width": columns.width[index],
                       "path": columns.path[index], **whole}  # fmt: skip


def requests(record: RunRecord) -> Iterator[Row]:
    """One row a request, without its tokens."""
    for place, arm, facts in _facts(record):
        for number, request in enumerate(facts.requests):
            own = {name: value for name, value in vars(request).items() if name != "tokens"}
            yield {**place, "arm": arm, "request": number, **own, "seconds": facts.seconds}


def samples(record: RunRecord) -> Iterator[Row]:
    """One row a sample of an imported log."""
    for number, launch in enumerate(record.launches, start=1):
        for arm, named in launch.samples.items():
            for values in zip(*named.values(), strict=True):
                yield {"launch": number, "arm": arm, **dict(zip(named, values, strict=True))}


def figures(record: RunRecord) -> Iterator[Row]:
    """One row a figure."""
    for number, launch in enumerate(record.launches, start=1):
        for arm, named in launch.figures.items():
            for name, one in named.items():
                yield {"launch": number, "arm": arm, "figure": name, **vars(one)}


TABLES = {"cycles": cycles, "requests": requests, "samples": samples, "figures": figures}


def _facts(record: RunRecord) -> Iterator[tuple[Row, str, Any]]:
    """Where it belongs, arm and facts of everything that was run."""
    for launch_number, launch in enumerate(record.launches, start=1):
        for round_number, entry in enumerate(launch.rounds, start=1):
            place = {"launch": launch_number, "round": round_number, "prompt": entry.prompt,
                     "category": entry.category, "repeat": entry.repeat, "warmup": entry.warmup}  # fmt: skip
            yield from ((place, arm, entry.arms[arm]) for arm in entry.order)


def _columns(record: RunRecord, table: str | None) -> dict[str, list[Any]]:
    """A table as columns, None where a row lacks one."""
    for name in [table] if table else TABLES:
        rows = list(TABLES[name](record))
        if rows:
            names = dict.fromkeys(key for row in rows for key in row)
            return {key: [row.get(key) for row in rows] for key in names}
    raise UsageError(f"{record.name} has no {table or 'rows of any table'}: nothing to export")


def _write_csv(columns: dict[str, list[Any]], path: Path) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))


def _write_parquet(columns: dict[str, list[Any]], path: Path) -> None:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError as error:
        raise UsageError("a .parquet export needs pyarrow; install it, or export to .csv") from error
    parquet.write_table(pyarrow.table(columns), path)


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value):
        return _plain(vars(value))
    if isinstance(value, dict):
        return {name: _plain(inner) for name, inner in value.items()}
    if isinstance(value, array):
        return value.tolist()
    return [_plain(inner) for inner in value] if isinstance(value, list | tuple | Rows) else value

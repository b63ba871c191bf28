"""A record as flat tables, for other programs: one row a cycle and request, a request, a sample or a figure."""

from __future__ import annotations

import csv
import dataclasses
import json
from array import array
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from wingbeat.errors import StorageError, UsageError
from wingbeat.measure.columns import Rows
from wingbeat.measure.record import ArmFacts, RunRecord

Block = dict[str, list[Any]]  # some rows of a table, as columns of equal length
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
            found = columns(record, table)
            (_write_csv if path.suffix == ".csv" else _write_parquet)(found, path)
    except OSError as error:
        raise StorageError(f"cannot write {path}: {error.strerror}; choose another place") from error


def document(record: RunRecord) -> dict[str, Any]:
    """The whole record as plain JSON values, columns as lists."""
    return _plain({name: value for name, value in vars(record).items() if name != "damage"})


def cycles(record: RunRecord) -> Iterator[Block]:
    """One row for every request in every cycle."""
    for place, facts in _facts(record):
        columns = facts.cycles
        counts = columns.contexts.counts()
        of_cycles = {
            "cycle": range(len(columns)), "time_s": columns.time, "width": columns.width, "path": columns.path,
            **{f"{name}_ms": column for name, column in columns.ms.items()},
        }  # fmt: skip
        of_requests = {
            "request": [number for count in counts for number in range(count)],
            "context": columns.contexts.flat, "drafted": columns.drafted.flat,
            "accepted": columns.accepted.flat, "committed": columns.committed.flat,
        }  # fmt: skip
        yield {
            **{name: [value] * len(columns.contexts.flat) for name, value in place.items()},
            **{name: list(column) for name, column in of_requests.items()},
            **{name: _repeated(column, counts) for name, column in of_cycles.items() if column},
        }


def _repeated(column: Iterable[Any], counts: Iterable[int]) -> list[Any]:
    return [value for value, count in zip(column, counts, strict=True) for _ in range(count)]


def requests(record: RunRecord) -> Iterator[Block]:
    """One row a request, without its tokens."""
    for place, facts in _facts(record):
        for number, request in enumerate(facts.requests):
            own = {name: value for name, value in vars(request).items() if name != "tokens"}
            yield _row({**place, "request": number, **own, "seconds": facts.seconds})


def samples(record: RunRecord) -> Iterator[Block]:
    """One row a sample of an imported log."""
    for number, launch in enumerate(record.launches, start=1):
        for arm, named in launch.samples.items():
            size = len(next(iter(named.values()), ()))
            yield {"launch": [number] * size, "arm": [arm] * size, **named}


def figures(record: RunRecord) -> Iterator[Block]:
    """One row a figure."""
    for number, launch in enumerate(record.launches, start=1):
        for arm, named in launch.figures.items():
            for name, one in named.items():
                yield _row({"launch": number, "arm": arm, "figure": name, **vars(one)})


TABLES = {"cycles": cycles, "requests": requests, "samples": samples, "figures": figures}


def _row(values: dict[str, Any]) -> Block:
    return {name: [value] for name, value in values.items()}


def _facts(record: RunRecord) -> Iterator[tuple[dict[str, Any], ArmFacts]]:
    """Everything that was run, with where it belongs."""
    for launch_number, launch in enumerate(record.launches, start=1):
        for round_number, entry in enumerate(launch.rounds, start=1):
            place = {"launch": launch_number, "round": round_number, "prompt": entry.prompt,
                     "category": entry.category, "repeat": entry.repeat, "warmup": entry.warmup}  # fmt: skip
            yield from (({**place, "arm": arm}, entry.arms[arm]) for arm in entry.order)


def columns(record: RunRecord, table: str | None = None) -> Block:
    """A table whole, None where a row lacks a value; by default the first of TABLES that has rows.

    Raises UsageError where there are none.
    """
    for name in [table] if table else TABLES:
        whole: Block = {}
        length = 0
        for block in TABLES[name](record):
            size = len(next(iter(block.values())))
            for new in [name for name in block if name not in whole]:
                whole[new] = [None] * length
            for known, column in whole.items():
                column.extend(block.get(known) or [None] * size)
            length += size
        if length:
            return whole
    raise UsageError(f"{record.name} has no {table or 'rows of any table'}: nothing to export")


def _write_csv(table: Block, path: Path) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(table)
        writer.writerows(zip(*table.values(), strict=True))


def _write_parquet(table: Block, path: Path) -> None:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError as error:
        raise UsageError("a .parquet export needs pyarrow; install it, or export to .csv") from error
    parquet.write_table(pyarrow.table(table), path)


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value):
        return _plain(vars(value))
    if isinstance(value, dict):
        return {name: _plain(inner) for name, inner in value.items()}
    if isinstance(value, array):
        return value.tolist()
    return [_plain(inner) for inner in value] if isinstance(value, list | tuple | Rows) else value

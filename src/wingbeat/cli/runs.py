"""`wingbeat runs`: the runs of a store. No torch, no model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from wingbeat.cli import options
from wingbeat.cli.display import show as show_record
from wingbeat.cli.runs_import import import_files
from wingbeat.cli.runs_new import new
from wingbeat.errors import CheckpointError
from wingbeat.measure import fingerprints, record, store

app = typer.Typer(no_args_is_help=True, help="List, show, rename, remove and export saved runs, and note new ones.")
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document at the end.")]


@app.callback()
def runs() -> None:
    """List, show, rename, remove and export saved runs, and note new ones."""


@app.command("list")
def list_runs(store_named: options.Store = None, as_json: AsJson = False) -> None:
    """List the runs of a store."""
    from wingbeat.report.table import columns

    folder = options.store_folder(store_named)
    found = [_line(path) for path in store.paths(folder)]
    if as_json:
        print(json.dumps({"store": str(folder), "runs": found}))
        return
    print(f"{len(found)} run{'s' * (len(found) != 1)} in {folder}")
    names = ["name", "created", "source", "launches", "arms"]
    rows = [[line[name] for name in names] for line in found if "error" not in line]
    if rows:
        print("\n" + columns(names, rows))
    for line in found:
        if "error" in line:
            print(f"\n{line['name']} cannot be read: {line['error']}")


@app.command()
def show(run: options.Run, store_named: options.Store = None, as_json: AsJson = False) -> None:
    """Print the report of a run, finished or interrupted."""
    found, path = options.open_run(run, store_named)
    show_record(found, path, as_json)


@app.command()
def rename(
    run: options.Run,
    new_name: Annotated[str, typer.Argument(help="Its new name.")],
    store_named: options.Store = None,
) -> None:
    """Give a run another name."""
    print(store.rename(options.store_folder(store_named), run, new_name))


@app.command()
def remove(
    names: Annotated[list[str], typer.Argument(metavar="RUN...", help="Runs: names in the store, or files.")],
    store_named: options.Store = None,
) -> None:
    """Delete runs."""
    for name in names:
        print(f"removed {store.remove(options.store_folder(store_named), name)}")


@app.command()
def export(
    run: options.Run,
    out: Annotated[Path, typer.Argument(help="File to write: .json (all), .csv or .parquet (one table).")],
    table: Annotated[
        Literal["cycles", "requests", "samples", "figures"] | None,
        typer.Option(help="What the rows are; by default the first of these that the run has."),
    ] = None,
    store_named: options.Store = None,
) -> None:
    """Write a run for other programs."""
    from wingbeat.measure import tables

    found, _ = options.open_run(run, store_named)
    tables.export(found, out, table)
    print(out)


@app.command("add-fingerprint")
def add_fingerprint(
    run: options.Run,
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="What `wingbeat fingerprint --out` wrote.")],
    store_named: options.Store = None,
) -> None:
    """Put a fingerprint into a run that has none; or readings under load beside the one that it has."""
    path = store.find(options.store_folder(store_named), run)
    found = record.load(path)
    fingerprints.attach(found, files)
    record.save(found, path)
    print(path)


app.command()(new)
app.command("import")(import_files)


def _line(path: Path) -> dict[str, Any]:
    """What the list says of a run."""
    try:
        run = record.load(path, partial=True)
    except CheckpointError as error:
        return {"name": path.stem, "error": str(error)}
    done = sum(launch.finished for launch in run.launches)
    return {
        "name": path.stem, "created": run.created[:19], "source": run.source,
        "launches": (str(done) if run.finished else f"{done} of {run.asked_launches}") + ", damaged" * bool(run.damage),
        "arms": ", ".join(run.arms),
    }  # fmt: skip

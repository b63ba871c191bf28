"""`wingbeat runs`: look at records. No torch, no model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from wingbeat.cli.display import show as show_record
from wingbeat.measure import record

app = typer.Typer(no_args_is_help=True, help="Look at saved runs.")


@app.callback()
def runs() -> None:
    """Look at saved runs."""


@app.command()
def show(
    path: Annotated[Path, typer.Argument(help="A record, as bench writes it.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print the figures as one JSON document at the end.")] = False,
) -> None:
    """Print the report of a saved run, finished or interrupted."""
    show_record(record.load(path), path, as_json)

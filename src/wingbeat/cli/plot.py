"""`wingbeat plot`: pictures of saved runs. No torch, no model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from wingbeat.cli import options


def plot(
    runs: Annotated[list[str], typer.Argument(help="Runs, by name or file; several are drawn side by side.")],
    out: Annotated[Path, typer.Option(help="Picture to write, .png, .svg or .pdf.")] = Path("wingbeat.png"),
    store_named: options.Store = None,
) -> None:
    """Draw runs: cycle time over time and context, phases, acceptance, verify against width, distributions."""
    from wingbeat.report import plots

    plots.check(out)
    found = {run: options.open_run(run, store_named) for run in runs}
    short = {path.stem for _, path in found.values()}
    plots.save({path.stem if len(short) == len(found) else run: one for run, (one, path) in found.items()}, out)
    print(out)

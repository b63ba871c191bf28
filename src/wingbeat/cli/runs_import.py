"""`wingbeat runs import`: what other programs measured, as a run."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Annotated

import typer

from wingbeat.cli import options
from wingbeat.cli.display import show
from wingbeat.measure import fingerprints, importers, record, store


def import_files(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="One launch each; of /metrics two scrapes.")],
    name: Annotated[str | None, typer.Option(help="The run's name; by default the first file's.")] = None,
    format_named: Annotated[
        str | None, typer.Option("--format", help="The format, where it is not found out by itself.")
    ] = None,
    arm: Annotated[str, typer.Option(help="The arm's name; plain is decoding without drafts.")] = "",
    seconds: Annotated[float | None, typer.Option(help="Time between two scrapes of /metrics, for rates.")] = None,
    fingerprint: options.Fingerprint = None,
    store_named: options.Store = None,
) -> None:
    """Make a run from logs and results of SGLang, vLLM, AIPerf and llama.cpp, or from CSV; what they do not say stays
    unknown."""
    chosen = name or re.sub(r"[^A-Za-z0-9._+-]+", "-", files[0].stem).strip("-._+")
    path = store.new_path(options.store_folder(store_named), chosen)
    source, reading = importers.read(files, format_named, seconds)
    run = importers.to_record(reading, source, files, chosen, arm)
    if fingerprint:
        fingerprints.attach(run, fingerprint)
    record.save(run, path)
    show(run, path, as_json=False)
    if reading.skipped:
        every = reading.used + reading.skipped
        print(f"wingbeat: {reading.skipped} of {every} entries are damaged and were skipped", file=sys.stderr)

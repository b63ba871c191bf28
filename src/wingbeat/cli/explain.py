"""`wingbeat explain`: whether speculation pays in one run, and what would have to change. No torch, no model."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from wingbeat.cli import options
from wingbeat.cli.compare import label, split


def explain(
    run: Annotated[str, typer.Argument(help="A run: its name in the store, or its file; RUN:ARM for one arm.")],
    same_within: Annotated[float, typer.Option(min=0.1, max=50, help="Changes up to so many percent are none.")] = 3.0,
    store_named: options.Store = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document instead.")] = False,
) -> None:
    """Say whether speculation pays in a run, why or why not, and what would have to change."""
    from wingbeat.investigate import explain as explaining
    from wingbeat.investigate.side import common_arm
    from wingbeat.report import explain as report

    name, arm = split(run)
    record, _ = options.open_run(name, store_named)
    found = explaining.explain(label(name, arm), record, arm or common_arm([record]), same_within / 100)
    print(json.dumps(report.document(found)) if as_json else report.render(found))

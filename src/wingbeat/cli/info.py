"""`wingbeat info`: what a model or a draft head on disk is, without reading its weights."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from wingbeat.cli import options


def info(
    path: Annotated[str | None, typer.Argument(help="Model or head directory, .gguf file or hub id.")] = None,
    model: options.Model = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document instead of a table.")] = False,
) -> None:
    """Show what a model or draft head is: sizes, taps, vocabulary, flags, and what was assumed about it.

    Without a path: the default model. With --model, a head is checked against that model.
    """
    from wingbeat.model import weights

    target = weights.read_target_config(weights.locate_model(model)) if model else None
    facts = weights.describe(weights.locate_model(path), target)
    if as_json:
        print(json.dumps(facts))
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(show_header=False, box=None)
    for name, value in facts.items():
        table.add_row(name, Text(_text(value), overflow="fold"))
    Console().print(table)


def _text(value: object) -> str:
    """A value as a person reads it: thousands apart, yes and no, list items one after the other."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.1%}"
    if isinstance(value, list):
        return ("\n" if any(isinstance(item, str) for item in value) else ", ").join(map(str, value)) or "none"
    return f"{value:,}" if isinstance(value, int) else str(value)

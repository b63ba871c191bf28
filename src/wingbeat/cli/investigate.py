"""`wingbeat investigate`: why two runs differ, by elimination. No torch, no model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from wingbeat.cli import options
from wingbeat.cli.compare import USAGE, label, split, two_sides
from wingbeat.errors import StorageError, UsageError, WingbeatError

if TYPE_CHECKING:
    from wingbeat.investigate.side import Side

CODES = {"no change": 0, "cause": 1, "several causes": 1, "nothing observable changed": 2, "cannot tell": 2}


def investigate(
    before: Annotated[str, typer.Argument(help="A run: its name in the store, or its file; RUN:ARM for one arm.")],
    after: Annotated[str, typer.Argument(help="The run that is slower or faster.")],
    tried: Annotated[
        list[str] | None, typer.Option(help="CAUSE=RUN: a run like the second, with this one thing put back.")
    ] = None,
    run_experiments: Annotated[
        bool, typer.Option("--run-experiments", help="Make the deciding re-runs here and now, if they can be made.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask before running them.")] = False,
    same_within: Annotated[float, typer.Option(min=0.1, max=50, help="Changes up to so many percent are none.")] = 3.0,
    style: Annotated[
        Literal["text", "markdown", "html", "json"], typer.Option("--format", help="How to write it; html: one page.")
    ] = "text",
    out: Annotated[Path | None, typer.Option(help="File to write to, instead of the terminal.")] = None,
    store_named: options.Store = None,
) -> None:
    """Say why two runs differ: every cause held against fingerprints, settings and figures, and what to run next.

    Exit codes: 0 no change, 1 a cause was found, 2 nothing observable changed or cannot tell, 4 wrong usage or
    unreadable run.
    """
    from wingbeat.cli import rerun
    from wingbeat.investigate import case
    from wingbeat.report import investigate as report
    from wingbeat.report import page

    try:
        sides = two_sides(before, after, store_named)
        interventions = dict(_intervention(text, sides[1].arm, store_named) for text in tried or [])
        found = case.investigate(*sides, same_within / 100, interventions)
        if run_experiments:
            found = rerun.run(found, interventions, store_named, yes)
        write = {
            "text": report.render, "markdown": report.markdown, "html": page.render,
            "json": lambda it: json.dumps(report.document(it)),
        }  # fmt: skip
        _put(write[style](found), out)
    except WingbeatError as error:
        typer.echo(f"wingbeat: {error}", err=True)
        raise typer.Exit(USAGE) from error
    raise typer.Exit(CODES[found.outcome])


def _intervention(text: str, arm: str, store_named: Path | None) -> tuple[str, Side]:
    from wingbeat.investigate.side import side

    cause, sign, run = text.partition("=")
    if not sign:
        raise UsageError(f"cannot read {text!r}; write --tried CAUSE=RUN, such as clocks=restored")
    name, own = split(run)
    return cause, side(label(name, own), options.open_run(name, store_named)[0], own or arm)


def _put(text: str, out: Path | None) -> None:
    if out is None:
        print(text)
        return
    try:
        out.write_text(text, encoding="utf-8")
    except OSError as error:
        raise StorageError(f"cannot write {out}: {error.strerror}; choose another place with --out") from error
    print(out)

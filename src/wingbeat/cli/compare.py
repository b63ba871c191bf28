"""`wingbeat compare`: what changed between two runs or two arms, and with what certainty. No torch, no model."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from wingbeat.cli import options
from wingbeat.errors import UsageError, WingbeatError
from wingbeat.measure import record, store

if TYPE_CHECKING:
    from wingbeat.investigate.side import Side
    from wingbeat.measure.record import RunRecord

WRONG, USAGE = 2, 4  # the code of wrong usage elsewhere, and here
CODES = {"same": 0, "faster": 0, "slower": 1, "cannot tell": 2, "not comparable": 3}


class Comparing(TyperCommand):
    """A command whose wrong usage ends with the code 4, as 2 means "cannot tell"."""

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        """The same as ever, with the other code."""
        try:
            return super().make_context(info_name, args, parent, **extra)
        except Exception as error:
            if getattr(error, "exit_code", None) == WRONG:
                error.exit_code = USAGE  # type: ignore[attr-defined]
            raise


def compare(
    before: Annotated[str, typer.Argument(help="A run: its name in the store, or its file; RUN:ARM for one arm.")],
    after: Annotated[str | None, typer.Argument(help="The run to compare it with, or another arm of the same.")] = None,
    history: Annotated[bool, typer.Option("--history", help="Compare the one run with all like it before it.")] = False,
    same_within: Annotated[float, typer.Option(min=0.1, max=50, help="Changes up to so many percent are none.")] = 3.0,
    plot: Annotated[Path | None, typer.Option(help="Draw both sides beside each other (.png, .svg, .pdf).")] = None,
    store_named: options.Store = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document instead.")] = False,
) -> None:
    """Compare two runs: is it the same experiment, is the change real, and where is it?

    Exit codes: 0 same or faster, 1 slower, 2 cannot tell, 3 not comparable, 4 wrong usage or unreadable run.
    """
    from wingbeat.investigate import compare as comparing
    from wingbeat.report import compare as report
    from wingbeat.report import plots

    try:
        if history == (after is not None):
            raise UsageError("name two runs, or one with --history")
        if plot:
            plots.check(plot)
        sides = two_sides(before, after, store_named) if after else _history(before, store_named)
        found = comparing.compare(*sides, same_within / 100)
        print(json.dumps(report.document(found)) if as_json else report.render(found))
        if plot:
            plots.save(_drawn(*sides), plot)
    except WingbeatError as error:
        typer.echo(f"wingbeat: {error}", err=True)
        raise typer.Exit(USAGE) from error
    raise typer.Exit(CODES[found.verdict])


def two_sides(before: str, after: str, store_named: Path | None) -> tuple[Side, Side]:
    """The sides of two names. Raises UsageError where an arm must be named."""
    from wingbeat.investigate.side import common_arm, side

    (name, arm), (other_name, other_arm) = split(before), split(after)
    run = _open(name, store_named)
    other = run if name == other_name else _open(other_name, store_named)
    if run is other and not (arm and other_arm):
        raise UsageError(f"{name} is on both sides; name two of its arms, as in RUN:ARM ({', '.join(run.arms)})")
    one = arm or other_arm or common_arm([run, other])
    return side(label(name, arm), run, one), side(label(other_name, other_arm), other, other_arm or one)


def _history(text: str, store_named: Path | None) -> tuple[Side, Side]:
    from wingbeat.investigate.history import against_history
    from wingbeat.investigate.side import common_arm

    name, arm = split(text)
    run = _open(name, store_named)
    others = [record.load(path, partial=True) for path in store.paths(options.store_folder(store_named))]
    return against_history(label(name, arm), run, arm or common_arm([run]), others)


def _drawn(before: Side, after: Side) -> dict[str, RunRecord]:
    """The runs of both sides by name, each with the arms that were compared."""
    if before.records[0] is after.records[0]:
        return {before.label: replace(before.records[0], arms=[before.arm, after.arm])}
    apart = [(one.label, one) for one in (before, after)]
    if before.label == after.label:
        apart = [("before", before), ("after", after)]
    return {
        name if len(one.records) == 1 else record.name: replace(record, arms=[one.arm])
        for name, one in apart
        for record in one.records
    }


def split(text: str) -> tuple[str, str | None]:
    """The run and, after a colon, the arm."""
    name, _, arm = text.partition(":")
    return (text, None) if Path(text).is_file() else (name, arm or None)


def label(name: str, arm: str | None) -> str:
    """What the report calls a side: the run's name, and the arm where it was asked for."""
    stem = Path(name).stem if Path(name).is_file() else name
    return f"{stem}:{arm}" if arm else stem


def _open(name: str, store_named: Path | None) -> RunRecord:
    return options.open_run(name, store_named)[0]

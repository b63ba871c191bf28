"""`wingbeat`: the commands, and what an error looks like to the one who typed them."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from wingbeat.cli import runs, train
from wingbeat.cli.bench import bench, launch
from wingbeat.cli.chat import chat
from wingbeat.cli.compare import Comparing, compare
from wingbeat.cli.explain import explain
from wingbeat.cli.fingerprint import fingerprint
from wingbeat.cli.generate import generate
from wingbeat.cli.info import info
from wingbeat.cli.investigate import investigate
from wingbeat.cli.plot import plot
from wingbeat.cli.profile import profile
from wingbeat.errors import InterruptedRunError, UsageError, WingbeatError

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
app.command()(generate)
app.command()(chat)
app.command()(info)
app.command()(bench)
app.command(cls=Comparing)(compare)
app.command(cls=Comparing)(investigate)
app.command()(explain)
app.command()(profile)
app.command()(plot)
app.command()(fingerprint)
app.command("bench-launch", hidden=True)(launch)
app.add_typer(runs.app, name="runs")
app.add_typer(train.app, name="train")


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        print(f"wingbeat {version('wingbeat')}")
        raise typer.Exit


@app.callback()
def wingbeat(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """EAGLE-3 speculative decoding that is faster than plain decoding, and that can say why when it is not."""


def main() -> None:
    """Runs the command line. Exit codes: 0 done, 1 failed, 2 wrong usage, 130 interrupted."""
    try:
        app()
    except WingbeatError as error:
        notes = "".join(f"; {note}" for note in getattr(error, "__notes__", ()))
        print(f"wingbeat: {error}{notes}", file=sys.stderr)
        sys.exit(_exit_code(error))


def _exit_code(error: WingbeatError) -> int:
    if isinstance(error, InterruptedRunError):
        return 130
    return 2 if isinstance(error, UsageError) else 1

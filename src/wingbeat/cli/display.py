"""What commands put on the terminal: progress on stderr, a record on stdout."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from wingbeat.measure.record import RunRecord


@contextmanager
def progress_bar(title: str, total: int) -> Iterator[Callable[[str], None]]:
    """A bar on stderr (nothing where that is no terminal); yields a function to call after each step with its name.

    It is drawn in those calls alone: a thread that redraws it would run beside what is being measured.
    """
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    parts = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    bar = Progress(*parts, console=console, transient=True, auto_refresh=False, disable=not console.is_terminal)
    with bar:
        task = bar.add_task(title, total=total)
        bar.refresh()
        yield lambda name: bar.update(task, advance=1, description=f"{title} {name}", refresh=True)


def show(record: RunRecord, path: Path, as_json: bool) -> None:
    """Prints a record's report and where it is; with `as_json` also its figures, as one line at the end."""
    from wingbeat.report import bench, figures

    has_figures = any(launch.figures for launch in record.launches)
    print(figures.render(record) if has_figures else bench.render(record))
    print(f"\nRecord: {path}")
    if as_json:
        print(json.dumps({"record": str(path), **(figures if has_figures else bench).document(record)}))

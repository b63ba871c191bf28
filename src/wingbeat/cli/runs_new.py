"""`wingbeat runs new`: a run from the figures that somebody noted down."""

from __future__ import annotations

from typing import Annotated

import typer

from wingbeat.cli import options
from wingbeat.cli.display import show
from wingbeat.measure import fingerprints, noted, record, store

Noted = Annotated[str | None, typer.Option(metavar="FIGURE")]


def new(
    name: Annotated[str, typer.Argument(help="The run's name; one that was noted before gets another arm.")],
    arm: Annotated[str, typer.Option(help="The arm that the figures belong to; plain is decoding without drafts.")],
    tokens_per_second: Noted = None,
    tokens_per_cycle: Noted = None,
    cycle_ms: Noted = None,
    draft_ms: Noted = None,
    verify_ms: Noted = None,
    accept_ms: Noted = None,
    commit_ms: Noted = None,
    extend_ms: Noted = None,
    host_ms: Noted = None,
    ttft_ms: Noted = None,
    tpot_ms: Noted = None,
    steps: Noted = None,
    context: Noted = None,
    running: Noted = None,
    acceptance: Annotated[
        str | None, typer.Option(metavar="FIGURES", help="By position, of all drafts: 0.6,0.4")
    ] = None,
    note: Annotated[str | None, typer.Option(help="Where the figures come from, and under which conditions.")] = None,
    model: Annotated[str | None, typer.Option(help="The target's name.")] = None,
    fingerprint: options.Fingerprint = None,
    store_named: options.Store = None,
) -> None:
    """Make a run from the few figures that somebody noted down; what was not noted stays unknown.

    FIGURE is VALUE, VALUE:LOW-HIGH (the range it was seen in) or VALUE:LOW-HIGHxCOUNT (the mean of COUNT values):

    wingbeat runs new good --arm plain --tokens-per-second 89

    wingbeat runs new good --arm eagle3 --tokens-per-second 94:84-118 --verify-ms 19:17.47-19.10 --steps 2
    """
    given = {
        "tokens_per_second": tokens_per_second, "tokens_per_cycle": tokens_per_cycle, "cycle_ms": cycle_ms,
        "draft_ms": draft_ms, "verify_ms": verify_ms, "accept_ms": accept_ms, "commit_ms": commit_ms,
        "extend_ms": extend_ms, "host_ms": host_ms, "ttft_ms": ttft_ms, "tpot_ms": tpot_ms, "draft_steps": steps,
        "context": context, "running": running,
    }  # fmt: skip
    found = noted.figures(given, acceptance)
    folder = options.store_folder(store_named)
    exists = name in {path.stem for path in store.paths(folder)}
    path = store.find(folder, name) if exists else store.new_path(folder, name)
    run = record.load(path) if exists else noted.new(name)
    noted.add_arm(run, arm, found)
    if fingerprint:
        fingerprints.attach(run, fingerprint)
    run.requested |= {key: value for key, value in (("model", model), ("note", note)) if value}
    record.save(run, path)
    show(run, path, as_json=False)

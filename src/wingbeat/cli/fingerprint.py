"""`wingbeat fingerprint`: what the machine, a process and its code are; or what differs between two such files."""

from __future__ import annotations

import json
import shlex
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from wingbeat.cli import options
from wingbeat.errors import CorruptError, NotFoundError, ProbeError, UsageError

if TYPE_CHECKING:
    from wingbeat.probe.collect import Request
    from wingbeat.probe.document import Fingerprint
    from wingbeat.probe.load import Load


def fingerprint(
    names: Annotated[list[str] | None, typer.Argument(help="Two fingerprints or runs to compare, or one run.")] = None,
    out: Annotated[Path | None, typer.Option(help="File for all fields, with sources and raw texts.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")] = False,
    pid: Annotated[int | None, typer.Option(min=1, help="A server's process, with its children.")] = None,
    ssh: Annotated[str | None, typer.Option(help="Another machine, as ssh takes it: user@machine.")] = None,
    model: Annotated[str | None, typer.Option(help="Model whose files are hashed (folder or hub id).")] = None,
    head: Annotated[str | None, typer.Option(help="Draft head whose files are hashed.")] = None,
    under_load: Annotated[bool, typer.Option("--under-load", help="Sample clocks, link, power under load.")] = False,
    seconds: Annotated[float, typer.Option(min=1.0, max=600.0, help="How long the load runs at most.")] = 8.0,
    command: Annotated[str | None, typer.Option(help="The load to run, instead of one of our own.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Put load on devices that others use.")] = False,
    store_named: options.Store = None,
    timeout: Annotated[float, typer.Option(min=1.0, help="Seconds for another machine to answer.")] = 60.0,
) -> None:
    """Take a fingerprint of the machine, a process and its code; with names, print what differs."""
    from wingbeat.probe.collect import Request
    from wingbeat.probe.load import Load

    if names:
        given = {
            "--out": out, "--pid": pid, "--ssh": ssh, "--model": model, "--head": head, "--under-load": under_load,
            "--command": command, "--force": force,
        }  # fmt: skip
        if taking := [flag for flag, value in given.items() if value]:
            raise UsageError(f"with names nothing is taken: leave out {', '.join(taking)}")
        _difference(names, store_named, as_json)
        return
    if (command or force) and not under_load:
        raise UsageError("--command and --force are about a load: give --under-load too")
    models = {role: name for role, name in (("model", model), ("head", head)) if name}
    load = Load(tuple(shlex.split(command or "")), seconds, force) if under_load else None
    taken = _take(Request(pid, models, hashing=0.5), load, Place(ssh, timeout + (seconds if load else 0.0)))
    _show(taken, out, as_json)


@dataclass(frozen=True)
class Place:
    """Where a fingerprint is taken: a machine (None: this one), and how long it may need, in seconds."""

    machine: str | None
    timeout: float


def _take(request: Request, load: Load | None, place: Place) -> Fingerprint:
    from wingbeat.probe import collect, remote
    from wingbeat.probe.document import Fingerprint
    from wingbeat.probe.load import BusyError

    started, moment = time.monotonic(), datetime.now(UTC).isoformat(timespec="seconds")
    notes: list[str] = []
    if place.machine:
        readings, notes = remote.take(place.machine, request, load, place.timeout)
    else:
        readings = collect.take(request)
        if not request.pid:
            readings.pop("process.argv", None)  # of this command
        try:
            readings.update(collect.loaded(request, load) if load else {})
        except BusyError as busy:
            raise ProbeError(str(busy)) from busy
    process = f"process {request.pid}" if request.pid else ("" if place.machine else "this process")
    where = ", ".join(filter(None, (place.machine, process)))
    return Fingerprint(moment, round(time.monotonic() - started, 3), where, readings, notes)


def _show(taken: Fingerprint, out: Path | None, as_json: bool) -> None:
    from wingbeat.probe import document
    from wingbeat.report import fingerprint as report

    if out:
        document.save(taken, out)
    print(json.dumps(document.document(taken)) if as_json else report.render(taken))
    if out and not as_json:
        print(f"\nFingerprint: {out}")


def _difference(names: list[str], store_named: Path | None, as_json: bool) -> None:
    from wingbeat.probe.difference import compare
    from wingbeat.report import fingerprint as report

    sides = [side for name in names for side in _sides(name, store_named)]
    if len(names) == 2:
        sides = [_sides(name, store_named)[0] for name in names]
    if len(sides) != 2:
        raise UsageError("name two fingerprints or runs to compare, one run to see what moved in it, or nothing")
    before, after = sides
    found = compare(before.readings, after.readings)
    print(json.dumps(report.document(found)) if as_json else report.render_difference(before, after, found))


def _sides(name: str, store_named: Path | None) -> list[Fingerprint]:
    """A fingerprint's file; or those of a run, the first at its start and the last at its end."""
    from wingbeat.probe import document, from_json
    from wingbeat.probe.document import Fingerprint

    try:
        return [document.load(Path(name))]
    except (NotFoundError, CorruptError) as error:
        not_one = error
    try:
        run, path = options.open_run(name, store_named)
    except CorruptError:
        raise not_one from None
    started = next((launch.started for launch in run.launches if launch.fingerprint), None)
    if started is None:
        raise NotFoundError(f"{path} has no fingerprint; `wingbeat runs add-fingerprint` puts one into it")
    kept = {
        "at its start": [launch.fingerprint for launch in run.launches],
        "at its end": [launch.fingerprint_after for launch in reversed(run.launches)],
    }
    read = {f"{path.stem} {when}": next(filter(None, each), None) for when, each in kept.items()}
    return [Fingerprint(started, 0.0, where, from_json(fields)) for where, fields in read.items() if fields]

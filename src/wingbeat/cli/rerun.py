"""`wingbeat investigate --run-experiments`: making the re-runs that decide, by turns, in launches of their own."""

from __future__ import annotations

import json
import math
import os
import shlex
import sys
from collections.abc import Mapping
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import typer

from wingbeat.cli import options
from wingbeat.cli.bench import arms_of, questions_of
from wingbeat.cli.compare import USAGE
from wingbeat.errors import UsageError
from wingbeat.investigate import facts, rerun
from wingbeat.investigate.case import Investigation, investigate
from wingbeat.investigate.rerun import AGAIN, OLD, Choice, Rerun
from wingbeat.investigate.side import Side, side
from wingbeat.measure import launches, record, runner, store
from wingbeat.measure.launches import Job
from wingbeat.measure.record import PLAIN, RunRecord
from wingbeat.probe.collect import Request, take
from wingbeat.probe.process import relevant
from wingbeat.probe.reading import unknown
from wingbeat.probe.redact import clean, is_secret

FEWEST, MOST = 2, 5  # launches of each run
INTERRUPTED = 130  # exit code
STARTING = 10.0  # seconds of a launch before its first round, about
SAME_MACHINE = ("cpu.model", "cpu.cores", "memory.bytes", "gpu.count", "gpu.*.name")


def run(found: Investigation, tried: Mapping[str, Side], store_named: Path | None, yes: bool) -> Investigation:
    """The investigation with what its re-runs say, beside what was tried already, once they have been agreed to.

    Raises UsageError where they cannot be made here, or nobody can be asked; typer.Exit where a launch fails or is
    interrupted.
    """
    _check_machine(found)
    choice = rerun.choose(found)
    for what, reason in choice.undecided.items():
        typer.echo(f"{what}: not run, {reason}", err=True)
    if not choice.runs:
        typer.echo("There is nothing to run.", err=True)
        return found
    most = max(len(one.launches) for one in (found.found.before, found.found.after))
    count = MOST if found.outcome == "cannot tell" else min(MOST, max(FEWEST, most))
    if not _agreed(found, choice.runs, count, yes):
        return found
    folder = options.store_folder(store_named)
    jobs = {one.name: _job(one, found, folder, count) for one in choice.runs}
    for job in launches.by_turns(list(jobs.values()), count):
        if code := job.launch():
            typer.echo("What was run is kept; the same command goes on after it.", err=True)
            raise typer.Exit(code if code == INTERRUPTED else USAGE)
    return _with(found, choice, tried, {name: record.load(job.path) for name, job in jobs.items()})


def _with(
    found: Investigation, choice: Choice, tried: Mapping[str, Side], made: Mapping[str, RunRecord]
) -> Investigation:
    """The investigation with what the re-runs say."""
    compared = found.found

    def of(name: str, arm: str) -> Side:
        return side(made[name].name, made[name], arm)

    own = {one.name: of(one.name, one.arm) for one in choice.runs}
    tried = {**tried, **{cause: own[one.name] for one in choice.runs for cause in one.causes}}
    again = (own.get(OLD), own[AGAIN])
    result = investigate(compared.before, compared.after, compared.same_within, tried, again)
    answers = [rerun.answer(one, of(*one.first), of(*one.second), compared.same_within) for one in choice.questions]
    left = [one for one in result.experiments if one.key not in choice.answers]
    return replace(result, experiments=left, repeated=[*result.repeated, *answers])


def _check_machine(found: Investigation) -> None:
    """Raises UsageError where a side was not measured by `wingbeat bench`, here, with prompts that are still there."""
    here = take(Request(machine_only=True))
    for one in (found.found.before, found.found.after):
        run, read = one.records[0], facts.readings(one)
        if (run.kind, run.source) != ("bench", "wingbeat") or not read:
            raise UsageError(f"only runs of `wingbeat bench` can be run again here, and {one.label} is none")
        if questions_of(run.requested).digest != run.workload["sha256"]:
            raise UsageError(f"the prompts of {one.label} ({run.requested['prompts']}) are not what they were")
        for name, reading in here.items():
            was = read.get(name, unknown("not recorded"))
            if any(fnmatchcase(name, pattern) for pattern in SAME_MACHINE) and not was.same(reading):
                sides = f"{was.value or was.reason} there, {reading.value or reading.reason} here"
                raise UsageError(f"{one.label} was not measured on this machine: {name} {sides}")


def _agreed(found: Investigation, chosen: list[Rerun], count: int, yes: bool) -> bool:
    """Whether to run: the list is shown, and the question asked unless it was answered beforehand."""
    seconds = count * len(chosen) * (STARTING + _seconds(found.found.after))
    typer.echo(f"To run, by turns, {count} launches of each, about {math.ceil(seconds / 60)} min:", err=True)
    for one in chosen:
        typer.echo(f"  {_name(one, found)}: {one.text}\n    {shlex.join(one.way['start'])}", err=True)
    if yes:
        return True
    if not sys.stdin.isatty():
        raise UsageError("there is no terminal to ask in whether to run this; say --yes to run it")
    return typer.confirm("Run this now?", err=True)


def _seconds(one: Side) -> float:
    """What the rounds of a launch took."""
    launch = one.records[0].launches[0]
    return sum(arm.seconds for entry in launch.rounds for arm in entry.arms.values())


def _name(one: Rerun, found: Investigation) -> str:
    return f"{found.found.after.label.partition(':')[0]}+{one.name}"


def _job(one: Rerun, found: Investigation, folder: Path, count: int) -> Job:
    """The run, with its record made or found again."""
    original = found.found.after.records[0]
    asked = {name.removeprefix("asked."): value for name, value in one.way.items() if name.startswith("asked.")}
    with_plain = one.arm != PLAIN and (PLAIN in original.arms or one.beside)
    names = [*([PLAIN] if with_plain else []), one.arm, *one.beside]
    beside = {name: value for name, value in one.way.items() if not name.startswith("asked.")}
    asked |= {"arms": ",".join(names), "launches": count, "rerun": beside}
    chosen = tuple(arms_of(asked["arms"], asked))
    plan = runner.Plan(questions_of(asked), chosen, original.requested["rounds"], asked["warmup"])
    path = _kept(folder, _name(one, found), plan.record("bench", asked))
    return Job(path, one.way["start"], _variables(one.way), _cores(one.way["cores"]))


def _kept(folder: Path, name: str, made: RunRecord) -> Path:
    """The file of the run: one that is there is gone on with. Raises UsageError where that is another run."""
    made = replace(made, name=name)
    path = folder / f"{name}{store.SUFFIX}"
    if not path.exists():
        record.save(made, path)
        return path
    kept = record.load(path, partial=True)
    if _identity(kept) != _identity(made):
        raise UsageError(f"{path} is there and was run in another way; rename it or remove it (`wingbeat runs`)")
    return path


def _identity(run: RunRecord) -> Any:
    asked = {name: value for name, value in run.requested.items() if name != "launches"}
    return json.loads(json.dumps([asked, run.workload.get("sha256"), run.arms]))


def _variables(way: dict[str, Any]) -> dict[str, str]:
    """This process's variables; of those that matter, what the record has, and no others. Secrets stay as they are."""
    own = dict(os.environ)
    gone = {name for name, value in relevant(own).items() if not is_secret(name, value)}
    recorded = {name.removeprefix("env."): value for name, value in way.items() if name.startswith("env.")}
    same = {name: own[name] for name, value in recorded.items() if name in own and clean(own[name]) == value}
    return {**{name: value for name, value in own.items() if name not in gone}, **recorded, **same}


def _cores(text: str | None) -> frozenset[int] | None:
    """Cores from a list such as "0-3,8"."""
    if not text:
        return None
    ends = [[int(end) for end in part.split("-")] for part in text.split(",")]
    return frozenset(core for low, *high in ends for core in range(low, (high or [low])[0] + 1))

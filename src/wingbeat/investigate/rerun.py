"""The re-runs that the local engine can make itself: the second side again with one thing of the first put back, or
both sides under one condition.

Everything here is data. Nothing is run, and nothing is set beyond the process that is run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

from wingbeat.investigate import facts, moves
from wingbeat.investigate.case import Investigation, faster
from wingbeat.investigate.compare import compare
from wingbeat.investigate.hypothesis import Finding, short
from wingbeat.investigate.side import Side
from wingbeat.measure.record import PLAIN

Way = dict[str, Any]  # how a launch is run, by part: asked.dtype, env.OMP_NUM_THREADS, cores, start, shape and path
AGAIN, OLD = "again", "old"
LEFT_OUT = {"arms", "launches", "rounds", "rerun"}  # of what was asked for: other words for it stand beside
CODE = ("start", "env.PYTHONPATH", "env.VIRTUAL_ENV")
PUT_BACK: tuple[tuple[str, tuple[str, ...]], ...] = (  # a fact, and the parts of a run that bring it about
    ("run.context", ("asked.prompts", "asked.limit", "asked.max_tokens")),
    ("run.prompts", ("asked.prompts", "asked.limit")),
    ("run.new_tokens", ("asked.max_tokens",)),
    ("run.warmup", ("asked.warmup",)),
    ("run.width", ("asked.draft", "shape")),
    ("setting.template", ("asked.model",)),
    ("model.*", ("asked.model",)),
    ("head.*", ("asked.head",)),
    *((f"setting.{name}", ("asked.draft", "shape")) for name in ("steps", "topk", "nodes", "drafter", "auto")),
    *((name, ("asked.eager", "path")) for name in ("run.captured", "run.path", "setting.path", "setting.extend")),
    *((name, ("env.OMP_*", "env.MKL_*", "env.KMP_*", "cores")) for name in ("torch.threads", "setting.threads")),
    *((name, ("cores",)) for name in ("process.affinity", "cpu.usable_cores")),
    ("process.observers", ("start",)),
    *((f"{name}.*", CODE) for name in ("installed", "loaded", "packages", "git", "editable")),
    *((name, CODE) for name in ("python", "torch.loaded", "wingbeat.source")),
)
ON_BOTH = ("greedy", "plain")  # asked of both sides although a cause is accused
PATHS = ("verify captured", "verify as extend")
ALIKE: dict[str, tuple[str, Way]] = {  # by experiment: when, and how both sides then run (...: as the second did)
    "greedy": ("at temperature 0", {"asked.temperature": 0.0}),
    "plain": ("with speculation off", {"shape": PLAIN, "path": ""}),
    "context": ("at the same context lengths", {"asked.prompts": ..., "asked.limit": ..., "asked.max_tokens": ...}),
    "prompts": ("with the same prompts", {"asked.prompts": ..., "asked.limit": ...}),
}


@dataclass(frozen=True)
class Rerun:
    """A run to make. name: what it is called beside the second side's name; causes: those that it decides; changes: by
    part, what the side that it is made like has, and what the run has; purpose: what it is for where that is no cause;
    beside: arms that are run by turns with its own."""

    name: str
    way: Way
    causes: tuple[str, ...] = ()
    changes: dict[str, tuple[Any, Any]] = field(default_factory=dict)
    purpose: str = "the second side again, as it was"
    beside: tuple[str, ...] = ()

    @property
    def arm(self) -> str:
        """The arm that it is about."""
        return "@".join(filter(None, (self.way["shape"], self.way["path"])))

    @property
    def text(self) -> str:
        """What it is, in a line."""
        changed = [f"{part.removeprefix('asked.')} {_short(new)} instead of {_short(old)}"
                   for part, (old, new) in self.changes.items()]  # fmt: skip
        what = f"for {' and '.join(self.causes)}" if self.causes else self.purpose
        return f"{what}: {', '.join(changed)}" if changed else what


@dataclass(frozen=True)
class Question:
    """An experiment that sets two arms side by side. when: under which condition; first, second: a run's name and an
    arm of it; called: what they are in words."""

    key: str
    when: str
    first: tuple[str, str]
    second: tuple[str, str]
    called: tuple[str, str] = ("the first", "the second")


@dataclass(frozen=True)
class Choice:
    """What to run. undecided: causes and experiments of which it says nothing, and why."""

    runs: list[Rerun]
    questions: list[Question]
    undecided: dict[str, str]

    @property
    def answers(self) -> set[str]:
        """The experiments that are then made."""
        return {one.key for one in self.questions} | {"repeat" for one in self.runs if one.name == OLD}


def choose(found: Investigation) -> Choice:
    """The re-runs that decide what is left, the second side as it was among them, and what they are to show. No runs
    where nothing can be run here, or needs to be.

    An accused cause is decided by putting it back. Where nothing was seen, both sides are run under one condition.
    """
    planned = [one.key for one in found.experiments if one.local]
    first, second = way(found.found.before), way(found.found.after)
    made, undecided = _for_causes(found, planned, second, _differences(first, second))
    runs = [Rerun(AGAIN, second), *made]
    if "repeat" in planned or "launches" in planned:
        runs.append(_old(first, second))
    asked = [key for key in planned if key in ON_BOTH or not found.accused]
    has_plain = PLAIN in found.found.after.records[0].arms
    questions = []
    for key in (key for key in asked if key not in ("repeat", "launches")):
        question = _captured(runs, second) if key == "captured" else _question(key, runs, (first, second), has_plain)
        questions += [question] if question else []
        undecided |= {} if question else {key: "nothing would be set for it, or both sides would be run alike"}
    return Choice(runs if len(runs) > 1 else [], questions, undecided)


def _for_causes(
    found: Investigation, planned: Sequence[str], second: Way, differing: dict[str, tuple[Any, Any]]
) -> tuple[list[Rerun], dict[str, str]]:
    """A run for every accused cause, and why there is none; causes whose runs are the same share one."""
    made: dict[str, Rerun] = {}
    undecided = {}
    for finding in found.accused if found.experiments else ():
        changes = _put_back(finding, differing)
        if not set(planned).intersection(finding.cause.experiments):
            undecided[finding.cause.key] = "its experiment is none that the engine can run"
        elif not changes:
            undecided[finding.cause.key] = "nothing of it can be put back for a run"
        else:
            key = repr(changes)
            causes = (*(made[key].causes if key in made else ()), finding.cause.key)
            own = {**second, **{part: new for part, (_, new) in changes.items()}}
            made[key] = Rerun("+".join(causes), own, causes, changes)
    return list(made.values()), undecided


def _old(first: Way, second: Way) -> Rerun:
    return Rerun(OLD, first, changes=_differences(first, second), purpose="the first side's configuration")


def _question(key: str, runs: list[Rerun], sides: tuple[Way, Way], has_plain: bool) -> Question | None:
    """Both sides under one condition; None where they ran so already, or would be one and the same."""
    first, second = sides
    when, parts = ALIKE.get(key, ("", {}))
    alike = {part: second.get(part) if value is ... else value for part, value in parts.items()}
    ways = ({**first, **alike}, {**second, **alike})
    if ways == sides or ways[0] == ways[1]:
        return None
    if key == "plain" and has_plain:
        return Question(key, when, (_run(runs, _old(first, second)).name, PLAIN), (AGAIN, PLAIN))
    old = Rerun(f"{OLD}-{key}", ways[0], changes=_differences(ways[0], first), purpose=f"the first side {when}")
    new = Rerun(key, ways[1], changes=_differences(ways[1], second), purpose=f"the second side {when}")
    one, other = (_run(runs, wanted) for wanted in (_old(first, second) if ways[0] == first else old, new))
    return Question(key, when, (one.name, one.arm), (other.name, other.arm))


def _captured(runs: list[Rerun], second: Way) -> Question | None:
    """The second side's verify captured and as extend, in the same launches; None where nothing is drafted."""
    shape = second["shape"]
    if shape == PLAIN:
        return None
    way, other = {**second, "path": "", "asked.eager": False}, f"{shape}@extend"
    purpose = "verify captured and as extend by turns, plain beside them"
    run = Rerun("captured", way, changes=_differences(way, second), purpose=purpose, beside=(other,))
    runs.append(run)
    return Question("captured", "in the same launches", (run.name, shape), (run.name, other), PATHS)


def _run(runs: list[Rerun], wanted: Rerun) -> Rerun:
    """The run that is made in this way, which is added where there is none."""
    if (same := next((one for one in runs if one.way == wanted.way and not one.beside), None)) is None:
        runs.append(wanted)
    return same or wanted


def answer(question: Question, first: Side, second: Side, same_within: float) -> str:
    """What the runs say to a question, in a sentence."""
    between = compare(first, second, same_within)
    seen = moves.seen(between)
    moved = [move.text for name, move in seen.by.items() if seen.with_it(name) == "moved"]
    figures = f" ({'; '.join(moved)})" if moved else ""
    runs = " and ".join(dict.fromkeys((first.label, second.label)))
    one, other = question.called
    return f"{question.when[0].upper()}{question.when[1:]}, {other} is {faster(between)} {one}{figures}: {runs}."


def way(one: Side) -> Way:
    """How the launches of a side were run, as its record says."""
    shape, _, path = one.arm.partition("@")
    read = facts.readings(one)
    known = {name: reading.value for name, reading in read.items() if reading.state == "value"}
    asked = {f"asked.{name}": value for name, value in one.records[0].requested.items() if name not in LEFT_OUT}
    variables = {name: value for name, value in known.items() if name.startswith("env.")}
    start = known.get("process.argv", [])[:-1]  # the last argument is the record's file
    return {**asked, **variables, "cores": known.get("process.affinity"), "start": start, "shape": shape, "path": path}


def _put_back(finding: Finding, differing: dict[str, tuple[Any, Any]]) -> dict[str, tuple[Any, Any]]:
    """What of the first side's way is put back for a cause: the parts behind its facts that changed."""
    wanted = {part for fact in finding.changed for part in _behind(fact.name)}
    return {part: pair for part, pair in differing.items() if any(fnmatchcase(part, one) for one in wanted)}


def _behind(name: str) -> Iterator[str]:
    for pattern, parts in PUT_BACK:
        if fnmatchcase(name, pattern):
            yield from parts
    kind, _, rest = name.partition(".")
    yield from {"env": [name], "setting": [f"asked.{rest}"]}.get(kind, [])


def _differences(first: Way, second: Way) -> dict[str, tuple[Any, Any]]:
    return {
        part: (second.get(part), first.get(part))
        for part in sorted({*first, *second})
        if first.get(part) != second.get(part)
    }


def _short(value: Any) -> str:
    return "none" if value in (None, "") else short(" ".join(map(str, value)) if isinstance(value, list) else value)

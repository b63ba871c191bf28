"""The re-runs that the local engine can make itself: the second side again, with one thing of the first put back.

Everything here is data. Nothing is run, and nothing is set beyond the process that is run.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

from wingbeat.investigate import facts
from wingbeat.investigate.case import Investigation
from wingbeat.investigate.hypothesis import Finding, short
from wingbeat.investigate.side import Side

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


@dataclass(frozen=True)
class Rerun:
    """A run to make. name: what it is called beside the second side's name; causes: those that it decides (none: the
    second side as it was, or the first); changes: by part, what the second side has and what the run has."""

    name: str
    way: Way
    causes: tuple[str, ...] = ()
    changes: dict[str, tuple[Any, Any]] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """What it is, in a line."""
        if not self.changes:
            return "the second side again, as it was"
        changed = [f"{part.removeprefix('asked.')} {_short(new)} instead of {_short(old)}"
                   for part, (old, new) in self.changes.items()]  # fmt: skip
        what = f"for {' and '.join(self.causes)}" if self.causes else "the first side's configuration"
        return f"{what}: {', '.join(changed)}"


def choose(found: Investigation) -> tuple[list[Rerun], dict[str, str]]:
    """The re-runs that decide what is left, the second side as it was among them; and of each cause that they do not
    decide, why. None where nothing can be run here, or needs to be."""
    planned = {one.key for one in found.experiments if one.local}
    first, second = way(found.found.before), way(found.found.after)
    made: dict[str, Rerun] = {}
    undecided = {}
    for finding in found.accused if found.experiments else ():
        changed = _put_back(finding, first, second)
        if not planned.intersection(finding.cause.experiments):
            undecided[finding.cause.key] = "its experiment is none that the engine can run"
        elif not changed:
            undecided[finding.cause.key] = "nothing of it can be put back for a run"
        else:
            _add(made, finding.cause.key, second, changed)
    if "repeat" in planned or "launches" in planned:
        made[OLD] = Rerun(OLD, first, changes=_differences(first, second))
    chosen = [Rerun("+".join(one.causes) or one.name, one.way, one.causes, one.changes) for one in made.values()]
    return ([Rerun(AGAIN, second), *chosen] if chosen else []), undecided


def way(one: Side) -> Way:
    """How the launches of a side were run, as its record says."""
    shape, _, path = one.arm.partition("@")
    read = facts.readings(one)
    known = {name: reading.value for name, reading in read.items() if reading.state == "value"}
    asked = {f"asked.{name}": value for name, value in one.records[0].requested.items() if name not in LEFT_OUT}
    variables = {name: value for name, value in known.items() if name.startswith("env.")}
    start = known.get("process.argv", [])[:-1]  # the last argument is the record's file
    return {**asked, **variables, "cores": known.get("process.affinity"), "start": start, "shape": shape, "path": path}


def _put_back(finding: Finding, first: Way, second: Way) -> dict[str, tuple[Any, Any]]:
    """What of the first side's way is put back for a cause: the parts behind its facts that changed."""
    wanted = {part for fact in finding.changed for part in _behind(fact.name)}
    differing = _differences(first, second)
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


def _add(made: dict[str, Rerun], cause: str, second: Way, changes: dict[str, tuple[Any, Any]]) -> None:
    """Adds a cause to the runs; causes whose runs are the same share one."""
    key = repr(changes)
    causes = (*(made[key].causes if key in made else ()), cause)
    made[key] = Rerun("", {**second, **{part: new for part, (_, new) in changes.items()}}, causes, changes)


def _short(value: Any) -> str:
    return "none" if value in (None, "") else short(" ".join(map(str, value)) if isinstance(value, list) else value)

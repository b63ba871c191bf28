"""An investigation as text, Markdown and for programs: what is left, what was ruled out by what, what to run next."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from wingbeat.investigate import facts
from wingbeat.investigate.case import Investigation
from wingbeat.investigate.compare import Comparison
from wingbeat.investigate.details import BreakEven
from wingbeat.investigate.facts import Fact
from wingbeat.investigate.hypothesis import Finding, shown, values
from wingbeat.investigate.moves import Moves
from wingbeat.investigate.plan import Experiment
from wingbeat.probe import registry
from wingbeat.probe.difference import Change
from wingbeat.report import compare as comparison
from wingbeat.report.fingerprint import value
from wingbeat.report.table import paragraph

WIDTH = 100
BY_READING = "Ruled out by what was read"
BY_FIGURES = "Ruled out by the figures alone, or not possible here"
NOISY = "tok/s varies too much between launches to tell; tokens per cycle changed, and is what is explained."
BESIDE = "Speeds and times below are beside plain decoding in the same launches: what slowed both does not count."
NO_FINGERPRINT = (
    "so that nothing can be said of what changed around the runs. `wingbeat bench` takes one with every launch; "
    "`wingbeat fingerprint --out` takes one of a server, and `wingbeat runs add-fingerprint` puts it into a run."
)
UNWATCHED = "Changed, and no cause looks at it"
MOST, NAMED = 40, 3  # facts that a section lists, that the headline names
HEADLINES = {
    "cause": "LIKELY: {names}. It is consistent with all that was measured; only the re-run below proves it.",
    "confirmed": "CONFIRMED: {names}. Putting it back moved the speed back.",
    "several causes": "SEVERAL CAUSES could explain it: {names}.",
    "nothing observable changed": "NOTHING OBSERVABLE CHANGED that explains it.",
    "no change": "NO CHANGE: the speed is the same on both sides.",
    "cannot tell": "CANNOT TELL whether the speed changed, so no cause is named.",
}


@dataclass(frozen=True)
class Section:
    """A title, lines of text, and rows of a table with their header."""

    title: str
    lines: Sequence[str] = ()
    header: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()


def render(found: Investigation) -> str:
    """The whole report as text of at most 100 columns."""
    parts = [paragraph(_answer(found), WIDTH)]
    for section in _sections(found):
        lines = [*section.lines, *(f"{row[0]}: {'; '.join(cell for cell in row[1:] if cell)}" for row in section.rows)]
        parts.append("\n".join([f"{section.title}:", *map(_indented, lines)]))
    return "\n\n".join([*parts, f"The comparison\n\n{comparison.render(found.found)}"])


def markdown(found: Investigation) -> str:
    """The same as Markdown."""
    parts = [f"# {found.found.before.label} and {found.found.after.label}", f"**{_answer(found)}**"]
    for section in _sections(found):
        parts.append(f"## {section.title}")
        if section.lines:
            parts.append("\n".join(f"- {line}" for line in section.lines))
        if section.rows:
            rule = ["---"] * len(section.header)
            table = [section.header, rule, *section.rows]
            parts.append("\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in table))
    return "\n\n".join([*parts, "## The comparison", f"```text\n{comparison.render(found.found)}\n```"]) + "\n"


def document(found: Investigation) -> dict[str, Any]:
    """The same for a program, with the whole comparison in it."""
    figures = {
        "outcome": found.outcome,
        "left": by_family(found.left),
        "findings": [_finding(one) for one in found.findings],
        "unwatched": [vars(fact) for fact in found.unwatched],
        "moves": {name: vars(move) for name, move in found.moves.by.items()},
        "change": found.moves.total,
        "experiments": [
            {**vars(one), "local": one.local, "intrusive": one.intrusive} for one in found.experiments
        ],
        "repeated": found.repeated,
        "drift": [[change.name for change in side] for side in found.drift],
        "comparison": comparison.document(found.found),
    }  # fmt: skip
    return json.loads(json.dumps(figures, default=str), parse_constant=lambda _: None)


def _finding(one: Finding) -> dict[str, Any]:
    states = {"changed": one.changed, "same": one.same, "unknown": one.unknown}
    return {
        "cause": one.cause.key, "family": one.cause.family, "question": one.cause.question, "verdict": one.verdict,
        "survives": one.survives, "reason": one.reason, "notes": one.notes, "see": one.cause.see,
        "shape": one.cause.shape, "predictions_seen": one.fits[0], "predictions_known": one.fits[1],
        **{state: [vars(fact) for fact in group] for state, group in states.items()},
    }  # fmt: skip


def headline(found: Investigation) -> str:
    """The answer in a sentence or two; its first words in capitals."""
    confirmed = [one for one in found.accused if one.verdict == "confirmed"]
    names = ", ".join(called(one) for one in confirmed or found.accused)
    if found.outcome == "nothing observable changed" and (limits := _limits(found)):
        return " ".join(("NO CAUSE WAS SEEN.", *limits))
    return HEADLINES["confirmed" if confirmed else found.outcome].format(names=names)


def _limits(found: Investigation) -> list[str]:
    """Why it cannot be said that nothing changed."""
    names = [title for title, _, _ in values(found.unwatched)]
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    without = without_fingerprint(found.found)
    return [
        *([f"No cause looks at what changed: {', '.join(names[:NAMED])}{more}."] if names else []),
        *([f"{without}, so that little is known of what changed around the runs."] if without else []),
    ]


def without_fingerprint(found: Comparison) -> str:
    """Which side holds no fingerprint, as the beginning of a sentence ("": both hold one)."""
    without = [one.label for one in (found.before, found.after) if not facts.readings(one)]
    if len(without) == 2:
        return "Neither side holds a fingerprint"
    return f"{without[0]} holds no fingerprint" if without else ""


def unread(found: Comparison) -> list[str]:
    """That a side holds no fingerprint, and how it gets one."""
    without = without_fingerprint(found)
    return [f"{without}, {NO_FINGERPRINT}"] if without else []


def _answer(found: Investigation) -> str:
    text = headline(found)
    if found.outcome == "nothing observable changed" and found.left:
        left = by_family(found.left)
        return f"{text} What is left: {'; '.join(f'{place}. {name}' for place, name in enumerate(left, start=1))}."
    return text


def by_family(findings: Sequence[Finding]) -> dict[str, list[str]]:
    """The names of causes by family, in the order of their first."""
    families: dict[str, list[str]] = {}
    for one in findings:
        families.setdefault(one.cause.family, []).append(called(one))
    return families


def called(one: Finding) -> str:
    """What reports call a cause."""
    return one.cause.key.replace("_", " ")


def _sections(found: Investigation) -> list[Section]:
    header = ("cause", "evidence", "what it would look like")
    families = by_family(found.left)
    ordered = sorted(found.left, key=lambda one: list(families).index(one.cause.family))
    left = [(f"{called(one)} ({one.verdict})", one.reason, f"would look like: {one.cause.shape}") for one in ordered]
    notes = [note for one in found.left for note in one.notes]
    probed, others = ruled_out(found)
    sections = [
        Section("Where the change is", where(found)),
        Section("What is left", [f"{name}: {', '.join(causes)}" for name, causes in families.items()], header, left),
        Section("Arithmetic", notes),
        Section(UNWATCHED, most(shown(found.unwatched))),
        Section("What was run again", found.repeated),
        Section("What to run next", [_experiment(one) for one in found.experiments]),
        Section(BY_READING, (), header[:2], _reasons(probed)),
        Section(BY_FIGURES, caution(found), header[:2], _reasons(others)),
        Section("Could not be observed", unread(found.found), header[:2], _reasons(found.unseen)),
        Section("Checked, and the same", same(found)),
        Section("Changed while it ran", drift(found)),
    ]
    return [section for section in sections if section.lines or section.rows]


def ruled_out(found: Investigation) -> tuple[list[Finding], list[Finding]]:
    """The causes that what was read rules out, and those that the figures alone do."""
    probed = [one for one in found.ruled_out if one.decided or one.changed]
    return probed, [one for one in found.ruled_out if one not in probed]


def caution(found: Investigation) -> list[str]:
    """What weakens claims that rest on figures alone."""
    primary = found.found.primary
    if primary is None or primary.change is None or primary.change.basis != "assumed":
        return []
    return ["With one launch a side, how much figures differ by chance is not known: these claims are the weaker ones."]


def grouped(findings: Sequence[Finding]) -> list[list[Finding]]:
    """Causes with the same reason together."""
    alike: dict[str, list[Finding]] = {}
    for one in findings:
        alike.setdefault(one.reason, []).append(one)
    return list(alike.values())


def _reasons(findings: Sequence[Finding]) -> list[tuple[str, str]]:
    """Names with reasons."""
    return [(", ".join(map(called, group)), group[0].reason) for group in grouped(findings)]


def where(found: Investigation) -> list[str]:
    """Which quantities moved, which did not, which are not known; and both sides against plain decoding."""
    moves = found.moves
    if moves.total is None:
        return []
    kinds = {"Moved": "moved", "Hardly moved, beside that": "stayed", "Not clear": "unclear"}
    lines = [NOISY] if moves.by_tokens else []
    lines += [BESIDE] if moves.machine is not None else []
    for title, kind in kinds.items():
        named = [move.text for name, move in moves.by.items() if _kind(moves, name) == kind]
        lines += [f"{title}: {'; '.join(named)}."] if named else []
    unknown = [name for name in ("draft", "verify", "host", "tokens", "plain") if name not in moves.by]
    lines += [f"Not known: {', '.join(unknown)}."] if unknown else []
    sides = zip((found.found.before, found.found.after), found.found.break_even, strict=True)
    return lines + [_break_even(side.label, even) for side, even in sides if even]


def _kind(moves: Moves, name: str) -> str:
    """Moved with the change, took no part in it, or between."""
    taking = moves.still(name)
    return taking if taking != "unclear" else moves.with_it(name)


def _break_even(name: str, even: BreakEven) -> str:
    needs = f"more than {even.needed:.2g}" if even.bound else f"{even.needed:.2f}"
    reached = "speculation pays" if even.reached > even.needed else "speculation costs"
    return f"{name}: to break even, a cycle needs {needs} tokens; it has {even.reached:.2f}, so that {reached}."


def _experiment(one: Experiment) -> str:
    notes = [f"about {one.minutes} min", *(["changes the machine: ask who runs it"] if one.intrusive else [])]
    return f"{one.do[0].upper()}{one.do[1:]} ({', '.join(notes)})."


def same(found: Investigation) -> list[str]:
    """Fields that move speed or output, are the same on both sides, and were not named above."""
    named = {fact.name for one in found.findings for fact in one.decided}
    alike = [fact for fact in found.facts.values() if fact.name not in named and _is_same(fact)]
    return most([line.removesuffix(" on both sides") for line in shown(alike)])


def most(lines: Sequence[str]) -> list[str]:
    """As many lines as a section lists, and how many more there are."""
    more = [f"and {len(lines) - MOST} more"] if len(lines) > MOST else []
    return [*lines[:MOST], *more]


def _is_same(fact: Fact) -> bool:
    is_field = registry.spec(fact.name) is not None and not str(fact.before).startswith("not applicable")
    return is_field and fact.state == "same" and fact.importance == 3


def drift(found: Investigation) -> list[str]:
    """What of the environment changed while a side ran."""
    sides = zip((found.found.before, found.found.after), found.drift, strict=True)
    return [f"{side.label}: {_moved(change)}" for side, changes in sides for change in changes]


def _moved(change: Change) -> str:
    return f"{change.name} {value(change.name, change.before)} -> {value(change.name, change.after)}"


def _indented(text: str) -> str:
    return paragraph(text, WIDTH - 4).replace("\n", "\n    ").join(("  ", ""))

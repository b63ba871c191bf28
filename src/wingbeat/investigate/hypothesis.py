"""A hypothesis: what a cause would change and show, and what the evidence makes of it.

A change is a cause only where what it predicts is what was seen: the right quantities moved, the right way, by enough.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Literal

from wingbeat.investigate.facts import Fact
from wingbeat.investigate.moves import Moves

if TYPE_CHECKING:
    from wingbeat.investigate.case import Case

Verdict = Literal["confirmed", "consistent", "inconclusive", "not observable", "ruled out"]
Family = Literal[
    "measurement conditions", "verify's code path", "devices", "machine", "software", "collectives", "configuration",
    "head and target", "state of the process",
]  # fmt: skip
AMPLIFIED = 1.5  # how much more than in proportion a speed may follow its cause
ALIKE = 2.5  # how much more than another (log ratios) a quantity may move where all do so by one ratio
ENOUGH = 0.6  # of the change, that a bounded cause must be able to explain
ON_DEVICES = ("gpu.*", "load.gpu.*")
TITLES = {
    "setting.arguments": "arguments (none that matters changed), how many",
    "process.environ": "environment variables (none that matters changed), how many",
    "python.packages": "installed packages (none that matters changed), how many",
    "setting.verify_kernel": "verify's kernel",
    "run.observer": "how figures were taken",
    "setting.client": "the client",
    "run.captured": "the share of captured cycles",
    "run.spread": "the spread",
    "run.new_tokens": "the lengths of outputs",
    "run.requests": "requests at once",
    "run.warmup": "the course at the start",
    "run.drift": "the course over time",
    "run.groups": "several launches",
    "run.uneven": "times of single cycles",
    "run.definitions": "where figures come from",
    "calibration.all_reduce_*": "times of the all-reduce",
}


@dataclass(frozen=True)
class Watch:
    """Facts by pattern. slower: in which direction they make a run slower ("other": whatever they become).

    bounded: speed follows in proportion, so that a small change of it cannot explain a large one. without_change: it is
    named even where the speed did not certainly change.
    """

    pattern: str
    slower: Literal["less", "more", "other"] = "other"
    bounded: bool = False
    without_change: bool = False


@dataclass(frozen=True)
class Prediction:
    """One way in which the cause would show. moves, stays: quantities (see `moves.QUANTITIES`); alike: by one ratio;
    on: where it holds."""

    text: str
    moves: tuple[str, ...] = ()
    stays: tuple[str, ...] = ()
    alike: bool = False
    on: Literal["", "cpu", "devices"] = ""


@dataclass(frozen=True)
class Cause:
    """A possible cause.

    predicts: it shows in one of these ways; shape: the same over contexts, batch sizes, launches and time, in words.
    watches: the facts that would have changed; decides: those of which it is enough that all are known, and nothing
    watched changed, to rule it out (a|b: a, or b where nothing is known of a); see: the command that shows them. near:
    3 where a fact is the mechanism itself, 1 where it only may bring it about. needs: what must be there for it to be
    possible. experiments: re-runs in which it would show, the deciding one first (see `plan`). refuted: a sentence
    where the case itself speaks against it; note: arithmetic to print with it.
    """

    key: str
    family: Family
    question: str
    predicts: tuple[Prediction, ...]
    watches: tuple[Watch, ...]
    decides: tuple[str, ...]
    shape: str
    see: str
    experiments: tuple[str, ...]
    near: int = 2
    needs: Literal["", "devices", "several devices", "drafting"] = ""
    refuted: Callable[[Case], str] | None = None
    note: Callable[[Case], list[str]] | None = None


@dataclass(frozen=True)
class Finding:
    """What the evidence makes of a cause. reason: why, with the values; said: without them ("": values say it all);
    missing: what would have to be known. changed, same, unknown: its facts; decided: those that rule it out by being
    the same; fits: predictions that were seen to hold, of how many were looked at."""

    cause: Cause
    verdict: Verdict
    reason: str
    said: str = ""
    missing: str = ""
    changed: list[Fact] = field(default_factory=list)
    same: list[Fact] = field(default_factory=list)
    unknown: list[Fact] = field(default_factory=list)
    decided: list[Fact] = field(default_factory=list)
    fits: tuple[int, int] = (0, 0)
    notes: list[str] = field(default_factory=list)

    @property
    def survives(self) -> bool:
        """Whether it stands: it was seen, or nothing was seen of it and what it predicts is exactly what happened."""
        if self.verdict in ("confirmed", "consistent"):
            return True
        return self.verdict == "not observable" and self.fits[0] >= 2 and self.fits[0] == self.fits[1]

    @property
    def score(self) -> tuple[int, ...]:
        """Sorts findings, the best explanation last; what was seen in the run weighs more than its environment."""
        order: list[Verdict] = ["ruled out", "not observable", "inconclusive", "consistent", "confirmed"]
        importance = max((fact.importance for fact in self.changed), default=0)
        in_run = any(fact.name.startswith("run.") for fact in self.changed)
        return order.index(self.verdict), int(self.survives), self.cause.near, self.fits[0], int(in_run), importance


def judge(cause: Cause, case: Case) -> Finding:
    """The verdict on a cause, and why."""
    facts = [fact for watch in cause.watches for fact in case.match(watch.pattern)]
    found = {
        state: list({fact.name: fact for fact in facts if fact.state == state}.values())
        for state in ("changed", "same", "unknown")
    }
    hidden = case.moves.by_tokens and all("tokens" in one.stays for one in cause.predicts)
    elsewhere = bool(case.found.obstacles) and cause.family != "measurement conditions"
    misfit, fits = ("", (0, 0)) if hidden or elsewhere else _fit(cause, case)

    def finding(verdict: Verdict, reason: str, said: str, decided: Sequence[Fact] = (), missing: str = "") -> Finding:
        notes = cause.note(case) if cause.note and verdict != "ruled out" else []
        if moved_back is None and words:
            reason, said = (f"{text}; {words}" if text else words for text in (reason, said))
        return Finding(cause, verdict, reason, said, missing, **found, decided=list(decided), fits=fits, notes=notes)

    moved_back, words = case.tried.get(cause.key, (None, ""))
    if moved_back is not None:
        return finding("confirmed" if moved_back else "ruled out", words, words)
    if why := absent(cause, case):
        return finding("ruled out", why, why)
    said = [misfit, cause.refuted(case) if cause.refuted else ""]
    if found["changed"]:
        what = "; ".join(shown(found["changed"]))
        alone = any(case.changed(watch.pattern) for watch in cause.watches if watch.without_change)
        if hidden or (case.moves.total is None and not alone):
            uncertain = f"changed, but the speed {'varies too much' if hidden else 'did not certainly change'}"
            return finding("inconclusive", f"{uncertain}: {what}", uncertain)
        if against := next(filter(None, (*said, _direction(cause, case), _size(cause, case))), ""):
            return finding("ruled out", f"changed, but {against} ({what})", f"changed, but {against}")
        return finding("consistent", what, "")
    decides = [one for one in cause.decides if case.has_devices or not one.startswith(ON_DEVICES)]
    deciding = [_deciding(case, pattern) for pattern in decides]
    known = deciding and all(group and all(fact.state == "same" for fact in group) for group in deciding)
    decided = [fact for group in deciding for fact in group] if known else []
    if decided or any(said):
        reason, objections = (_sentences([what, *said]) for what in ("; ".join(shown(decided)), ""))
        return finding("ruled out", reason, objections, decided)
    missing = _unseen(decides, deciding)
    reason = f"not recorded on both sides: {missing}. To see it: {cause.see}"
    return finding("not observable", reason, "", missing=missing)


def _sentences(texts: Sequence[str]) -> str:
    first, *others = [text for text in texts if text] or [""]
    return ". ".join([first, *(text[0].upper() + text[1:] for text in others)])


def _deciding(case: Case, pattern: str) -> list[Fact]:
    """The facts of that one of several patterns (a|b) which tells most, else of the first."""
    return max((case.match(one) for one in pattern.split("|")), key=_tells)


def _tells(group: Sequence[Fact]) -> int:
    """0: there are none; 1: the machine has no such thing; 2: nothing is known of them; 3: something is."""
    there = [fact for fact in group if not fact.absent]
    return bool(group) + bool(there) + any(fact.state != "unknown" for fact in there)


def shown(facts: Sequence[Fact]) -> list[str]:
    """Facts with both values, in words."""
    return [
        f"{title}: {before} on both sides" if before == after else f"{title}: {before} before, {after} after"
        for title, before, after in values(facts)
    ]


def values(facts: Sequence[Fact]) -> list[tuple[str, str, str]]:
    """Title and both values of facts; of devices that say the same, one with the number of the others."""
    alike: dict[tuple[str, str, str], list[str]] = {}
    for fact in facts:
        generic = ".".join("*" if part.isdecimal() else part for part in fact.name.split("."))
        alike.setdefault((generic, short(fact.before), short(fact.after)), []).append(fact.name)
    return [
        (f"{_title(names[0])}{f' and {len(names) - 1} more' * (len(names) > 1)}", before, after)
        for (_, before, after), names in alike.items()
    ]


def _title(name: str) -> str:
    kind, _, rest = name.partition(".")
    return TITLES.get(name) or {"setting": f"setting {rest}", "run": rest.replace("_", " ")}.get(kind, name)


def short(value: object) -> str:
    """A value in few characters; of a sample its middle."""
    if isinstance(value, dict) and "median" in value:
        return f"{value['median']:g}"
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, list):
        return short(", ".join(map(str, value)) or "none")
    text = " ".join(str(value).split())
    return text if len(text) <= 60 else f"{text[:57]}..."


def _fit(cause: Cause, case: Case) -> tuple[str, tuple[int, int]]:
    """What was seen against every prediction ("" where one stands), and the best score of those that stand."""
    if case.moves.total is None:
        return "", (0, 0)
    objections: list[str] = []
    standing: list[tuple[int, int]] = []
    for prediction in cause.predicts:
        if prediction.on and (prediction.on == "devices") != case.has_devices:
            continue
        against, score = _against(prediction, case.moves)
        objections += [against] if against else []
        standing += [] if against else [score]
    if standing:
        return "", max(standing, key=lambda score: (score[0], -score[1]))
    return (objections or ["what it would do only shows on other devices"])[0], (0, 0)


def _against(prediction: Prediction, moves: Moves) -> tuple[str, tuple[int, int]]:
    seen = [(name, moves.with_it(name)) for name in prediction.moves]
    for name, what in seen:
        if what == "stayed":
            return f"{prediction.text} was to be expected, and {moves.by[name].text} did not follow", (0, 0)
    moved = sorted((moves.by[name] for name, what in seen if what == "moved"), key=lambda move: abs(move.own))
    if prediction.alike and moved and abs(moved[-1].own) > ALIKE * abs(moved[0].own):
        return f"{prediction.text} was to be expected, not {moved[-1].text} beside {moved[0].text}", (0, 0)
    still = [(name, moves.still(name)) for name in prediction.stays]
    for name, what in still:
        if what == "moved":
            return f"{prediction.text} was to be expected, and {moves.by[name].text} speaks against it", (0, 0)
    hits = sum(what == "moved" for _, what in seen) + sum(what == "stayed" for _, what in still)
    known = sum(name in moves.by for name in (*prediction.moves, *prediction.stays))
    if prediction.moves and not any(what == "moved" for _, what in seen):
        hits = 0
    return "", (hits, known)


def _direction(cause: Cause, case: Case) -> str:
    """A sentence where the changes would have had the opposite effect."""
    total = case.moves.total or 0.0
    pushes = [push for watch in cause.watches for fact in case.changed(watch.pattern) if (push := _push(watch, fact))]
    if pushes and all(push * total < 0 for push in pushes):
        return f"this makes a run {'faster' if pushes[0] > 0 else 'slower'}"
    return ""


def _push(watch: Watch, fact: Fact) -> float:
    """Above zero where the change makes a run faster, zero where that is not known."""
    rise = fact.rise
    if watch.slower == "other" or not rise:
        return 0.0
    return -rise if watch.slower == "more" else rise


def _size(cause: Cause, case: Case) -> str:
    """A sentence where the changes are too small for what happened."""
    changed = [(watch, fact) for watch in cause.watches for fact in case.changed(watch.pattern)]
    if not changed or not all(watch.bounded and fact.ratio is not None for watch, fact in changed):
        return ""
    return too_small(AMPLIFIED * max(abs(fact.ratio or 0.0) for _, fact in changed), case)


def too_small(most: float, case: Case) -> str:
    """A sentence where a cause explains at most so much (log ratio), and more happened."""
    total = abs(case.moves.total or 0.0)
    if most >= ENOUGH * total:
        return ""
    return f"it explains {math.expm1(most):.0%} at most, and the change is {math.expm1(total):.0%}"


def absent(cause: Cause, case: Case) -> str:
    """Why a cause is not possible here; "" where it is."""
    if cause.needs in ("devices", "several devices") and case.devices == 0:
        return "there is no GPU here"
    if cause.needs == "several devices" and case.devices == 1:
        return "there is one GPU, so nothing is exchanged"
    if cause.needs == "drafting" and not case.drafts:
        return "nothing was drafted"
    return ""


def _unseen(decides: Sequence[str], deciding: Sequence[Sequence[Fact]]) -> str:
    """Which of the deciding facts are missing."""
    missing = [pattern.partition("|")[0] for pattern, group in zip(decides, deciding, strict=True) if not group]
    unread = [fact for group in deciding for fact in group if fact.state != "same"]
    named = [_title(name).replace(".*", "") for name in missing] + [
        f"{_title(fact.name)} ({fact.reason or 'not the same'})" for fact in unread
    ]
    many = f" and {len(named) - 3} more" if len(named) > 3 else ""
    return f"{', '.join(dict.fromkeys(named[:3]))}{many}"


def match(facts: dict[str, Fact], pattern: str) -> list[Fact]:
    """The facts whose names fit."""
    if "*" not in pattern and "[" not in pattern:
        return [facts[pattern]] if pattern in facts else []
    return [fact for name, fact in facts.items() if fnmatchcase(name, pattern)]

"""Why: every cause held against the evidence, what is left of them, and what to do next."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

from wingbeat.errors import UsageError
from wingbeat.investigate import facts, hypothesis, moves, plan
from wingbeat.investigate.causes import ALL
from wingbeat.investigate.compare import Comparison, compare
from wingbeat.investigate.facts import Fact
from wingbeat.investigate.hypothesis import Finding, judge
from wingbeat.investigate.moves import Moves
from wingbeat.investigate.plan import Experiment
from wingbeat.investigate.side import Side
from wingbeat.investigate.unwatched import unwatched
from wingbeat.measure.record import PLAIN
from wingbeat.measure.replicates import SAME_WITHIN
from wingbeat.probe.difference import Change

MOVED_BACK = 0.5  # of the change, from which an intervention confirms
Outcome = Literal["cause", "several causes", "nothing observable changed", "no change", "cannot tell"]


@dataclass
class Case:
    """The evidence. tried: by cause, whether undoing it moved the speed back (None: not decided), and in words how
    much."""

    found: Comparison
    facts: dict[str, Fact]
    moves: Moves
    tried: dict[str, tuple[bool | None, str]] = field(default_factory=dict)

    def match(self, pattern: str) -> list[Fact]:
        """The facts whose names fit."""
        return hypothesis.match(self.facts, pattern)

    def changed(self, pattern: str) -> list[Fact]:
        """Those that are another on both sides."""
        return [fact for fact in self.match(pattern) if fact.state == "changed"]

    def setting(self, *names: str) -> Any:
        """A setting of the side after, by the first name that is known; else None."""
        known = (self.facts[f"setting.{name}"].after for name in names if f"setting.{name}" in self.facts)
        return next((value for value in known if value is not None), None)

    @property
    def slower(self) -> Side | None:
        """The slower side; None where the speed did not certainly change."""
        if not self.moves.total:
            return None
        return self.found.after if self.moves.total < 0 else self.found.before

    @cached_property
    def devices(self) -> int | None:
        """GPUs on both sides (0: none; None: not known)."""
        device = self.facts.get("setting.device")
        if device and (device.before, device.after) == ("cpu", "cpu"):
            return 0
        counts = [one.get("gpu.count") for one in map(facts.readings, (self.found.before, self.found.after))]
        known = [0 if one.state == "not applicable" else one.value for one in counts if one]
        numbers = [count for count in known if isinstance(count, int)]
        return max(numbers) if len(numbers) == 2 or any(numbers) else None

    @property
    def has_devices(self) -> bool:
        """Whether work runs on GPUs, as far as is known."""
        return self.devices != 0

    @property
    def drafts(self) -> bool:
        """Whether the arms speculate."""
        return self.found.before.arm != PLAIN or self.found.after.arm != PLAIN


@dataclass(frozen=True)
class Investigation:
    """What was found. findings: all causes, the best explanation first; unwatched: what changed and no cause looks at;
    left: those that stand; moves: the shape of the
    change; drift: what changed in the environment while a side ran; experiments: what to run next, in order; repeated:
    what came of running the sides again, in sentences."""

    found: Comparison
    outcome: Outcome
    findings: list[Finding]
    unwatched: list[Fact]
    facts: dict[str, Fact]
    moves: Moves
    experiments: list[Experiment]
    drift: tuple[list[Change], list[Change]]
    repeated: list[str]

    @property
    def left(self) -> list[Finding]:
        """The causes that stand."""
        return [finding for finding in self.findings if finding.survives]

    @property
    def ruled_out(self) -> list[Finding]:
        """The causes that do not."""
        return [finding for finding in self.findings if finding.verdict == "ruled out"]

    @property
    def unseen(self) -> list[Finding]:
        """The causes of which nothing can be said, and which nothing speaks for."""
        return [f for f in self.findings if f.verdict in ("not observable", "inconclusive") and not f.survives]

    @property
    def accused(self) -> list[Finding]:
        """The causes that were seen."""
        return [finding for finding in self.findings if finding.verdict in ("confirmed", "consistent")]


def investigate(
    before: Side,
    after: Side,
    same_within: float = SAME_WITHIN,
    tried: Mapping[str, Side] | None = None,
    again: tuple[Side | None, Side | None] = (None, None),
) -> Investigation:
    """Compares two sides and holds every cause against what is known.

    tried: by cause, a run like `after` in which that alone was put back. again: both sides' configurations run once
    more, beside what was tried; where there is one of the second, what was tried is compared with that. Raises
    UsageError for an unknown cause, and as `compare`.
    """
    found = compare(before, after, same_within)
    known = {cause.key for cause in ALL}
    if unknown := sorted({*(tried or {})} - known):
        raise UsageError(f"no cause is called {unknown[0]}; there are {', '.join(sorted(known))}")
    results = {key: _tried(found, again[1] or after, side) for key, side in (tried or {}).items()}
    case = Case(found, facts.gather(found), moves.seen(found), results)
    findings = sorted((judge(cause, case) for cause in ALL), key=lambda finding: finding.score, reverse=True)
    outcome = _outcome(case, findings)
    return Investigation(
        found=found,
        outcome=outcome,
        findings=findings,
        unwatched=unwatched(case),
        facts=case.facts,
        moves=case.moves,
        experiments=plan.choose(outcome, findings),
        drift=(facts.drift(before), facts.drift(after)),
        repeated=_repeated(found, again),
    )


def _tried(found: Comparison, after: Side, side: Side) -> tuple[bool | None, str]:
    """Whether an intervention moved the speed back; None where launches are too few to tell, or there is nothing to
    move: `after`, run again, is not another speed than the first side."""
    whole = moves.seen(compare(found.before, after, found.same_within))
    if whole.total is None:
        return None, f"{after.label} does not certainly differ from {found.before.label}, so nothing can be moved back"
    between = compare(after, side, found.same_within)
    back = moves.seen(between, whole).total
    share = -back / whole.total if back else 0.0
    if not back and _most(between, whole) > MOVED_BACK * abs(whole.total):
        return None, f"putting it back ({side.label}) may have changed the speed or not: more launches would tell"
    words = f"putting it back ({side.label}) moved the speed back by {share:.0%} of the change"
    if not share:
        words = f"putting it back ({side.label}) did not certainly change the speed"
    return share >= MOVED_BACK, words


def _most(between: Comparison, whole: Moves) -> float:
    """The largest change of speed (log ratio) against a whole one that a comparison leaves possible."""
    row = moves.speed(between, between.rows if whole.machine is None else between.beside)
    change = row.change if row else None
    sign = math.copysign(1.0, whole.total or 0.0) * (-1 if row and row.name.endswith("_ms") else 1)
    return max(-sign * change.low, -sign * change.high) if change else 0.0


def _repeated(found: Comparison, again: tuple[Side | None, Side | None]) -> list[str]:
    """What running the sides again says, each beside its own record and beside one another."""
    pairs = [(one, other) for one, other in zip((found.before, found.after), again, strict=True) if other]
    found_again = [(one.label, other.label, compare(one, other, found.same_within)) for one, other in pairs]
    sentences = [f"{other}: {faster(between)} {one}." for one, other, between in found_again]
    if again[0] and again[1]:
        today = faster(compare(again[0], again[1], found.same_within))
        sentences.append(f"By turns today, the second is {today} the first.")
    return sentences


def faster(between: Comparison) -> str:
    """How fast the second side is beside the first, in words."""
    if total := moves.seen(between).total:
        return f"{abs(math.expm1(total)):.0%} {'faster' if total > 0 else 'slower'} than"
    return "as fast as" if between.verdict == "same" else "not certainly faster or slower than"


def _outcome(case: Case, findings: Sequence[Finding]) -> Outcome:
    accused = [finding for finding in findings if finding.verdict in ("confirmed", "consistent")]
    if any(finding.verdict == "confirmed" for finding in accused) or len(accused) == 1:
        return "cause"
    if accused:
        return "several causes"
    if case.moves.total is None:
        return "no change" if case.found.verdict == "same" else "cannot tell"
    return "nothing observable changed"

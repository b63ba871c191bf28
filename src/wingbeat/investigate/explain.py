"""One run: whether speculation pays in it, why or why not, and what would have to change."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from wingbeat.errors import UsageError
from wingbeat.investigate import courses
from wingbeat.investigate.compare import Comparison, compare
from wingbeat.investigate.side import PHASES, Side, side
from wingbeat.measure.record import PLAIN, RunRecord

if TYPE_CHECKING:
    from wingbeat.investigate.details import BreakEven

VERIFY_DEAR = 1.5  # plain steps
HOST_DEAR = 0.15  # of a cycle
FIRST_POOR = 0.4  # acceptance of the first position
NEARLY_ALL = 0.9  # acceptance of the last position, from which more steps may pay


@dataclass(frozen=True)
class Part:
    """A phase of the cycle: milliseconds, and its share of the cycle (None: the whole is not known)."""

    name: str
    ms: float
    share: float | None


@dataclass(frozen=True)
class Explanation:
    """What one run says. Times in ms; None where the run does not know.

    found: the arm compared with plain decoding of the same run; even: where speculation breaks even; parts: the cycle
    by phase; decode_ms: a plain step; verify_ratio: verify / plain step; acceptance: by position, unconditional;
    best_steps: (steps, tok/s) that the same acceptance and costs would give at their best, an estimate.
    """

    arm: str
    found: Comparison | None
    even: BreakEven | None
    parts: list[Part]
    cycle_ms: float | None
    decode_ms: float | None
    verify_ratio: float | None
    tokens: float | None
    acceptance: list[float]
    best_steps: tuple[int, float] | None
    advice: list[str]
    missing: list[str]


def explain(label: str, record: RunRecord, arm: str, same_within: float) -> Explanation:
    """Takes the arm apart. Raises UsageError for the plain arm, and where the arm has nothing to say."""
    if arm == PLAIN:
        raise UsageError("plain decoding drafts nothing; name an arm that speculates, as in RUN:ARM")
    bare = side(label, record, arm)
    plain = side(f"{label}:{PLAIN}", record, PLAIN) if _has(record, PLAIN) else None
    found = compare(plain, bare, same_within) if plain else None
    alone = compare(bare, bare)  # adds what follows from noted figures
    whole, even = alone.after, alone.break_even[1]
    decode_ms = courses.level(found.before, "cycle_ms") if found else None
    cycle = courses.level(whole, "cycle_ms")
    parts = _parts(whole, None if even and even.bound else cycle)
    verify = next((part.ms for part in parts if part.name == "verify"), None)
    accepted = _acceptance(whole)
    explanation = Explanation(
        arm=arm,
        found=found,
        even=even,
        parts=parts,
        cycle_ms=cycle,
        decode_ms=decode_ms,
        verify_ratio=verify / decode_ms if verify and decode_ms else None,
        tokens=courses.level(whole, "tokens_per_cycle"),
        acceptance=accepted,
        best_steps=_best(parts, cycle, accepted, whole),
        advice=[],
        missing=_missing(found, parts, accepted),
    )
    explanation.advice.extend(_advice(explanation))
    return explanation


def _has(record: RunRecord, arm: str) -> bool:
    try:
        side("", record, arm)
    except UsageError:
        return False
    return True


def _parts(one: Side, cycle: float | None) -> list[Part]:
    known = {name: courses.level(one, f"{name}_ms") for name in (*PHASES, "host", "rest")}
    return [Part(name, ms, ms / cycle if cycle else None) for name, ms in known.items() if ms]


def _acceptance(one: Side) -> list[float]:
    """By position, unconditional: from the cycles, else from noted figures."""
    tables = [launch.accepted for launch in one.launches if launch.accepted is not None]
    if tables:
        deepest = min(table.shape[1] for table in tables)
        sums = sum(table[:, :deepest].sum(axis=0) for table in tables)
        return [float(row[0] / row[2]) for row in sums]
    found: list[float] = []
    while (rate := courses.level(one, f"acceptance_{len(found) + 1}")) is not None:
        found.append(rate)
    return found


def _best(parts: list[Part], cycle: float | None, accepted: list[float], one: Side) -> tuple[int, float] | None:
    """The number of steps, up to those that were taken, with the most tok/s: a step less saves its share of drafting.

    An estimate: verify is taken to cost the same, and a chain to be drafted.
    """
    draft = next((part.ms for part in parts if part.name == "draft"), None)
    width = courses.MEASURES["width"][0](one)
    if draft is None or cycle is None or len(accepted) < 2 or (width and abs(width - 1 - len(accepted)) > 0.5):
        return None
    steps = len(accepted)
    rates = {
        taken: 1000 * (1 + sum(accepted[:taken])) / (cycle - draft * (steps - taken) / steps)
        for taken in range(1, steps + 1)
    }
    best = max(rates, key=lambda taken: rates[taken])
    return best, rates[best]


def _advice(one: Explanation) -> list[str]:
    """What would have to change, the strongest lever first."""
    found = []
    if one.even and one.even.reached < one.even.needed:
        found.append(f"{one.even.needed:.2f} tokens per cycle instead of {one.even.reached:.2f}, all else equal")
        if one.even.verify_ms:
            found.append(f"or a verify of {one.even.verify_ms:.1f} ms at most, with the tokens it has")
    if one.verify_ratio and one.verify_ratio > VERIFY_DEAR:
        found.append(
            f"verify costs {one.verify_ratio:.2f} plain steps: look whether it runs captured and with decode's kernel"
        )
    shares = {part.name: part.share for part in one.parts}
    host = shares.get("host", shares.get("rest")) or 0.0
    if host > HOST_DEAR:
        found.append(f"{host:.0%} of the cycle passes between phases, on the host: cores, quota, tokenizer, logging")
    if one.acceptance and one.acceptance[0] < FIRST_POOR:
        found.append(
            f"the first drafted token is accepted {one.acceptance[0]:.0%} of the time: the head does not fit the "
            "target or the text (taps, template, training)"
        )
    if one.best_steps and one.best_steps[0] < len(one.acceptance):
        steps, speed = one.best_steps
        found.append(f"{steps} steps instead of {len(one.acceptance)} would give about {speed:.1f} tok/s (estimated)")
    if one.acceptance and one.acceptance[-1] > NEARLY_ALL * one.acceptance[0] and one.acceptance[0] > FIRST_POOR:
        found.append("the last position is accepted nearly as often as the first: more steps may pay")
    return found


def _missing(found: Comparison | None, parts: list[Part], accepted: list[float]) -> list[str]:
    """What the run does not know, and how to get it."""
    missing = []
    if found is None:
        missing.append("plain decoding was not measured in this run: without it nothing says whether speculation pays")
    elif found.primary and found.primary.change and found.primary.change.basis == "assumed":
        missing.append("one launch: how much launches differ was not measured (`wingbeat bench --launches 3`)")
    if not any(part.name == "verify" for part in parts):
        missing.append("the phases of a cycle were not recorded: what verify costs is not known")
    elif not any(part.name in ("host", "rest") and part.share for part in parts):
        missing.append("the host's share of a cycle is not known: it needs the time of a whole cycle beside its phases")
    if not accepted:
        missing.append("acceptance by position was not recorded")
    return missing

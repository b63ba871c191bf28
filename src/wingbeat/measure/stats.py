"""Numbers into claims about numbers: medians with their spread, paired ratios, acceptance, and what a bench shows.

Everything is paired: an arm is compared with the plain one inside the same round, and the median is taken over rounds.
"""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from wingbeat.measure.record import PLAIN, ArmFacts, CycleColumns, Round, RunRecord

SAME_WITHIN = 0.02
LEVEL = 0.05
# Logits closer than this can change places where a forward rounds differently. Between 16 and 32 neighbouring bfloat16
# numbers are 0.125 apart; on the default model the gap between the two best logits moved by up to 0.5 from a forward of
# one token to one of five, and up to 0.75 to one of the whole text (341 positions, 99 % within 0.35).
NEAR_TIE = {"float32": 1e-3, "bfloat16": 1.0, "float16": 0.125}


@dataclass(frozen=True)
class Spread:
    """A median with the quartiles around it (half of the values lie between `low` and `high`)."""

    median: float
    low: float
    high: float
    count: int


@dataclass(frozen=True)
class Acceptance:
    """Acceptance by position, from position 1 on.

    unconditional: share of the cycles with a draft in which this position was accepted; conditional: share of those
    in which it was drafted and the position before it accepted (None: there were none); drafted: share of all cycles
    that had a draft. Of a tree, a position is a depth, and taken as drafted wherever there are as many nodes.
    """

    unconditional: tuple[float, ...]
    conditional: tuple[float | None, ...]
    drafted: float


@dataclass(frozen=True)
class Identity:
    """How many of the compared outputs equal the plain arm's, and what is known of the others' first differences.

    gap: the largest logit gap at one of them (None: there are none, or not all were measured). near_ties: whether all
    are near ties. worst: prompt id and output position of the largest or an unmeasured gap.
    """

    same: int
    compared: int
    gap: float | None
    near_ties: bool
    worst: tuple[str, int] | None


@dataclass(frozen=True)
class Verdict:
    """faster, slower, same (both quartiles within 2 %), or cannot tell; wins of `prompts` were faster than plain.

    p: two-sided sign test over prompts; smallest: the smallest p that so many prompts could give.
    """

    answer: Literal["faster", "slower", "same", "cannot tell"]
    wins: int
    prompts: int
    p: float
    smallest: float


@dataclass(frozen=True)
class AgainstPlain:
    """An arm beside the plain one: ratios of speed, of verify to a plain step's forward, and of cycle to plain step.

    The last is the number of tokens per cycle at which the arm breaks even. verify_ratio is None where the plain arm's
    forward was not timed, identity where outputs are sampled and need not be equal.
    """

    speed_up: Spread
    verify_ratio: Spread | None
    break_even: Spread
    verdict: Verdict
    identity: Identity | None


@dataclass(frozen=True)
class ArmSummary:
    """One arm of a bench. ms: milliseconds a cycle by part ("cycle" is the sum of "draft", "verify" and "rest")."""

    arm: str
    tokens_per_second: Spread
    tokens_per_cycle: float
    prefill_ms: Spread
    ms: dict[str, Spread]
    acceptance: Acceptance | None
    against_plain: AgainstPlain | None


def spread(values: Sequence[float]) -> Spread:
    """Median and quartiles (inclusive method) of at least one value; ValueError for none."""
    if not values:
        raise ValueError("no values, so no median")
    if len(values) == 1:
        return Spread(values[0], values[0], values[0], 1)
    low, median, high = statistics.quantiles(values, n=4, method="inclusive")
    return Spread(median, low, high, len(values))


def sign_test(wins: int, losses: int) -> float:
    """Two-sided p of so uneven a split if either side were equally likely; ties are left out by the caller."""
    trials = wins + losses
    tail = sum(math.comb(trials, k) for k in range(min(wins, losses) + 1)) / 2**trials
    return min(1.0, 2 * tail)


def acceptance(drafted: Sequence[int], accepted: Sequence[int]) -> Acceptance | None:
    """Acceptance by position from each cycle's counts; None when nothing was ever drafted."""
    pairs = [(d, a) for d, a in zip(drafted, accepted, strict=True) if d > 0]
    if not pairs:
        return None
    unconditional, conditional = [], []
    for position in range(1, max(1, *(a for _, a in pairs)) + 1):
        hits = sum(a >= position for _, a in pairs)
        chances = sum(d >= position and a >= position - 1 for d, a in pairs)
        unconditional.append(hits / len(pairs))
        conditional.append(hits / chances if chances else None)
    return Acceptance(tuple(unconditional), tuple(conditional), len(pairs) / len(drafted))


def verdict(ratios: Mapping[str, Sequence[float]]) -> Verdict:
    """Whether an arm is faster, from its speed-ups by prompt. The prompt is the unit; its repeats are one median."""
    medians = [statistics.median(values) for values in ratios.values()]
    wins = sum(ratio > 1 for ratio in medians)
    losses = sum(ratio < 1 for ratio in medians)
    p = sign_test(wins, losses)
    around = spread(medians)
    answer: Literal["faster", "slower", "same", "cannot tell"] = "cannot tell"
    if len(medians) > 1 and around.low >= 1 - SAME_WITHIN and around.high <= 1 + SAME_WITHIN:
        answer = "same"
    elif p < LEVEL:
        answer = "faster" if wins > losses else "slower"
    return Verdict(answer, wins, len(medians), p, sign_test(0, len(medians)))


def summarise(record: RunRecord) -> list[ArmSummary]:
    """The figures of every arm that has at least one round with a cycle in it; warm-up left out."""
    rounds = [entry for entry in record.measured() if all(len(facts.cycles) for facts in entry.arms.values())]
    tie = None if record.requested.get("temperature") else NEAR_TIE.get(str(record.requested.get("dtype")), 0.0)
    return [_summary(arm, rounds, tie) for arm in record.arms] if rounds else []


def cycle_ms(facts: ArmFacts) -> dict[str, float]:
    """Mean milliseconds a cycle: "draft" (extend included), "verify", "rest" (all else, the host's too) and their sum.

    The sum is "cycle". Taken from the wall time after prefill, so that nothing between the cycles is lost.
    """
    count = len(facts.cycles)
    whole = (1000 * facts.seconds - facts.prefill_ms) / count
    draft, extend, verify = (sum(facts.cycles.ms.get(name, ())) / count for name in ("draft", "extend", "verify"))
    return {"cycle": whole, "draft": draft + extend, "verify": verify, "rest": whole - draft - extend - verify}


def _speed(facts: ArmFacts) -> float:
    """Tokens a second after prefill, all requests together."""
    return sum(facts.cycles.committed.flat) / (facts.seconds - facts.prefill_ms / 1000)


def _summary(arm: str, rounds: list[Round], tie: float | None) -> ArmSummary:
    facts = [entry.arms[arm] for entry in rounds]
    cycles: list[CycleColumns] = [entry.cycles for entry in facts]
    parts = [cycle_ms(entry) for entry in facts]
    compare = arm != PLAIN and PLAIN in rounds[0].arms
    return ArmSummary(
        arm=arm,
        tokens_per_second=spread([_speed(entry) for entry in facts]),
        tokens_per_cycle=sum(sum(c.committed.flat) for c in cycles) / sum(len(c.committed.flat) for c in cycles),
        prefill_ms=spread([entry.prefill_ms for entry in facts]),
        ms={name: spread([part[name] for part in parts]) for name in parts[0]},
        acceptance=acceptance(
            [drafted for c in cycles for drafted in c.drafted.flat],
            [accepted for c in cycles for accepted in c.accepted.flat],
        ),
        against_plain=_against_plain(arm, rounds, tie) if compare else None,
    )


def _against_plain(arm: str, rounds: list[Round], tie: float | None) -> AgainstPlain:
    speed_ups: dict[str, list[float]] = defaultdict(list)
    verify, whole = [], []
    for entry in rounds:
        speed_ups[entry.prompt].append(_speed(entry.arms[arm]) / _speed(entry.arms[PLAIN]))
        ours, plain = cycle_ms(entry.arms[arm]), cycle_ms(entry.arms[PLAIN])
        if plain["verify"] > 0:
            verify.append(ours["verify"] / plain["verify"])
        whole.append(ours["cycle"] / plain["cycle"])
    return AgainstPlain(
        speed_up=spread([ratio for ratios in speed_ups.values() for ratio in ratios]),
        verify_ratio=spread(verify) if verify else None,
        break_even=spread(whole),
        verdict=verdict(speed_ups),
        identity=None if tie is None else _identity(arm, rounds, tie),
    )


def _identity(arm: str, rounds: list[Round], tie: float) -> Identity:
    """tie: the largest gap that still counts as a near tie."""
    compared = sum(len(entry.arms[arm].requests) for entry in rounds)
    found = [
        (math.inf if difference.gap is None else difference.gap, entry.prompt, difference.position)
        for entry in rounds
        for difference in entry.differences[arm]
    ]
    if not found:
        return Identity(compared, compared, None, True, None)
    gap, prompt, position = max(found)
    known = None if math.isinf(gap) else gap
    return Identity(compared - len(found), compared, known, gap <= tie, (prompt, position))

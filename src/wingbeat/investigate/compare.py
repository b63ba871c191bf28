"""What moved between two sides, by how much, and with what certainty.

    change of log tok/s = change of log tokens per cycle + change of log requests per cycle - change of log cycle time

and the change of the cycle's time is the sum of its parts' changes, each divided by the logarithmic mean of the two
cycle times. The replicate is the launch; prompts that both sides ran have the same weight on both.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

from wingbeat.errors import UsageError
from wingbeat.investigate import caveats, comparable, derive, details, pair
from wingbeat.investigate.beside import beside_plain
from wingbeat.investigate.derive import SPEED
from wingbeat.investigate.details import BreakEven, ContextRow, Position
from wingbeat.investigate.pair import Pair, Row
from wingbeat.investigate.side import PARTS, Side, runs, side
from wingbeat.measure.record import PLAIN
from wingbeat.measure.replicates import SAME_WITHIN, launches_needed

EXPLAINS = 0.2  # the least share of a change worth naming
UNACCOUNTED = 0.01
PRIMARY = ("tokens_per_second", "cycle_ms", "verify_ms", "tokens_per_cycle")

Verdict = Literal["faster", "slower", "same", "cannot tell", "not comparable"]


@dataclass(frozen=True)
class Comparison:
    """Everything that is claimed, and what is not.

    verdict: on the row named `primary`. obstacles: why the sides are not comparable; then `rows` holds what may be
    compared all the same. settings: what differs in what was asked for. matched: cycle time and tokens per cycle with
    the same weight of every context length on both sides. control: tokens a second of plain decoding. beside: the rows
    as if plain decoding had run at one speed in all launches (see `beside`; empty where that is not known).
    unaccounted: what tokens per cycle and cycle time leave of the change (log ratio). outputs: how many are the same,
    of how many. needed: launches a side that would tell (None: see `replicates.launches_needed`).
    """

    before: Side
    after: Side
    verdict: Verdict
    primary: Row | None
    same_within: float
    obstacles: list[str]
    settings: list[str]
    rows: list[Row]
    control: Row | None
    beside: list[Row]
    unaccounted: float
    break_even: tuple[BreakEven | None, BreakEven | None]
    positions: list[Position]
    contexts: list[ContextRow]
    matched: list[Row]
    outputs: tuple[int, int] | None
    needed: int | None
    cautions: list[str]
    unclaimed: list[str]

    def row(self, name: str) -> Row | None:
        """The row of a quantity, if there is one."""
        return pair.named(self.rows, name)

    def explained_by(self) -> list[Row]:
        """The rows that make up a fifth or more of a certain change in tokens a second, the largest first.

        The cycle as a whole only where no part of it does.
        """
        found = [row for row in self.rows if row.share is not None and row.share >= EXPLAINS]
        parts = [row for row in found if row.name.endswith("_ms") and row.name != "cycle_ms"]
        chosen = [row for row in found if not (parts and row.name == "cycle_ms")]
        return sorted(chosen, key=lambda row: -(row.share or 0))


def compare(before: Side, after: Side, same_within: float = SAME_WITHIN) -> Comparison:
    """Compares two sides (see `side.side`). Raises UsageError where they have no quantity in common."""
    before, after, origins = derive.complete(before, after)
    plain = (_plain(before), _plain(after))
    found = comparable.check(before, after)
    sides = Pair(before, after, found.prompts, _paired(before, after), same_within)
    rows, unaccounted = _rows(sides, found.allowed, origins)
    if not rows and not found.obstacles:
        raise UsageError(f"{before.label} and {after.label} have no quantity in common; note tok/s or a time on both")
    contexts, matched = details.by_context(sides) if found.matched else ([], [])
    primary = next((row for name in PRIMARY for row in rows if row.name == name), None)
    decoding = None if found.obstacles else _both_plain(sides, *plain)
    alike = beside_plain(sides, decoding) if decoding else None
    bound = origins.get(derive.CYCLE, "").startswith("at least")
    even = [
        details.break_even(one, other, found.prompts, bound) for one, other in zip((before, after), plain, strict=True)
    ]
    return Comparison(
        before=before,
        after=after,
        verdict=_verdict(primary, bool(found.obstacles)),
        primary=primary,
        same_within=same_within,
        obstacles=found.obstacles,
        settings=found.settings,
        rows=rows,
        control=pair.rate(decoding, SPEED) if decoding and SPEED in decoding.names() else None,
        beside=_rows(alike, found.allowed, origins)[0] if alike else [],
        unaccounted=unaccounted,
        break_even=(even[0], even[1]),
        positions=details.positions(sides) if found.allowed("tokens_per_cycle") else [],
        contexts=contexts,
        matched=[row for row in matched if row.name.endswith("_ms") or found.allowed(row.name)],
        outputs=details.outputs(before, after) if found.allowed("tokens_per_cycle") else None,
        needed=launches_needed(primary.change, same_within) if primary and primary.change else None,
        cautions=found.cautions + caveats.cautions(sides),
        unclaimed=caveats.unclaimed(sides, primary.change if primary else None, bool(contexts)),
    )


def _paired(before: Side, after: Side) -> bool:
    """Whether the sides are arms of one run, measured by turns in all its launches."""
    by_turns = before.evidence == after.evidence == "cycles" and before.records[0] is after.records[0]
    return (
        by_turns
        and before.units == after.units == "launches"
        and len(before.groups) == len(after.groups) == len(before.records[0].launches)
    )


def _plain(one: Side) -> Side | None:
    """The plain arm of the side's run, where it is another and has something to say."""
    if one.arm == PLAIN or not all(PLAIN in record.arms for record in one.records):
        return None
    try:
        sides = [side(one.label, record, PLAIN) for record in one.records]
    except UsageError:
        return None
    found = sides[0] if one.units == "launches" else runs(one.label, sides)
    return derive.complete(found, found)[0]


def _both_plain(sides: Pair, before: Side | None, after: Side | None) -> Pair | None:
    if before is None or after is None or before.records[0] is after.records[0]:
        return None
    return replace(sides, before=before, after=after)


def _rows(sides: Pair, allowed: Callable[[str], bool], origins: dict[str, str]) -> tuple[list[Row], float]:
    """All rows, and what the factors leave of the change in tokens a second."""
    derived = allowed("tokens_per_second")  # from tokens a second, unless these cannot be compared
    known = {name for name in sides.names() if allowed(name) and (derived or name not in origins)}
    factors = [pair.rate(sides, name) for name in ("tokens_per_cycle", "requests", "cycle_ms") if name in known]
    factors = [row for row in factors if row.name != "requests" or (row.before, row.after) != (1, 1)]
    cycle = next((row for row in factors if row.name == "cycle_ms"), None)
    parts = [pair.part(sides, name, cycle) for name in (*PARTS, derive.REST) if name in known]
    rows = [*factors, *(row for row in parts if row.before or row.after)]
    whole = pair.rate(sides, "tokens_per_second") if "tokens_per_second" in known else None
    if whole is None or whole.change is None:
        return [replace(row, origin=origins.get(row.name, "")) for row in rows], 0.0
    moved = whole.change.value if whole.answer == "differs" else None
    shared = [replace(row, share=row.effect.value / moved) if moved and row.effect else row for row in rows]
    effects = {row.name: row.effect.value for row in factors if row.effect}
    left = whole.change.value - sum(effects.values()) if {"tokens_per_cycle", "cycle_ms"} <= effects.keys() else 0.0
    named = [replace(row, origin=origins.get(row.name, "")) for row in (whole, *shared)]
    return named, left if abs(left) > UNACCOUNTED else 0.0


def _verdict(primary: Row | None, obstacles: bool) -> Verdict:
    if obstacles:
        return "not comparable"
    if primary is None or primary.change is None:
        return "cannot tell"
    if primary.answer != "differs":
        return primary.answer
    better = primary.change.value > 0
    return "faster" if better != primary.name.endswith("_ms") else "slower"

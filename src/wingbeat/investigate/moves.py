"""The shape of a change: which quantities moved with the speed, which stayed, and which are not known."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

from wingbeat.investigate import courses
from wingbeat.investigate.compare import Comparison
from wingbeat.investigate.pair import Row, named
from wingbeat.measure.replicates import answer, change

Seen = Literal["moved", "stayed", "unclear"]
QUANTITIES = {
    "tokens": "tokens_per_cycle", "draft": "draft_ms", "verify": "verify_ms", "accept": "accept_ms",
    "extend": "extend_ms", "host": "host_ms", "plain": "tokens_per_second", "prefill": "prefill_ms",
}  # fmt: skip
MOVED, STAYED = 0.4, 0.2  # of the whole change (log ratios): at least so much, at most so much
TAKEN = 0.35  # of the whole change, from which a quantity that should stay did not


@dataclass(frozen=True)
class Move:
    """One quantity. own: its change as a log ratio, above zero where it is for the better, give or take `give` (0:
    launches do not say); share: of the change of tokens a second."""

    name: str
    before: float
    after: float
    own: float
    share: float
    give: float = 0.0

    @property
    def text(self) -> str:
        """The quantity with both levels."""
        title = {"tokens": "tokens per cycle", "plain": "plain decoding", "host": "the rest of the cycle"}
        unit = {"tokens": "", "plain": " tok/s"}.get(self.name, " ms")
        return f"{title.get(self.name, self.name)} {self.before:.4g} to {self.after:.4g}{unit}"


@dataclass(frozen=True)
class Moves:
    """total: the log change of speed, above zero for faster; None where nothing certainly moved. by: what is known.
    machine: what plain decoding of the same launches did (log ratio), which is taken out of all changes (None: they are
    as they are). by_tokens: the speed itself varies too much to tell, and `total` is what tokens per cycle did to it.
    """

    total: float | None
    by: dict[str, Move]
    machine: float | None = None
    by_tokens: bool = False

    def with_it(self, name: str) -> Seen:
        """Whether a quantity moved the way and about as much as the speed did."""
        move = self.by.get(name)
        if move is None or not self.total:
            return "unclear"
        ratio, give = move.own / self.total, move.give / abs(self.total)
        return "moved" if ratio >= MOVED else "stayed" if ratio < STAYED and ratio + give < MOVED else "unclear"

    def still(self, name: str) -> Seen:
        """Whether a quantity took no part in the change."""
        move = self.by.get(name)
        if move is None or not self.total:
            return "unclear"
        if abs(move.share) >= TAKEN:
            return "moved" if abs(move.own) > move.give else "unclear"
        return "stayed" if abs(move.share) < STAYED else "unclear"


def seen(found: Comparison, like: Moves | None = None) -> Moves:
    """The shape of a comparison's change. like: that of another one, to be taken in the same way."""
    beside = _is_beside(found) if like is None else like.machine is not None and bool(found.beside)
    rows = found.beside if beside else found.rows
    total, by_tokens = _total(found, rows, like is not None and like.by_tokens)
    machine = found.control.change.value if beside and found.control and found.control.change else None
    if total is None:
        return Moves(None, {}, machine)
    moves = [_move(found, rows, machine, name, total) for name in QUANTITIES]
    return Moves(total, {move.name: move for move in moves if move}, machine, by_tokens)


def speed(found: Comparison, rows: list[Row]) -> Row | None:
    """The row of the speed among rows of a comparison."""
    return named(rows, "tokens_per_second") or found.primary


def _is_beside(found: Comparison) -> bool:
    """Whether the change is one beside plain decoding: it does not go along, and the speed alone tells no more."""
    own, plain, beside = found.primary, found.control, speed(found, found.beside)
    if not (found.beside and own and own.change and plain and plain.change and beside) or own.answer == "same":
        return False
    along = own.change.value and plain.change.value / own.change.value >= MOVED
    if plain.answer == "differs" and along:
        return False
    return beside.answer == "differs" or own.answer != "differs"


def _total(found: Comparison, rows: list[Row], tokens_alone: bool) -> tuple[float | None, bool]:
    """The certain log change of speed, and whether tokens per cycle alone show it."""
    row = speed(found, rows)
    if row is None or row.change is None or (found.obstacles and row.name != "tokens_per_second"):
        return _apparent(found)
    if row.answer == "differs" and not tokens_alone:
        return (-1 if row.name.endswith("_ms") else 1) * row.change.value, False
    tokens = found.row("tokens_per_cycle") if row.answer == "cannot tell" or tokens_alone else None
    return (tokens.change.value if tokens and tokens.change and tokens.answer == "differs" else None), True


def _apparent(found: Comparison) -> tuple[float | None, bool]:
    """The same from levels that may not be compared as they are."""
    for name, sign in (("tokens_per_second", 1), ("cycle_ms", -1), ("tokens_per_cycle", 1)):
        sides = [courses.logs(one, name) for one in (found.before, found.after)]
        if all(sides) and answer(moved := change(sides[0], sides[1]), found.same_within) == "differs":
            return sign * moved.value, name == "tokens_per_cycle"
    return None, False


def _move(found: Comparison, rows: list[Row], machine: float | None, name: str, total: float) -> Move | None:
    if name == "plain":
        move = _of_row(name, found.control, total)
        return replace(move, own=0.0, share=0.0) if move and machine is not None else move
    if name == "prefill":
        levels = [courses.prefill(one) for one in (found.before, found.after)]
        return _of_levels(name, levels[0], levels[1], total, machine or 0.0)
    row = named(rows, QUANTITIES[name]) or (named(rows, "rest_ms") if name == "host" else None)
    return _of_row(name, row, total) or _raw(found, name, total)


def _of_row(name: str, row: Row | None, total: float) -> Move | None:
    if row is None or row.change is None:
        return None
    own = -row.change.value if row.name.endswith("_ms") else row.change.value
    effect = row.effect.value if row.effect else own
    give = 0.0 if row.change.basis == "assumed" else row.change.half
    return Move(name, row.before, row.after, own, effect / total, give)


def _raw(found: Comparison, name: str, total: float) -> Move | None:
    """From levels that may not be compared as they are."""
    if not found.obstacles:
        return None
    levels = [courses.level(one, QUANTITIES[name]) for one in (found.before, found.after)]
    return _of_levels(name, levels[0], levels[1], total)


def _of_levels(name: str, before: float | None, after: float | None, total: float, machine: float = 0.0) -> Move | None:
    if not before or not after:
        return None
    own = math.log(after / before) * (1 if name == "tokens" else -1) - machine
    return Move(name, before, after, own, own / total)

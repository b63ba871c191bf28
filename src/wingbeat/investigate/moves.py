"""The shape of a change: which quantities moved with the speed, which stayed, and which are not known."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from wingbeat.investigate import courses
from wingbeat.investigate.compare import Comparison
from wingbeat.investigate.pair import Row

Seen = Literal["moved", "stayed", "unclear"]
QUANTITIES = {
    "tokens": "tokens_per_cycle", "draft": "draft_ms", "verify": "verify_ms", "accept": "accept_ms",
    "extend": "extend_ms", "host": "host_ms", "plain": "tokens_per_second", "prefill": "prefill_ms",
}  # fmt: skip
MOVED, STAYED = 0.4, 0.2  # of the whole change (log ratios): at least so much, at most so much
TAKEN = 0.35  # of the whole change, from which a quantity that should stay did not
APPARENT = 0.1  # change of two figures that may not be compared, from which they are another


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
    beside: the change is that of the speed beside plain decoding in the same launches, and so is `by`. by_tokens: the
    speed itself varies too much to tell, and `total` is what tokens per cycle did to it."""

    total: float | None
    by: dict[str, Move]
    beside: bool = False
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


def seen(found: Comparison) -> Moves:
    """The shape of a comparison's change."""
    rows, total, by_tokens = _told(found)
    if total is None:
        return Moves(None, {})
    moves = [_move(found, rows, name, total) for name in QUANTITIES]
    return Moves(total, {move.name: move for move in moves if move}, rows is found.beside, by_tokens)


def speed(found: Comparison) -> Row | None:
    """The row that says how the speed changed: beside plain decoding where the change is there."""
    return _beside(found) or found.primary


def _beside(found: Comparison) -> Row | None:
    """The change of speed beside plain decoding; None where it is not known, or plain decoding changed by more."""
    row = next((row for row in found.beside if row.name == "tokens_per_second"), None)
    plain = found.control
    if found.verdict == "same" or row is None or row.change is None or plain is None or plain.change is None:
        return None
    return None if plain.answer == "differs" and abs(plain.change.value) >= abs(row.change.value) else row


def _told(found: Comparison) -> tuple[list[Row], float | None, bool]:
    """The rows to go by, the change of speed, and whether tokens per cycle alone show it."""
    primary, beside = found.primary, _beside(found)
    if primary is None or primary.change is None or (found.obstacles and primary.name != "tokens_per_second"):
        return found.rows, _apparent(found), False
    if beside and beside.change and beside.answer == "differs":
        return found.beside, beside.change.value, False
    if primary.answer == "differs":
        return found.rows, (-1 if primary.name.endswith("_ms") else 1) * primary.change.value, False
    tokens = found.row("tokens_per_cycle") if primary.answer == "cannot tell" else None
    moved = tokens.change.value if tokens and tokens.change and tokens.answer == "differs" else None
    return found.beside if beside else found.rows, moved, True


def _apparent(found: Comparison) -> float | None:
    """From levels that may not be compared as they are."""
    for name, sign in (("tokens_per_second", 1), ("cycle_ms", -1)):
        levels = [courses.level(one, name) for one in (found.before, found.after)]
        if levels[0] and levels[1]:
            change = sign * math.log(levels[1] / levels[0])
            return change if abs(change) > APPARENT else None
    return None


def _move(found: Comparison, rows: list[Row], name: str, total: float) -> Move | None:
    if name == "plain" and found.control and rows is found.beside:
        return Move(name, found.control.before, found.control.after, 0.0, 0.0)  # what all else is held against
    if name == "plain":
        return _of_row(name, found.control, total)
    if name == "prefill":
        levels = [courses.prefill(one) for one in (found.before, found.after)]
        return _of_levels(name, levels[0], levels[1], total)
    known = {row.name: row for row in rows}
    row = known.get(QUANTITIES[name]) or (known.get("rest_ms") if name == "host" else None)
    return _of_row(name, row, total) or _raw(found, name, total)


def _of_row(name: str, row: Row | None, total: float) -> Move | None:
    if row is None or row.change is None:
        return None
    own = -row.change.value if row.name.endswith("_ms") else row.change.value
    effect = row.effect.value if row.effect else own
    give = row.change.half if row.change.basis in ("launches", "pairs") else 0.0
    return Move(name, row.before, row.after, own, effect / total, give)


def _raw(found: Comparison, name: str, total: float) -> Move | None:
    """From levels that may not be compared as they are."""
    if not found.obstacles:
        return None
    levels = [courses.level(one, QUANTITIES[name]) for one in (found.before, found.after)]
    return _of_levels(name, levels[0], levels[1], total)


def _of_levels(name: str, before: float | None, after: float | None, total: float) -> Move | None:
    if not before or not after:
        return None
    own = math.log(after / before) * (1 if name in ("tokens", "plain") else -1)
    return Move(name, before, after, own, own / total)

"""How much to draft in a cycle, including nothing.

Two figures decide, both measured on the way for each batch size and length of context: what a token costs without
drafting, and what it costs with it. While drafting pays, a further token is drafted as long as its chance of being
accepted is worth more than what drafting and verifying it costs (eagle3.md 4 and 7 have the arithmetic). While it does
not, nothing is drafted, and a few cycles now and then try again, as rarely as they are dear.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from wingbeat.engine.observe import CycleFacts
from wingbeat.engine.settings import Budget

MEMORY = 0.97  # weight of what was known before a request's cycle: about the last 30 count
MOST_ROWS = 4  # requests of a batch that count for memory
ACCEPTED = 0.6  # assumed of a drafted token before any was verified
EXTRA, EACH = 0.12, 0.07  # assumed cost of drafting and of each drafted token, in plain cycles, before it is measured
EACH_ROW = 0.03  # and of verifying it, for each request of the batch
MARGIN = 0.03  # drafting comes back when it is this much cheaper
LEAST = 5  # requests' drafting cycles before their cost is believed
BURST = 5  # cycles of a trial; the first catches up
TRIAL_TOKENS = 32  # that verify looks at in a trial, at most, in a large batch
TRIALS = 0.015  # of the time may be lost to trials
HOPELESS, ENOUGH = 0.1, 15  # a trial that costs so much more ends after so many requests' cycles
SHORTEST_WAIT, LONGEST_WAIT = 16, 1024  # plain cycles between trials
REFRESH = 64  # drafting cycles after which a plain one is measured again
OUTLIER = 4.0  # a cycle that took this many times what was expected counts as that much
FIXED, PAYS, LOSES = "fixed", "drafting pays", "drafting does not pay"  # the reasons of a budget
TRIAL, MEASURING = "trial", "measuring a plain cycle"


class Policy(Protocol):
    """Decides each cycle, and learns from it."""

    def plan(self, batch: int, context: int, joined: bool) -> Budget:
        """For `batch` requests of `context` tokens on average; the cycle begins. joined: one of them is new, so that
        a drafter has its prompt to catch up on."""

    def learn(self, facts: CycleFacts) -> None:
        """The cycle that was planned last is over."""


class FixedPolicy:
    """Always `steps` steps."""

    def __init__(self, steps: int) -> None:
        self._budget = Budget(steps, reason=FIXED)

    def plan(self, batch: int, context: int, joined: bool) -> Budget:
        return self._budget

    def learn(self, facts: CycleFacts) -> None:
        return None


@dataclass
class Mean:
    """A mean that forgets."""

    total: float = 0.0
    weight: float = 0.0

    def add(self, value: float, memory: float = MEMORY) -> None:
        self.total, self.weight = self.total * memory + value, self.weight * memory + 1

    def aged(self) -> Mean:
        """As if one value had given it: the next ones soon outweigh it."""
        return Mean(self.total / self.weight, 1.0) if self.weight else Mean()

    def value(self, prior: float, strength: float) -> float:
        """`prior` counts as much as `strength` values."""
        return (self.total + prior * strength) / (self.weight + strength)


@dataclass
class Line:
    """What x drafted tokens cost, as a straight line through what was seen last."""

    x: Mean = field(default_factory=Mean)
    y: Mean = field(default_factory=Mean)
    xx: Mean = field(default_factory=Mean)
    xy: Mean = field(default_factory=Mean)

    def add(self, x: float, y: float) -> None:
        for mean, value in ((self.x, x), (self.y, y), (self.xx, x * x), (self.xy, x * y)):
            mean.add(value)

    def aged(self) -> Line:
        """As if one value had given it."""
        return Line(self.x.aged(), self.y.aged(), self.xx.aged(), self.xy.aged())

    def slope(self, assumed: Sequence[tuple[float, float]]) -> float:
        """With some points (x, y) taken for granted."""
        n = self.x.weight + len(assumed)
        x, y = (mean.total + sum(p[i] for p in assumed) for i, mean in enumerate((self.x, self.y)))
        xx = self.xx.total + sum(p[0] ** 2 for p in assumed)
        xy = self.xy.total + sum(p[0] * p[1] for p in assumed)
        return (xy - x * y / n) / (xx - x * x / n)


@dataclass
class Cell:
    """What is known for one batch size and length of context: ms of plain cycles, ms of drafting cycles by drafted
    tokens a request; of the last drafting cycles, ms and tokens for each request."""

    batch: int
    plain: Mean = field(default_factory=Mean)
    drafting: Line = field(default_factory=Line)
    spent: Mean = field(default_factory=Mean)
    tokens: Mean = field(default_factory=Mean)
    is_on: bool = True
    cycles: int = 0  # since plain was measured last (on), or since the last trial (off)
    wait: float = 0.0
    trial: int = 0  # cycles that are left of a trial
    lost: float = 0.0  # ms in it, against plain cycles with as many tokens

    def __post_init__(self) -> None:
        self.wait = self.wait or _wait(BURST * (EXTRA + self.each))

    @property
    def each(self) -> float:
        """What a drafted token costs, in plain cycles, before it is measured."""
        return EACH + EACH_ROW * self.batch

    @property
    def plain_ms(self) -> float:
        return self.plain.total / self.plain.weight

    @property
    def is_believed(self) -> bool:
        """Whether enough drafting cycles were seen to go by what they cost."""
        return self.tokens.weight > max(1.5, LEAST / self.batch)

    @property
    def slope(self) -> float:
        """Milliseconds of a drafted token. Where all cycles drafted alike, what they cost beyond a plain one tells."""
        base = self.plain_ms * (1 + EXTRA)
        slope = self.drafting.slope(((0.0, base), (0.0, base), (1.0, base + self.each * self.plain_ms)))
        return max(slope, 0.01 * self.plain_ms)

    def next_to(self) -> Cell:
        """A cell for the same batch and another length, to be corrected soon."""
        means = (self.plain.aged(), self.drafting.aged(), self.spent.aged(), self.tokens.aged())
        return Cell(self.batch, *means, is_on=self.is_on, wait=self.wait)

    def begin_trial(self) -> None:
        self.trial, self.lost, self.spent, self.tokens = BURST, 0.0, Mean(), Mean()

    def add_drafting(self, drafted: float, ms: float, tokens: float) -> None:
        """A cycle with so many drafted tokens a request, and as many tokens committed."""
        memory = MEMORY ** min(self.batch, MOST_ROWS)
        self.drafting.add(drafted, ms)
        self.spent.add(ms, memory)
        self.tokens.add(tokens, memory)

    def add_plain(self, ms: float) -> None:
        """While drafting goes on, plain cycles are rare, and the machine may have changed since the last one."""
        usual = self.plain_ms if self.plain.weight else ms
        if self.is_on and self.plain.weight > 1.5:
            self.plain = self.plain.aged()
        self.plain.add(min(ms, OUTLIER * usual))
        self.cycles = 0 if self.is_on else self.cycles + 1

    def go_on_with_trial(self, ms: float, tokens: float) -> None:
        """After one of its cycles. It ends early where it has seen enough of a loss."""
        self.trial -= 1
        self.lost += ms - tokens * self.plain_ms
        cost = self.spent.total / self.tokens.total / self.plain_ms if self.tokens.weight else 0.0
        is_hopeless = cost > 1 + HOPELESS and self.tokens.weight > max(1.5, ENOUGH / self.batch)
        if self.trial and not is_hopeless:
            return
        self.trial, self.is_on, self.cycles = 0, cost < 1 - MARGIN, 0
        self.wait = _wait(self.lost / self.plain_ms * (2 if is_hopeless else 1))


def _wait(lost: float) -> float:
    """Plain cycles after which a trial may lose as much, in plain cycles."""
    return min(max(lost / TRIALS, SHORTEST_WAIT), LONGEST_WAIT)


class AutoPolicy:
    """Drafts as long as it pays. most: steps at most. heeds_floor: the drafter stops at a budget's floor; for one that
    does not, the steps are chosen by acceptance at each depth. clock: seconds, as time.perf_counter."""

    def __init__(self, most: int, heeds_floor: bool, clock: Callable[[], float] = time.perf_counter) -> None:
        self._most, self._heeds_floor, self._clock = most, heeds_floor, clock
        self._cells: dict[tuple[int, int], Cell] = {}
        self._rates = [Mean() for _ in range(most)]  # of acceptance at each depth, where the one before was accepted
        self._accepted, self._expected = Mean(), Mean()  # tokens a cycle, in fact and by the drafter's account
        self._cell, self._budget, self._begun, self._is_odd = Cell(1), Budget(0), 0.0, False

    def plan(self, batch: int, context: int, joined: bool) -> Budget:
        key = (batch, max(context, 64).bit_length())
        if key not in self._cells:
            self._cells[key] = self._new_cell(*key)
        self._cell = self._cells[key]
        self._budget = self._decide(self._cell)
        self._is_odd = joined or self._cell.trial == BURST  # catches up, which later cycles need not
        self._begun = self._clock()
        return self._budget

    def _new_cell(self, batch: int, length: int) -> Cell:
        """Starts from the same batch at the nearest length, if there is one."""
        lengths = [known for size, known in self._cells if size == batch]
        if not lengths:
            return Cell(batch)
        return self._cells[batch, min(lengths, key=lambda known: abs(known - length))].next_to()

    def _decide(self, cell: Cell) -> Budget:
        if cell.plain.weight < 1.5 or (cell.is_on and cell.cycles >= REFRESH):
            return Budget(0, reason=MEASURING)
        if cell.is_on and not cell.trial and self._drafting_ms(cell) > cell.plain_ms:
            cell.is_on, cell.cycles = False, 0
        if not cell.is_on and not cell.trial and cell.cycles >= cell.wait:
            cell.begin_trial()
        if cell.trial:
            return self._draft(cell, TRIAL)
        return self._draft(cell, PAYS) if cell.is_on else Budget(0, reason=LOSES)

    def _draft(self, cell: Cell, reason: str) -> Budget:
        """Up to where, by acceptance so far or by the drafter's account, one token more costs more than it brings."""
        if not self._heeds_floor:
            return Budget(self._cheapest(cell), reason=reason)
        if cell.trial and cell.drafting.x.total < BURST:
            return Budget(1, reason=reason)  # what is only assumed must not forbid every trial
        most = min(self._most, max(1, TRIAL_TOKENS // cell.batch - 1)) if cell.trial else self._most
        trust = (self._accepted.total + 4) / (self._expected.total + 4)
        worth = cell.slope / min(cell.plain_ms, self._drafting_ms(cell))  # the chance that pays for itself
        return Budget(most, math.log(min(1.0, worth / trust)), reason)

    def _drafting_ms(self, cell: Cell) -> float:
        """Milliseconds a token if a cycle drafts: as measured, or as assumed while there is little to go by."""
        if cell.is_believed:
            return cell.spent.total / cell.tokens.total
        return self._assumed(cell, self._cheapest(cell))

    def _assumed(self, cell: Cell, steps: int) -> float:
        """Milliseconds a token with so many steps."""
        tokens = chance = 1.0
        for rate in self._rates[:steps]:
            chance *= rate.value(ACCEPTED, 4)
            tokens += chance
        return (cell.plain_ms * (1 + EXTRA) + cell.slope * steps) / tokens

    def _cheapest(self, cell: Cell) -> int:
        """The number of steps at which a token is expected to be cheapest."""
        return min(range(1, self._most + 1), key=lambda steps: self._assumed(cell, steps))

    def learn(self, facts: CycleFacts) -> None:
        if facts.captured:
            return
        ms, cell = 1e3 * (self._clock() - self._begun), self._cell
        if not self._budget.steps:
            cell.add_plain(ms)
            return
        self._count(facts)
        cell.cycles += 1
        tokens = sum(facts.accepted) / facts.batch + 1
        if not self._is_odd:
            cell.add_drafting(sum(facts.drafted) / facts.batch, min(ms, OUTLIER * cell.plain_ms), tokens)
        if cell.trial:
            cell.go_on_with_trial(ms, tokens)

    def _count(self, facts: CycleFacts) -> None:
        for drafted, accepted in zip(facts.drafted, facts.accepted, strict=True):
            for depth in range(min(drafted, accepted + 1, self._most)):
                self._rates[depth].add(accepted > depth)
        if facts.expected:
            self._accepted.add(sum(facts.accepted))
            self._expected.add(sum(facts.expected))

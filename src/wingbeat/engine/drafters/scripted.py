"""A drafter that proposes what a function says: for tests, trials and upper bounds."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from torch import Tensor

from wingbeat.engine.drafters.rows import Rows
from wingbeat.engine.observe import Observer, Unobserved
from wingbeat.engine.settings import Budget
from wingbeat.engine.tree import Tree

Script = Callable[[Sequence[int]], tuple[Sequence[int], Sequence[int]]]


class ScriptedDrafter:
    """`script(history)` gives (tokens, parents) with parents as node numbers: 0 the root, i + 1 token i."""

    taps: tuple[int, ...] = ()
    heeds_floor = False
    observer: Observer = Unobserved()

    def __init__(self, script: Script, num_nodes: int) -> None:
        self.steps = self.num_nodes = num_nodes
        self._script = script
        self._rows: Rows[Sequence[int]] = Rows()

    def begin(self, row: int, history: Sequence[int]) -> None:
        self._rows.begin(row, history)

    def observe(self, first: int, tokens: Tensor, taps: Tensor, counts: Sequence[int]) -> None:
        return None

    def propose(self, roots: Tensor, budget: Budget) -> Tree:
        return Tree.from_lists(roots, [self._script(self._rows[row]) for row in range(len(roots))])

    def forget(self, row: int, last: int) -> None:
        self._rows.forget(row, last)

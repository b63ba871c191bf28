"""No drafter: each cycle verifies the root alone, which is plain decoding."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from wingbeat.engine.observe import Observer, Unobserved
from wingbeat.engine.settings import Budget
from wingbeat.engine.tree import Tree


class NoDrafter:
    """Proposes nothing."""

    taps: tuple[int, ...] = ()
    steps = num_nodes = 0
    heeds_floor = False
    observer: Observer = Unobserved()

    def begin(self, row: int, history: Sequence[int]) -> None:
        return None

    def observe(self, first: int, tokens: Tensor, taps: Tensor, counts: Sequence[int]) -> None:
        return None

    def propose(self, roots: Tensor, budget: Budget) -> Tree:
        return Tree.root_only(roots)

    def forget(self, row: int, last: int) -> None:
        return None

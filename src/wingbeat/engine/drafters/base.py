"""What every drafter can do. The cycle never asks which one it has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from torch import Tensor

from wingbeat.engine.observe import Observer
from wingbeat.engine.settings import Budget
from wingbeat.engine.tree import Tree


class Drafter(Protocol):
    """Rows are those of the target's cache. `taps` are the target's layers it wants to see, `steps` and `num_nodes` the
    most tokens it drafts a cycle, in depth and in all, `heeds_floor` whether it stops at a budget's floor."""

    taps: tuple[int, ...]
    steps: int
    num_nodes: int
    heeds_floor: bool
    observer: Observer

    def begin(self, row: int, history: Sequence[int]) -> None:
        """A request starts in `row`. `history` is its live list of tokens, prompt first; only to be read."""

    def observe(self, first: int, tokens: Tensor, taps: Tensor, counts: Sequence[int]) -> None:
        """The target has seen more of rows first, first + 1, ...: taps [R, K, T] of counts[r] positions each, and
        tokens [R, K], the token that followed each of these positions."""

    def propose(self, roots: Tensor, budget: Budget) -> Tree:
        """A tree for rows 0 .. B-1 below roots [B], their last committed tokens: at most budget.steps deep."""

    def forget(self, row: int, last: int) -> None:
        """The request of `row` has left; row `last` (the highest, maybe the same) takes its place."""

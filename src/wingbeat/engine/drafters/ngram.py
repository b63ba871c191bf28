"""Prompt look-up: what followed the last few tokens the last time they occurred."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from wingbeat.engine.drafters.rows import Rows
from wingbeat.engine.observe import Observer, Unobserved
from wingbeat.engine.settings import Budget
from wingbeat.engine.tree import Tree

LONGEST, SHORTEST = 4, 2  # tokens that must recur; the longest recurrence wins


class _Index:
    """Where each n-gram of a growing history ended last, apart from the n-grams at its very end."""

    def __init__(self, history: Sequence[int]) -> None:
        self.history = history
        self._ends: dict[tuple[int, ...], int] = {}
        self._indexed = 0

    def lookup(self, count: int) -> Sequence[int]:
        """Up to `count` tokens that followed the present ending before; empty if it never occurred."""
        self._update()
        for size in range(LONGEST, SHORTEST - 1, -1):
            end = self._ends.get(tuple(self.history[-size:])) if len(self.history) > size else None
            if end is not None:
                return self.history[end : end + count]
        return ()

    def _update(self) -> None:
        history = self.history
        for end in range(self._indexed + 1, len(history)):  # an n-gram that ends before the last token
            for size in range(SHORTEST, min(LONGEST, end) + 1):
                self._ends[tuple(history[end - size : end])] = end
        self._indexed = max(self._indexed, len(history) - 1)


class NgramDrafter:
    """Proposes a chain of up to `steps` tokens."""

    taps: tuple[int, ...] = ()
    heeds_floor = False
    observer: Observer = Unobserved()

    def __init__(self, steps: int) -> None:
        self.steps = self.num_nodes = steps
        self._rows: Rows[_Index] = Rows()

    def begin(self, row: int, history: Sequence[int]) -> None:
        self._rows.begin(row, _Index(history))

    def observe(self, first: int, tokens: Tensor, taps: Tensor, counts: Sequence[int]) -> None:
        return None

    def propose(self, roots: Tensor, budget: Budget) -> Tree:
        found = [self._rows[row].lookup(budget.steps) for row in range(len(roots))]
        width = max(map(len, found))
        drafts = torch.tensor([[*tokens, *[0] * (width - len(tokens))] for tokens in found], dtype=torch.int64)
        valid = torch.tensor([[place < len(tokens) for place in range(width)] for tokens in found], dtype=torch.bool)
        tokens = torch.cat((roots[:, None], drafts.reshape(len(found), width).to(roots.device)), dim=1)
        return Tree.chain(tokens, valid.reshape(len(found), width).to(roots.device))

    def forget(self, row: int, last: int) -> None:
        self._rows.forget(row, last)

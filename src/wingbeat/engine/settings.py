"""What a user may choose about the engine. Frozen; `LLM` reports what was requested and what came of it."""

from __future__ import annotations

import math
from dataclasses import dataclass

from wingbeat.errors import UsageError

DRAFTERS = ("none", "ngram", "eagle3")
MOST_STEPS, MOST_TOPK, MOST_NODES = 64, 64, 512
AUTO_STEPS = 6  # at most, where it is decided each cycle how many


@dataclass(frozen=True, kw_only=True)
class DraftSettings:
    """How tokens are proposed.

    steps: tokens drafted one after the other (depth of the tree). topk: branches a node; 1 is a chain, more a
    dynamic tree (EAGLE-2). nodes: drafted tokens that verify looks at besides the root, so verify's width is
    nodes + 1; by default `steps` for a chain, 3 * steps for a tree. auto: draft as much as pays, up to this, and
    nothing while it does not. extend: verify as prefill runs, not as decode does, to see what that costs.
    """

    drafter: str = "eagle3"
    steps: int = 4
    topk: int = 1
    nodes: int | None = None
    auto: bool = False
    extend: bool = False

    def __post_init__(self) -> None:
        if self.drafter not in DRAFTERS:
            raise UsageError(f"unknown drafter {self.drafter!r}; known: {', '.join(DRAFTERS)}")
        if self.steps < 1 or self.topk < 1 or (self.nodes is not None and self.nodes < 1):
            raise UsageError("steps, topk and nodes must be at least 1; use drafter 'none' to draft nothing")
        if self.steps > MOST_STEPS or self.topk > MOST_TOPK or (self.nodes or 1) > MOST_NODES:
            raise UsageError(f"at most {MOST_STEPS} steps, topk {MOST_TOPK} and {MOST_NODES} nodes")
        if self.drafter == "ngram" and self.topk > 1:
            raise UsageError("the n-gram drafter proposes a chain; topk must be 1")

    @property
    def num_nodes(self) -> int:
        """Drafted nodes a cycle at most."""
        pool = self.topk + (self.steps - 1) * self.topk**2
        wanted = self.nodes or (self.steps if self.topk == 1 else 3 * self.steps)
        return min(wanted, pool)


@dataclass(frozen=True)
class Budget:
    """How much a cycle may draft: at most `steps` tokens one after the other (0: nothing), and none that is less
    probable than exp(floor) by the drafter's own account. reason: why, for the record."""

    steps: int
    floor: float = -math.inf
    reason: str = ""


@dataclass(frozen=True, kw_only=True)
class Limits:
    """max_batch: requests that run at once. context: prompt and output tokens a request may hold together
    (None: the model's own limit, at most 4096). prefill_chunk: prompt tokens a forward takes at most. eager: forwards
    are launched operation by operation even on a GPU, where they are captured otherwise."""

    max_batch: int = 4
    context: int | None = None
    prefill_chunk: int = 512
    eager: bool = False

    def __post_init__(self) -> None:
        if self.max_batch < 1 or self.prefill_chunk < 1 or (self.context is not None and self.context < 2):
            raise UsageError("max_batch and prefill_chunk must be at least 1, context at least 2")

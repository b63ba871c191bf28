"""What the engine tells whoever watches. The engine reads no clock: an observer does, or nobody."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Protocol

PHASES = ("prefill", "draft", "extend", "verify", "accept", "commit")  # a phase inside another is not counted with it


@dataclass(frozen=True)
class CycleFacts:
    """One cycle; the tuples have one entry a request, in row order.

    contexts: tokens in the cache before the cycle. drafted: tokens proposed. accepted: drafted tokens that the
    target agreed with. committed: tokens appended (accepted + 1, fewer where a stop cut them off).
    width: tokens a request that verify looked at. path: which kind of forward verify was ("eager", ...).
    expected: accepted tokens by the drafter's account (empty: it gives none). reason: of how much was drafted.
    captured: forwards were captured on the way, which took time that later cycles do not take.
    """

    batch: int
    contexts: tuple[int, ...]
    drafted: tuple[int, ...]
    accepted: tuple[int, ...]
    committed: tuple[int, ...]
    width: int
    path: str
    expected: tuple[float, ...] = ()
    reason: str = ""
    captured: bool = False


class Observer(Protocol):
    """Whoever watches the engine."""

    def phase(self, name: str) -> AbstractContextManager[object]:
        """Entered when a phase (one of PHASES) begins, left when it ends."""

    def cycle(self, facts: CycleFacts) -> None:
        """Called at the end of every cycle."""


class Unobserved:
    """Nobody watches."""

    _nothing: AbstractContextManager[object] = nullcontext()

    def phase(self, name: str) -> AbstractContextManager[object]:
        return self._nothing

    def cycle(self, facts: CycleFacts) -> None:
        return None

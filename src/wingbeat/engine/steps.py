"""Forwards of the target, behind one interface. `path` names the kind, for records and warnings."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from wingbeat.model.attention import KV
from wingbeat.model.layers import ForwardInputs
from wingbeat.model.target import Target


class EagerStep:
    """The reference: every operation launched by Python."""

    path = "eager"

    def __init__(self, target: Target, taps: tuple[int, ...]) -> None:
        self.target, self.taps = target, taps

    def prefill(self, inputs: ForwardInputs, caches: Sequence[KV]) -> Tensor:
        """Fills the caches; returns the taps [B, N, T]."""
        return self.target(inputs, caches, self.taps).taps

    def __call__(self, inputs: ForwardInputs, caches: Sequence[KV]) -> tuple[Tensor, Tensor]:
        """Decode (N = 1) and verify (N > 1): logits [B, N, V] and taps [B, N, T]."""
        output = self.target(inputs, caches, self.taps)
        return self.target.logits(output.hidden), output.taps

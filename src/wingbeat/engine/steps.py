"""Forwards of the target, behind one interface: decode, verify and prefill are the same step at other widths."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from wingbeat.model.attention import KV
from wingbeat.model.layers import ForwardInputs
from wingbeat.model.native import NativeTarget
from wingbeat.model.target import Target


class Step:
    """`path` names the kind of forward, for records and warnings: "native" (one C call) or "eager" (the reference)."""

    def __init__(self, target: Target | NativeTarget, taps: tuple[int, ...]) -> None:
        self.target, self.taps, self.path = target, taps, target.path

    def prefill(self, inputs: ForwardInputs, caches: Sequence[KV]) -> Tensor:
        """Fills the caches; returns the taps [B, N, T]."""
        return self.target(inputs, caches, self.taps).taps

    def __call__(self, inputs: ForwardInputs, caches: Sequence[KV]) -> tuple[Tensor, Tensor]:
        """Decode (N = 1) and verify (N > 1): logits [B, N, V] and taps [B, N, T]."""
        output = self.target(inputs, caches, self.taps)
        return self.target.logits(output.hidden), output.taps

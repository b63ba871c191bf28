"""Forwards of the target, behind one interface: decode, verify and prefill are the same step at other widths."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from wingbeat.engine.graphs import Runner
from wingbeat.engine.kv_cache import KVCache
from wingbeat.model.attention import KV
from wingbeat.model.layers import ForwardInputs
from wingbeat.model.native import NativeTarget
from wingbeat.model.target import Target


class Step:
    """A target on a cache, whose first rows it reads and writes.

    `path` names the kind of forward, for records and warnings: "native" (one C call), "graph" (one launch of what was
    captured), "eager" (the reference) or "extend". Outputs of a captured step hold until anything captured runs again.
    extend: an eager target that verifies instead, as servers do whose verify is a prefill: to see what that costs.
    """

    def __init__(
        self, target: Target | NativeTarget, taps: tuple[int, ...], cache: KVCache, runner: Runner | None = None,
        extend: Target | None = None,
    ) -> None:
        self.target, self.taps, self.cache, self._extend = target, taps, cache, extend
        self._run = runner or Runner(None, len(cache.lengths))
        self._extended = False

    @property
    def path(self) -> str:
        """Of the last decode or verify."""
        if self._extended:
            return "extend"
        return self.target.path if self._run.path == "eager" else self._run.path

    @property
    def captures(self) -> bool:
        """Whether forwards are captured, so that it pays to keep the step."""
        return self._run.captures

    @property
    def because(self) -> str | None:
        """Why forwards that should be captured are not."""
        return self._run.because

    def prefill(self, inputs: ForwardInputs, caches: Sequence[KV]) -> Tensor:
        """Fills the caches; returns the taps [B, N, T]. Never captured: long blocks keep the device busy anyway."""
        return self.target(inputs, caches, self.taps).taps

    def __call__(self, inputs: ForwardInputs) -> tuple[Tensor, Tensor]:
        """Decode (N = 1) and verify (N > 1) of rows 0 .. B-1: logits [B, N, V] and taps [B, N, T]."""
        width = inputs.tokens.shape[1]
        self._extended = width > 1 and self._extend is not None
        if self._extended:
            return self._forward(*_tensors(inputs), columns=inputs.length)
        logits, taps = self._run(self._forward, _tensors(inputs), columns=inputs.length)
        return (logits[:, :width], taps[:, :width]) if self.captures else (logits, taps)

    def _forward(self, tokens: Tensor, starts: Tensor, *given: Tensor, columns: int) -> tuple[Tensor, Tensor]:
        target = self._extend if self._extended and self._extend else self.target
        positions, mask = given or (None, None)
        inputs = ForwardInputs(tokens, positions, starts, mask, columns)
        output = target(inputs, self.cache.rows(0, len(tokens)), self.taps)
        return target.logits(output.hidden), output.taps


def _tensors(inputs: ForwardInputs) -> tuple[Tensor, ...]:
    """What a captured forward is given; the rest follows from it."""
    if inputs.mask is None or inputs.positions is None:
        return inputs.tokens, inputs.starts
    return inputs.tokens, inputs.starts, inputs.positions, inputs.mask

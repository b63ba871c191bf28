"""A request: its prompt, how to sample, what has been committed, and when it ends."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from wingbeat.errors import UsageError

# the largest uniform number drawn: below 1, so that rounding cannot carry a draw past the last possible token
MAX_UNIFORM = 1 - 1e-6


@dataclass(frozen=True, kw_only=True)
class SamplingParams:
    """How tokens are chosen and when to stop.

    temperature 0 is greedy. top_k 0, top_p 1 and min_p 0 are off; they apply in that order, after temperature.
    seed None draws a new one. `stop` strings end the text before themselves; `stop_token_ids` add to the
    model's own end tokens, which `ignore_eos` switches off.
    """

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    seed: int | None = None
    max_tokens: int = 128
    stop: tuple[str, ...] = ()
    stop_token_ids: tuple[int, ...] = ()
    ignore_eos: bool = False

    def __post_init__(self) -> None:
        checks = {
            f"temperature must be 0 or more, not {self.temperature}": 0 <= self.temperature < float("inf"),
            f"top_k must be 0 (off) or more, not {self.top_k}": self.top_k >= 0,
            f"top_p must be above 0 and at most 1, not {self.top_p}": 0 < self.top_p <= 1,
            f"min_p must be between 0 and 1, not {self.min_p}": 0 <= self.min_p <= 1,
            f"max_tokens must be at least 1, not {self.max_tokens}": self.max_tokens >= 1,
            "a stop string must not be empty": all(self.stop),
        }
        wrong = [message for message, is_fine in checks.items() if not is_fine]
        if wrong:
            raise UsageError("; ".join(wrong))

    @property
    def is_greedy(self) -> bool:
        return self.temperature == 0


@dataclass(frozen=True)
class Completion:
    """A finished request. finish: "stop" (end token or stop string), "length" or "abort"."""

    prompt_tokens: tuple[int, ...]
    tokens: tuple[int, ...]
    text: str
    finish: str


@dataclass(eq=False)
class Request:
    """A request on its way. `history` holds prompt and output; drafters read it as it grows."""

    prompt: Sequence[int]
    params: SamplingParams
    end_ids: frozenset[int] = frozenset()
    decode: Callable[[Sequence[int]], str] | None = None
    history: list[int] = field(init=False)
    finish: str | None = None
    uniforms: Tensor = field(init=False)

    def __post_init__(self) -> None:
        self.history = list(self.prompt)
        eos = frozenset() if self.params.ignore_eos else self.end_ids
        self.end_ids = eos | frozenset(self.params.stop_token_ids)
        if self.params.stop and self.decode is None:
            raise UsageError("stop strings need a tokenizer; use stop_token_ids instead")
        self.uniforms = self._draw_uniforms()

    def _draw_uniforms(self) -> Tensor:
        """One uniform number per output token, so that a seed gives the same text whatever is drafted."""
        if self.params.is_greedy:
            return torch.zeros(0)
        generator = torch.Generator()
        if self.params.seed is None:
            generator.seed()
        else:
            generator.manual_seed(self.params.seed)
        return torch.rand(self.params.max_tokens, generator=generator).clamp(max=MAX_UNIFORM)

    @property
    def output(self) -> list[int]:
        return self.history[len(self.prompt) :]

    @property
    def num_output(self) -> int:
        return len(self.history) - len(self.prompt)

    def commit(self, tokens: Sequence[int]) -> int:
        """Appends tokens until one ends the request; returns how many were taken."""
        for taken, token in enumerate(tokens, start=1):
            self.history.append(token)
            self.finish = self._reason_to_end(token)
            if self.finish:
                return taken
        return len(tokens)

    def _reason_to_end(self, token: int) -> str | None:
        if token in self.end_ids or self._ends_with_stop():
            return "stop"
        return "length" if self.num_output >= self.params.max_tokens else None

    def _ends_with_stop(self) -> bool:
        if not self.params.stop or self.decode is None:
            return False
        # a token holds at least one byte, so the newest token can complete only a stop string within this window
        window = max(len(stop.encode()) for stop in self.params.stop) + 4
        tail = self.decode(self.output[-window:])
        return any(stop in tail for stop in self.params.stop)

    def text(self) -> str:
        """The output as text, cut before the first stop string."""
        if self.decode is None:
            return ""
        text = self.decode(self.output)
        cuts = [at for stop in self.params.stop if (at := text.find(stop)) >= 0]
        return text[: min(cuts)] if cuts else text

    def completion(self) -> Completion:
        return Completion(tuple(self.prompt), tuple(self.output), self.text(), self.finish or "abort")

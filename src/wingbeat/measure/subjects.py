"""What is measured: the engine, or a script that behaves like one. The only module here that knows the engine."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import cycle, islice
from time import perf_counter
from typing import TYPE_CHECKING, Any, Protocol

from wingbeat.measure import calibrate
from wingbeat.measure.clock import FakeClock, TimingObserver
from wingbeat.measure.record import ArmFacts, RequestFacts

if TYPE_CHECKING:
    from wingbeat.engine.llm import LLM
    from wingbeat.engine.request import SamplingParams
    from wingbeat.engine.settings import DraftSettings


class Subject(Protocol):
    """Something whose arms can be run."""

    def effective(self, arm: str) -> dict[str, Any]:
        """The settings that `arm` really runs with."""

    def run(self, arm: str, prompts: Sequence[str]) -> ArmFacts:
        """Runs the prompts, all at once, on `arm`."""

    def fingerprint(self) -> dict[str, Any]:
        """The environment it runs in, as a record keeps it (see `probe`)."""

    def calibrate(self) -> dict[str, float]:
        """What the machine can do at the moment (see `calibrate`)."""

    def gap(self, prompt: str, output: Sequence[int], rivals: Sequence[int]) -> float | None:
        """How far apart the logits of two rival tokens are after prompt and `output`; None where that means nothing."""


class EngineSubject:
    """An engine whose arms differ in how they draft; target and head are loaded once."""

    def __init__(self, llm: LLM, arms: Mapping[str, DraftSettings], params: SamplingParams) -> None:
        self.llm = llm
        self.arms = dict(arms)
        self.params = params
        self._origin = perf_counter()

    def effective(self, arm: str) -> dict[str, Any]:
        """The engine's settings with the arm's drafter; template: a hash of the chat template (None: there is none)."""
        self._switch(arm)
        template = self.llm.tokenizer.chat_template
        digest = template and hashlib.sha256(template.encode()).hexdigest()[:16]
        return {**self.llm.effective, "sampling": asdict(self.params), "template": digest}

    def run(self, arm: str, prompts: Sequence[str]) -> ArmFacts:
        """Runs the prompts as one batch, through the chat template."""
        self._switch(arm)
        observer = TimingObserver(synchronize=_synchronizer(self.llm.target.device.type), origin=self._origin)
        start = observer.read()
        outputs = self.llm.generate(list(prompts), self.params, observer=observer)
        seconds = observer.read() - start
        first_ms = observer.prefill_ms + observer.columns.ms["cycle"][0]
        ttft_ms = first_ms if len(outputs) == 1 else None  # which of several a cycle belonged to is not known
        requests = [
            RequestFacts.of(len(output.prompt_tokens), output.tokens, output.finish, ttft_ms) for output in outputs
        ]
        return ArmFacts(seconds, observer.prefill_ms, requests, observer.columns)

    def fingerprint(self) -> dict[str, Any]:
        """Of this process, with the files of target and head."""
        from wingbeat import probe  # here, as every command loads this module and few need it

        files = {"model": self.llm.model_path, "head": self.llm.head_path}
        return probe.to_json(probe.fingerprint({role: str(path) for role, path in files.items() if path}))

    def calibrate(self) -> dict[str, float]:
        """On the engine's device."""
        return calibrate.figures(self.llm.target.device.type)

    def gap(self, prompt: str, output: Sequence[int], rivals: Sequence[int]) -> float | None:
        """From one forward over all of it; None where tokens are sampled, as logits alone decide nothing there."""
        if not self.params.is_greedy:
            return None
        logits = self.llm.logits([*self.llm.tokenizer.encode(prompt), *output])
        return abs(float(logits[rivals[0]] - logits[rivals[1]]))

    def _switch(self, arm: str) -> None:
        if self.llm.draft != self.arms[arm]:
            self.llm.use(self.arms[arm])


def _synchronizer(device: str) -> Callable[[], None] | None:
    """What waits for the device; None where work is done when the call returns."""
    if device != "cuda":
        return None
    import torch

    return torch.cuda.synchronize


PREFILL_MS = 10.0  # what a script's prefill takes


@dataclass(frozen=True)
class FakeArm:
    """A scripted arm: what a cycle costs, and how many drafted tokens each cycle accepts (repeated from the start).

    differs_at: the output position from which this arm's tokens are others than the script's (None: never).
    """

    verify_ms: float
    draft_ms: float = 0.0
    rest_ms: float = 1.0
    drafted: int = 0
    accepted: tuple[int, ...] = (0,)
    differs_at: int | None = None


@dataclass(frozen=True)
class FakeCycle:
    """The facts of one scripted cycle of one request."""

    contexts: tuple[int, ...]
    drafted: tuple[int, ...]
    accepted: tuple[int, ...]
    committed: tuple[int, ...]
    width: int
    path: str = "script"
    reason: str = "script"


class FakeSubject:
    """Runs scripts on a clock of its own: the same figures on every machine, at once."""

    def __init__(self, arms: Mapping[str, FakeArm], max_tokens: int = 32, logit_gap: float = 0.125) -> None:
        self.arms = dict(arms)
        self.max_tokens = max_tokens
        self.logit_gap = logit_gap
        self.clock = FakeClock()

    def effective(self, arm: str) -> dict[str, Any]:
        """The script."""
        script = self.arms[arm]
        return {"subject": "script", **asdict(script), "accepted": list(script.accepted)}

    def run(self, arm: str, prompts: Sequence[str]) -> ArmFacts:
        """Plays the script for one prompt after another."""
        observer = TimingObserver(self.clock)
        start = self.clock.now
        requests = [self._request(self.arms[arm], prompt, observer) for prompt in prompts]
        return ArmFacts(self.clock.now - start, observer.prefill_ms, requests, observer.columns)

    def fingerprint(self) -> dict[str, Any]:
        """The same everywhere, and as quick as the rest."""
        return {"boot_id": {"state": "value", "value": "script"}}

    def calibrate(self) -> dict[str, float]:
        """The same everywhere."""
        return dict.fromkeys(calibrate.UNITS, 1.0)

    def gap(self, prompt: str, output: Sequence[int], rivals: Sequence[int]) -> float | None:
        """The same everywhere."""
        return self.logit_gap

    def _request(self, arm: FakeArm, prompt: str, observer: TimingObserver) -> RequestFacts:
        clock, start = self.clock, self.clock.now
        prompt_tokens = len(prompt.split())
        with observer.phase("prefill"):
            clock.advance(PREFILL_MS / 1000)
        made, ttft_ms = 0, None
        for accepted in cycle(arm.accepted):
            if made >= self.max_tokens:
                break
            with observer.phase("draft"):
                clock.advance(arm.draft_ms / 1000)
            with observer.phase("verify"):
                clock.advance(arm.verify_ms / 1000)
            clock.advance(arm.rest_ms / 1000)
            committed = min(accepted + 1, self.max_tokens - made)
            context = prompt_tokens + made
            observer.cycle(FakeCycle((context,), (arm.drafted,), (accepted,), (committed,), arm.drafted + 1))
            made += committed
            ttft_ms = ttft_ms or 1000 * (clock.now - start)
        return RequestFacts.of(prompt_tokens, self._tokens(arm, prompt), "length", ttft_ms)

    def _tokens(self, arm: FakeArm, prompt: str) -> list[int]:
        digest = hashlib.sha256(prompt.encode()).digest()
        tokens = list(islice(cycle(digest), self.max_tokens))
        if arm.differs_at is not None:
            tokens[arm.differs_at :] = [token + 1 for token in tokens[arm.differs_at :]]
        return tokens

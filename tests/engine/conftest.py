"""Small random models and a loop that runs requests to their end."""

from collections.abc import Sequence

import pytest
import torch

from wingbeat.engine.drafters.base import Drafter
from wingbeat.engine.drafters.eagle3 import Eagle3Drafter
from wingbeat.engine.drafters.ngram import NgramDrafter
from wingbeat.engine.drafters.none import NoDrafter
from wingbeat.engine.engine import Engine
from wingbeat.engine.request import Request, SamplingParams
from wingbeat.engine.settings import DraftSettings, Limits
from wingbeat.model.config import HeadConfig, TargetConfig
from wingbeat.model.draft_head import DraftHead
from wingbeat.model.target import Target

CONTEXT = 256


class Bench:
    """A tiny target with a head, and ways to run it."""

    def __init__(self, family: str = "llama", vocab_size: int = 40, **head_flags) -> None:
        self.config = TargetConfig.tiny(family, vocab_size=vocab_size, head_dim=16)
        self.target = Target.random(self.config)
        self.head = DraftHead.random(HeadConfig.for_target(self.config, vocab_size // 2, **head_flags), seed=1)

    def drafter(self, name: str, limits: Limits = Limits()) -> Drafter:
        if name == "ngram":
            return NgramDrafter(4)
        if name == "chain":
            return Eagle3Drafter(self.head, DraftSettings(steps=4), limits, CONTEXT)
        if name == "tree":
            return Eagle3Drafter(self.head, DraftSettings(steps=4, topk=3, nodes=9), limits, CONTEXT)
        return NoDrafter()

    def engine(self, drafter: Drafter, limits: Limits = Limits()) -> Engine:
        return Engine(self.target, drafter, limits, CONTEXT)

    def run(self, engine: Engine, prompts: Sequence[list[int]], params: SamplingParams) -> list[list[int]]:
        requests = [Request(prompt, params) for prompt in prompts]
        for request in requests:
            engine.submit(request)
        while engine.has_work:
            engine.step()
        return [request.output for request in requests]

    def plain(self, prompts: Sequence[list[int]], params: SamplingParams) -> list[list[int]]:
        limits = Limits(max_batch=1)
        return self.run(self.engine(NoDrafter(), limits), prompts, params)


@pytest.fixture(scope="session")
def bench() -> Bench:
    return Bench()


@pytest.fixture(scope="session")
def prompts() -> list[list[int]]:
    generator = torch.Generator().manual_seed(5)
    return [torch.randint(0, 40, (size,), generator=generator).tolist() for size in (1, 5, 17, 30, 8, 130, 3, 2)]

"""What the trainer expects of a head is what the engine gets from it."""

from __future__ import annotations

import pytest
import torch
from tiny import ANSWER, captured, make_trainer, tiny_target

from wingbeat.cli.train_eval import Counter
from wingbeat.engine.drafters.eagle3 import Eagle3Drafter
from wingbeat.engine.engine import Engine
from wingbeat.engine.request import Request, SamplingParams
from wingbeat.engine.settings import DraftSettings, Limits
from wingbeat.training.capture import Sample, capture_samples


def test_tokens_per_cycle_of_trainer_and_engine(tmp_path):
    target = tiny_target()
    samples = captured(target)
    trainer = make_trainer(target, samples, tmp_path, epochs=30)
    trainer.train()
    head = trainer.learner.head.eval().requires_grad_(False)
    limits, counter = Limits(), Counter(2)
    engine = Engine(target, Eagle3Drafter(head, DraftSettings(steps=2), limits, 64), limits, 64)
    engine.observer = counter
    params = SamplingParams(max_tokens=ANSWER)
    requests = [Request(sample.tokens[~sample.mask].tolist(), params) for sample in samples]
    for request in requests:
        engine.submit(request)
    while engine.has_work:
        engine.step()
    written = [
        Sample(torch.tensor(request.history), torch.arange(len(request.history)) >= len(request.prompt))
        for request in requests
    ]
    expected = trainer.evaluate(capture_samples(target, written, head.config.taps))
    figures = counter.figures()
    assert expected.walked > 1.2
    assert figures["tokens_per_cycle"] == pytest.approx(expected.walked, rel=0.03)

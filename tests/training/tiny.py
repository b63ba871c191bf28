"""A tiny target, text that it wrote itself, and a head to train on it."""

from __future__ import annotations

from pathlib import Path

import torch

from wingbeat.model.attention import causal_mask
from wingbeat.model.config import HeadConfig, TargetConfig
from wingbeat.model.layers import ForwardInputs
from wingbeat.model.target import Target
from wingbeat.training.capture import Captured, Sample, capture_samples
from wingbeat.training.initial import new_head
from wingbeat.training.loop import Trainer, TrainSettings
from wingbeat.training.vocab import choose_vocab, count_tokens, teacher_for

PROMPT, ANSWER = 5, 20


def tiny_target() -> Target:
    return Target.random(TargetConfig.tiny(num_layers=2, vocab_size=60), seed=3, std=0.5)


@torch.inference_mode()
def own_text(target: Target, count: int) -> list[Sample]:
    """Greedy answers to random prompts, without a cache: all rows at once, one more token a forward."""
    config = target.config
    tokens = torch.randint(0, config.vocab_size, (count, PROMPT), generator=torch.Generator().manual_seed(0))
    starts = torch.zeros(count, dtype=torch.int64)
    for width in range(PROMPT, PROMPT + ANSWER):
        shape = (count, config.num_kv_heads, width, config.head_dim)
        cache = (torch.empty(shape), torch.empty(shape))
        positions = torch.arange(width).expand(count, -1)
        inputs = ForwardInputs(tokens, positions, starts, causal_mask(positions, width))
        hidden = target(inputs, [cache] * config.num_layers).hidden[:, -1]
        tokens = torch.cat((tokens, target.logits(hidden).argmax(-1, keepdim=True)), dim=1)
    mask = torch.arange(PROMPT + ANSWER) >= PROMPT
    return [Sample(row, mask) for row in tokens]


def captured(target: Target, count: int = 24) -> list[Captured]:
    return capture_samples(target, own_text(target, count), target.config.default_taps)


def make_trainer(
    target: Target, samples: list[Captured], directory: Path, kind: str = "target", **settings: object
) -> Trainer:
    counts = count_tokens(((sample.tokens, sample.mask) for sample in samples), target.config.vocab_size)
    vocab = choose_vocab(counts, 40)
    head = new_head(target, HeadConfig.for_target(target.config, 40), vocab.ids, kind, seed=0)
    base: dict[str, object] = {
        "steps": 2, "epochs": 6, "rate": 5e-3, "batch_tokens": 200, "held_out": 0.1, "evaluate_every": 1000,
        "bfloat16": False,
    }
    plan = TrainSettings(**(base | settings))  # type: ignore[arg-type]
    return Trainer(head, teacher_for(target, head, torch.float32), samples, plan, directory)

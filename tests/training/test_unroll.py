"""The unrolled training forward is what drafting does, row by row; and the loss is what its definition says."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from wingbeat.model import attention
from wingbeat.model.config import HeadConfig, TargetConfig
from wingbeat.model.draft_head import DraftHead
from wingbeat.model.layers import ForwardInputs
from wingbeat.model.target import Target
from wingbeat.training.capture import Sample, capture_samples
from wingbeat.training.loss import Batch, Teacher, chain_rows, collate, draft_loss, unroll
from wingbeat.training.vocab import teacher_for

STEPS = 4


def make_batch(target: Target, lengths: list[tuple[int, int]]) -> Batch:
    generator = torch.Generator().manual_seed(1)
    samples = [
        Sample(torch.randint(0, 97, (prompt + answer,), generator=generator), torch.arange(prompt + answer) >= prompt)
        for prompt, answer in lengths
    ]
    batch = collate(capture_samples(target, samples, target.config.default_taps))
    return dataclasses.replace(batch, taps=batch.taps.float(), hidden=batch.hidden.float())


def draft_sequentially(head: DraftHead, batch: Batch, row: int, pair: int) -> list[torch.Tensor]:
    """Drafts from one pair with a cache: the committed pairs in one block, then one fed-back token at a time."""
    config = head.config
    shape = (1, config.num_kv_heads, pair + 1 + STEPS, config.head_dim)
    cache = (torch.zeros(shape), torch.zeros(shape))
    start = torch.zeros(1, dtype=torch.int64)
    positions = torch.arange(pair + 1)[None]
    mask = attention.causal_mask(positions, pair + 1)
    block = ForwardInputs(batch.tokens[row : row + 1, 1 : pair + 2], positions, start, mask)
    hidden = head(block, head.fuse(batch.taps[row : row + 1, : pair + 1]), cache)[:, -1:]
    outputs = [hidden[0, 0]]
    for step in range(1, STEPS):
        at = start + pair + step
        token = batch.tokens[row : row + 1, pair + 1 + step][:, None]
        inputs = ForwardInputs(token, at[:, None], at, attention.causal_mask(at[:, None], pair + 1 + step))
        hidden = head(inputs, head.feedback(hidden), cache)
        outputs.append(hidden[0, 0])
    return outputs


@pytest.mark.parametrize(
    "flags",
    [
        {}, {"norm_output": True}, {"fc_norm": True, "norm_before_residual": True},
        {"norm_before_fc": True, "qk_norm": True},
    ],
)
def test_unrolled_forward_equals_sequential_drafting(flags):
    target = Target.random(TargetConfig.tiny())
    head = DraftHead.random(HeadConfig.for_target(target.config, 50, **flags))
    batch = make_batch(target, [(5, 9), (3, 14)])
    outputs = unroll(head, batch, STEPS)
    compared = 0
    for row in range(2):
        for index, pair in enumerate(batch.rows[row].tolist()):
            expected = draft_sequentially(head, batch, row, pair) if pair + 1 + STEPS < batch.tokens.shape[1] else []
            for step, hidden in enumerate(expected):
                if batch.valid(step)[row, index]:
                    torch.testing.assert_close(outputs[step][row, index], hidden, rtol=1e-5, atol=1e-5)
                    compared += 1
    assert compared > 40


def test_rows_lie_inside_answers_and_know_their_end():
    mask = torch.tensor([0, 0, 1, 1, 1, 0, 0, 1, 1, 1, 1], dtype=torch.bool)
    rows, ends = chain_rows(mask)
    assert rows.tolist() == [1, 2, 6, 7, 8]
    assert ends.tolist() == [4, 4, 10, 10, 10]


def reference_loss(head: DraftHead, teacher: Teacher, batch: Batch, weights: list[float]) -> torch.Tensor:
    """The definition, with whole tensors and autograd's own cross-entropy."""
    total = torch.zeros(())
    for step, hidden in enumerate(unroll(head, batch, len(weights))):
        terms = []
        for row, index in batch.valid(step).nonzero().tolist():
            place = int(batch.rows[row, index]) + 1 + step
            if teacher.words[batch.tokens[row, place + 1]] < 0:
                continue
            wanted = (batch.hidden[row, place] @ teacher.output.T).softmax(-1)
            terms.append(-(wanted * head.logits(hidden[row, index]).log_softmax(-1)).sum())
        total = total + weights[step] * torch.stack(terms).mean()
    return total / sum(weights)


def test_loss_and_gradients_equal_the_definition():
    target = Target.random(TargetConfig.tiny())
    head = DraftHead.random(HeadConfig.for_target(target.config, 60)).requires_grad_(True)
    head.embed_tokens.requires_grad_(False)
    teacher = teacher_for(target, head, torch.float32)
    batch = make_batch(target, [(4, 12), (6, 30), (2, 9)])
    weights = [0.8**k for k in range(3)]
    outcome = draft_loss(head, teacher, batch, weights)
    outcome.loss.backward()
    gradients = {name: parameter.grad.clone() for name, parameter in head.named_parameters() if parameter.requires_grad}
    head.zero_grad()
    expected = reference_loss(head, teacher, batch, weights)
    expected.backward()
    torch.testing.assert_close(outcome.loss, expected, rtol=1e-5, atol=1e-6)
    for name, parameter in head.named_parameters():
        if parameter.requires_grad:
            torch.testing.assert_close(gradients[name], parameter.grad, rtol=1e-4, atol=1e-6, msg=name)


def test_positions_outside_the_draft_vocabulary_do_not_count():
    target = Target.random(TargetConfig.tiny())
    head = DraftHead.random(HeadConfig.for_target(target.config, 60))
    teacher = teacher_for(target, head, torch.float32)
    batch = make_batch(target, [(4, 40)])
    outcome = draft_loss(head, teacher, batch, [1.0, 0.8])
    known = set(head.draft_to_target.tolist())
    for step in range(2):
        for index, pair in enumerate(batch.rows[0].tolist()):
            inside = bool(batch.valid(step)[0, index])
            counts = inside and int(batch.tokens[0, min(pair + 2 + step, 43)]) in known
            assert bool(outcome.counted[step, 0, index]) == counts
    assert not (outcome.right & ~outcome.counted).any()

"""Checkpoints: whole or absent, and never another run's."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from tiny import captured, make_trainer, tiny_target

from wingbeat.errors import CorruptError, MismatchError, StorageError, UsageError
from wingbeat.training.checkpoint import CHECKPOINT, replace_file
from wingbeat.training.loop import TrainSettings, epoch_batches


@pytest.fixture(scope="module")
def target():
    return tiny_target()


@pytest.fixture(scope="module")
def samples(target):
    return captured(target, 12)


def test_a_failed_write_keeps_the_old_file(tmp_path):
    path = tmp_path / "file"
    replace_file(path, lambda scratch: scratch.write_text("old"))

    def fail(scratch):
        scratch.write_text("ha")
        raise OSError("No space left on device")

    with pytest.raises(StorageError, match="No space left"):
        replace_file(path, fail)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_resuming_refuses_damage_and_other_runs(target, samples, tmp_path):
    trainer = make_trainer(target, samples, tmp_path)
    assert not trainer.resume()
    trainer.train(stop=lambda done: done.step == 2)
    with pytest.raises(MismatchError, match="settings"):
        make_trainer(target, samples, tmp_path, rate=1e-4).resume()
    with pytest.raises(MismatchError, match="samples"):
        make_trainer(target, samples[:6], tmp_path).resume()
    other_words = make_trainer(target, samples, tmp_path)
    other_words.learner.head.draft_to_target += 1
    with pytest.raises(MismatchError, match="words"):
        other_words.resume()
    path = tmp_path / CHECKPOINT
    path.write_bytes(path.read_bytes()[:1000])
    with pytest.raises(CorruptError, match="delete it"):
        make_trainer(target, samples, tmp_path).resume()


def test_text_too_short_to_train_on_is_said(target, samples, tmp_path):
    with pytest.raises(UsageError, match="too short"):
        make_trainer(target, samples[:1], tmp_path, accumulate=2)


def test_accumulated_batches_equal_their_mean_gradient(target, samples, tmp_path):
    trainer = make_trainer(target, samples, tmp_path, accumulate=2, batch_tokens=100, clip=1e9)
    batches = trainer.batches[:2]
    total = sum(trainer.learner([trainer.samples[i] for i in batch], [1.0, 0.8])[0] for batch in batches) / 2
    total.backward()
    wanted = [parameter.grad.clone() for parameter in trainer.parameters]
    trainer.optimiser.zero_grad()
    seen = []
    trainer.optimiser.register_step_pre_hook(
        lambda optimiser, args, kwargs: seen.extend(p.grad.clone() for p in trainer.parameters)
    )
    trainer.train(stop=lambda done: done.step == 1)
    for gradient, expected in zip(seen, wanted, strict=True):
        torch.testing.assert_close(gradient, expected, rtol=1e-4, atol=1e-6)


def test_schedule():
    plan = TrainSettings(rate=1e-3, warmup=0.1, steps=7, curriculum=((0.0, 1), (0.25, 3), (0.6, 7)))
    assert plan.rate_at(0) < 2e-5
    assert plan.rate_at(0.1) == pytest.approx(1e-3)
    assert plan.rate_at(0.55) == pytest.approx(5e-4)
    assert plan.rate_at(1) == pytest.approx(0)
    assert dataclasses.replace(plan, floor=0.2).rate_at(1) == pytest.approx(2e-4)
    assert [plan.steps_at(share) for share in (0, 0.2, 0.25, 0.59, 0.6, 1)] == [1, 1, 3, 3, 7, 7]
    assert TrainSettings(steps=5).steps_at(0) == 5
    with pytest.raises(UsageError, match="positive"):
        TrainSettings(steps=0)


def test_an_epoch_takes_every_sample_once_in_an_order_of_its_own():
    lengths = [10 + index % 17 for index in range(1200)]
    first, second = (epoch_batches(lengths, 200, seed) for seed in (1, 2))
    assert first == epoch_batches(lengths, 200, 1) != second
    assert sorted(index for batch in first for index in batch) == list(range(1200))
    assert max(max(lengths[i] for i in batch) * len(batch) for batch in first) <= 200

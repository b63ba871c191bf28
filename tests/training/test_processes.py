"""Two processes train as one does with twice the batches a step."""

from __future__ import annotations

import gc

import pytest
import torch
from tiny import captured, make_trainer, tiny_target
from torch import distributed, multiprocessing

STEPS = 4


def run_process(rank, directory):
    torch.set_num_threads(1)
    distributed.init_process_group("gloo", init_method=f"file://{directory}/meeting", rank=rank, world_size=2)
    train_share(rank, directory)
    gc.collect()  # the trainer holds on to the group's threads
    distributed.barrier()
    distributed.destroy_process_group()


def train_share(rank, directory):
    """What one of two processes does; the first keeps its weights and evaluation."""
    target = tiny_target()
    trainer = make_trainer(target, captured(target), directory, batch_tokens=100)
    done = trainer.train(stop=lambda done: done.step == STEPS)
    acceptance = trainer.evaluate(trainer.samples)
    if rank == 0:
        torch.save((trainer.learner.head.state_dict(), done.tokens, acceptance), directory / "result.pt")


def test_two_processes_equal_one(tmp_path):
    multiprocessing.spawn(run_process, args=(tmp_path,), nprocs=2)
    weights, tokens, acceptance = torch.load(tmp_path / "result.pt", weights_only=False)
    target = tiny_target()
    alone = make_trainer(target, captured(target), tmp_path / "alone", batch_tokens=100, accumulate=2)
    done = alone.train(stop=lambda done: done.step == STEPS)
    assert done.tokens == tokens
    for name, value in alone.learner.head.state_dict().items():
        torch.testing.assert_close(value, weights[name], rtol=1e-3, atol=1e-5, msg=name)
    own = alone.evaluate(alone.samples)
    assert own.unconditional == pytest.approx(acceptance.unconditional)
    assert own.walked == pytest.approx(acceptance.walked)
    assert own.loss == pytest.approx(acceptance.loss, rel=1e-4)

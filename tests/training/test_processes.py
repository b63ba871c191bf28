"""Two processes train as one does with twice the batches a step."""

from __future__ import annotations

import socket

import pytest
import torch
from tiny import captured, make_trainer, tiny_target
from torch import distributed, multiprocessing

STEPS = 4


def train_share(rank, port, directory):
    """One of two processes; the first keeps its weights and evaluation."""
    torch.set_num_threads(1)
    store = distributed.TCPStore("127.0.0.1", port, 2, is_master=rank == 0)
    distributed.init_process_group("gloo", store=store, rank=rank, world_size=2)
    target = tiny_target()
    trainer = make_trainer(target, captured(target), directory, batch_tokens=100)
    done = trainer.train(stop_after=STEPS)
    acceptance = trainer.evaluate(trainer.samples)
    if rank == 0:
        torch.save((trainer.learner.head.state_dict(), done.tokens, acceptance), directory / "result.pt")
    distributed.destroy_process_group()


def test_two_processes_equal_one(tmp_path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    multiprocessing.spawn(train_share, args=(port, tmp_path), nprocs=2)
    weights, tokens, acceptance = torch.load(tmp_path / "result.pt", weights_only=False)
    target = tiny_target()
    alone = make_trainer(target, captured(target), tmp_path / "alone", batch_tokens=100, accumulate=2)
    done = alone.train(stop_after=STEPS)
    assert done.tokens == tokens
    for name, value in alone.learner.head.state_dict().items():
        torch.testing.assert_close(value, weights[name], rtol=1e-3, atol=1e-5, msg=name)
    own = alone.evaluate(alone.samples)
    assert own.unconditional == pytest.approx(acceptance.unconditional)
    assert own.walked == pytest.approx(acceptance.walked)
    assert own.loss == pytest.approx(acceptance.loss, rel=1e-4)

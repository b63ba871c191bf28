"""Training end to end on a tiny target: it learns, it resumes exactly, what it saves reloads bit for bit."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from tiny import captured, make_trainer, tiny_target

from wingbeat.model.weights import load_head, save_head
from wingbeat.training.checkpoint import CHECKPOINT


@pytest.fixture(scope="module")
def target():
    return tiny_target()


@pytest.fixture(scope="module")
def samples(target):
    return captured(target)


@pytest.mark.parametrize(("kind", "epochs"), [("target", 50), ("random", 90)])
def test_loss_falls_and_acceptance_on_its_own_text_rises(target, samples, tmp_path, kind, epochs):
    trainer = make_trainer(target, samples, tmp_path, kind, epochs=epochs)
    before = trainer.evaluate(trainer.samples)
    done = trainer.train()
    after = trainer.evaluate(trainer.samples)
    assert sum(done.losses[-10:]) < 0.75 * sum(done.losses[:10])
    assert after.unconditional[0] > 0.5 > before.unconditional[0]
    assert after.walked > 1.5


def test_a_resumed_run_has_the_curve_of_an_uninterrupted_one(target, samples, tmp_path):
    whole = make_trainer(target, samples, tmp_path / "whole", epochs=5, evaluate_every=6)
    curve = whole.train()
    first = make_trainer(target, samples, tmp_path / "parts", epochs=5, evaluate_every=6)
    first.train(stop=lambda done: done.step == 7)
    second = make_trainer(target, samples, tmp_path / "parts", epochs=5, evaluate_every=6)
    assert second.resume()
    resumed = second.train()
    assert resumed.losses == curve.losses
    assert [point.acceptance for point in resumed.points] == [point.acceptance for point in curve.points]
    for name, value in whole.learner.head.state_dict().items():
        assert torch.equal(value, second.learner.head.state_dict()[name]), name


TRAIN = """
import sys
from pathlib import Path
from tiny import captured, make_trainer, tiny_target
target = tiny_target()
make_trainer(target, captured(target), Path(sys.argv[1]), epochs=40, checkpoint_seconds=0.0).train()
"""


def test_a_killed_run_resumes_on_the_same_curve(target, samples, tmp_path):
    """Killed at any moment, while it writes checkpoints all the time."""
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parent), "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen([sys.executable, "-c", TRAIN, str(tmp_path / "killed")], env=environment)
    checkpoint = tmp_path / "killed" / CHECKPOINT
    while not checkpoint.exists() and process.poll() is None:
        time.sleep(0.05)
    time.sleep(0.3)
    process.kill()
    process.wait()
    plan = {"epochs": 40, "checkpoint_seconds": 0.0}
    resumed = make_trainer(target, samples, tmp_path / "killed", **plan)
    assert resumed.resume()
    reached = resumed.progress.step
    assert reached >= 1
    curve = resumed.train(stop=lambda done: done.step == reached + 3).losses
    whole = make_trainer(target, samples, tmp_path / "whole", **(plan | {"checkpoint_seconds": 1e9}))
    expected = whole.train(stop=lambda done: done.step == reached + 3).losses
    assert curve == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("form", ["eagle3", "speculators"])
def test_a_saved_head_reloads_bit_for_bit(target, samples, tmp_path, form):
    trainer = make_trainer(target, samples, tmp_path, epochs=0.2)
    trainer.train()
    head = trainer.learner.head
    save_head(head, tmp_path / "head", form=form)
    again = load_head(tmp_path / "head", target)
    assert torch.equal(again.draft_to_target, head.draft_to_target)
    for name, value in head.state_dict().items():
        assert torch.equal(value, again.state_dict()[name]), name

"""Counting acceptance: by position, over all positions, and along the walk of an engine."""

from __future__ import annotations

import pytest
import torch

from wingbeat.training.acceptance import Tally, held_out, walk
from wingbeat.training.loss import Batch, Outcome


def test_a_walk_is_what_an_engine_counts():
    rows, ends = torch.arange(2, 10), torch.full((8,), 11)  # an answer of tokens 3..11, the first known beforehand
    nothing = walk(torch.zeros(8, dtype=torch.int64), rows, ends)
    assert nothing.tolist() == [8, 8]
    always = walk(torch.full((8,), 3), rows, ends)
    assert always.tolist() == [2, 8]
    mixed = walk(torch.tensor([1, 3, 0, 2, 2, 2, 0, 0]), rows, ends)
    assert mixed.tolist() == [5, 8]  # from pair 2: 2 tokens, from 4: 1, from 5: 3, from 8: 1, from 9: 1


def test_a_walk_skips_padding_and_starts_anew_in_each_answer():
    rows, ends = torch.tensor([1, 2, 3, 9, 10, 0]), torch.tensor([5, 5, 5, 12, 12, -1])
    assert walk(torch.full((6,), 5), rows, ends).tolist() == [2, 5]


def test_positions_are_counted_unconditional_and_conditional():
    batch = Batch(torch.zeros(1, 8), torch.zeros(0), torch.zeros(0), torch.arange(4)[None], torch.full((1, 4), 5))
    right = torch.tensor([[[1, 1, 0, 1]], [[1, 0, 1, 0]]], dtype=torch.bool)
    counted = torch.stack([batch.valid(0), batch.valid(1)])
    assert counted.tolist() == [[[True] * 4], [[True, True, True, False]]]
    tally = Tally(2)
    tally.add(batch, Outcome(torch.zeros(()), [2.0, 3.0], right, counted))
    found = tally.result()
    assert found.unconditional == pytest.approx((3 / 4, 1 / 3))
    assert found.conditional == pytest.approx((3 / 4, 1 / 2))
    assert found.expected == pytest.approx(1 + 3 / 4 + 1 / 3)
    assert found.loss == pytest.approx((2, 3))
    assert found.walked == pytest.approx(4 / 2)  # pair 0 commits 3 tokens, pair 3 the last one


def test_held_out_samples_are_spread_and_never_trained_on():
    kept, tested = held_out(1000, 0.02)
    assert tested == list(range(49, 1000, 50))
    assert not set(kept) & set(tested)
    assert held_out(3, 0.02) == ([0, 1], [2])
    assert held_out(3, 0.0) == ([0, 1, 2], [])

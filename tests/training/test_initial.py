"""Where a head starts: shapes, what is taken from the target, and going on from another head."""

from __future__ import annotations

import pytest
import torch
from tiny import tiny_target

from wingbeat.errors import UsageError
from wingbeat.model.config import HeadConfig
from wingbeat.training.initial import continue_head, new_head
from wingbeat.training.vocab import choose_vocab, count_tokens, coverage_of, teacher_for


@pytest.fixture(scope="module")
def target():
    return tiny_target()


def test_a_head_from_the_target_speaks_its_language(target):
    """With the attention and the MLP silenced, the head says what the target says of the highest tap itself."""
    ids = torch.tensor([3, 4, 10, 31])
    head = new_head(target, HeadConfig.for_target(target.config, 4), ids, "target", seed=0)
    taps = torch.randn(5, 3 * 32)
    torch.testing.assert_close(head.fuse(taps), taps[:, 64:])
    expected = target.logits(target.norm(taps[:, 64:]))[:, ids]
    torch.testing.assert_close(head.logits(head.fuse(taps)), expected)
    assert not head.embed_tokens.weight.requires_grad
    assert torch.equal(head.embed_tokens.weight, target.embed_tokens.weight)


def test_a_start_that_does_not_fit_is_refused(target):
    config = HeadConfig.for_target(target.config, 4, intermediate_size=48)
    with pytest.raises(UsageError, match="random"):
        new_head(target, config, torch.arange(4), "target", seed=0)
    assert new_head(target, config, torch.arange(4), "random", seed=0).mlp.down_proj.weight.shape == (32, 48)
    with pytest.raises(UsageError, match="known: target, random"):
        new_head(target, config, torch.arange(4), "zeros", seed=0)


def test_going_on_keeps_known_words_and_takes_new_ones_from_the_target(target):
    former = new_head(target, HeadConfig.for_target(target.config, 3), torch.tensor([2, 5, 9]), "random", seed=1)
    head = continue_head(former, target, torch.tensor([5, 7, 9, 40]))
    assert head.config.draft_vocab_size == 4
    assert torch.equal(head.lm_head.weight[[0, 2]], former.lm_head.weight[[1, 2]])
    assert torch.equal(head.lm_head.weight[[1, 3]], target.lm_head.weight[[7, 40]])
    assert torch.equal(head.fc.weight, former.fc.weight)
    assert head.fc.weight.requires_grad
    assert head.embed_tokens.weight is not target.embed_tokens.weight


def test_draft_vocabulary_is_the_most_frequent_answer_tokens(target):
    tokens = torch.tensor([7, 7, 7, 1, 1, 2, 3, 3, 3, 3])
    mask = torch.tensor([0, 1, 1, 1, 1, 1, 1, 1, 1, 1], dtype=torch.bool)
    counts = count_tokens([(tokens, mask), (tokens, ~mask)], 60)
    vocab = choose_vocab(counts, 2)
    assert vocab.ids.tolist() == [3, 7]
    assert vocab.coverage == pytest.approx(7 / 10)
    assert coverage_of(counts, torch.tensor([1, 2])).coverage == pytest.approx(3 / 10)
    with pytest.raises(UsageError, match="does not fit"):
        choose_vocab(counts, 61)
    with pytest.raises(UsageError, match="no answer tokens"):
        choose_vocab(torch.zeros(60), 2)


def test_teacher_gives_the_targets_distribution_over_draft_words(target):
    ids = torch.tensor([3, 4, 10, 31])
    head = new_head(target, HeadConfig.for_target(target.config, 4), ids, "target", seed=0)
    teacher = teacher_for(target, head, torch.float32)
    hidden = torch.randn(200, 32)
    torch.testing.assert_close(teacher.probabilities(hidden), target.logits(hidden)[:, ids].softmax(-1))
    assert teacher.words[[3, 4, 10, 31, 5]].tolist() == [0, 1, 2, 3, -1]

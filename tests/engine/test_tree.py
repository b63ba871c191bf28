"""Trees: what `grow` derives, what the EAGLE-3 drafter drafts, and ties."""

import math

import pytest
import torch
from conftest import CONTEXT, Bench

from wingbeat.engine.drafters.eagle3 import Eagle3Drafter
from wingbeat.engine.request import Request, SamplingParams
from wingbeat.engine.settings import DraftSettings, Limits
from wingbeat.engine.tree import Tree
from wingbeat.engine.verify import verify
from wingbeat.model.attention import causal_mask
from wingbeat.model.layers import ForwardInputs

CHAIN, TREE = DraftSettings(steps=4), DraftSettings(steps=4, topk=3, nodes=10)


def test_grow_derives_depths_and_ancestors():
    tree = Tree.from_lists(torch.tensor([9, 8]), [([1, 2, 3, 4], [0, 0, 2, 3]), ([5], [0])])
    assert tree.tokens.tolist() == [[9, 1, 2, 3, 4], [8, 5, 0, 0, 0]]
    assert tree.depths[0].tolist() == [0, 1, 1, 2, 3]
    assert tree.ancestors[0].int().tolist() == [
        [1, 0, 0, 0, 0],
        [1, 1, 0, 0, 0],
        [1, 0, 1, 0, 0],
        [1, 0, 1, 1, 0],
        [1, 0, 1, 1, 1],
    ]
    assert tree.valid.sum(1).tolist() == [5, 2]


def test_verify_follows_the_longest_match_and_no_padding():
    tree = Tree.from_lists(torch.tensor([9, 8]), [([1, 2, 3, 4], [0, 0, 2, 3]), ([5], [0])])
    logits = torch.full((2, 5, 10), -1.0)
    for node, token in enumerate([2, 0, 3, 4, 7]):  # root -> 2 -> 3 -> 4, bonus 7
        logits[0, node, token] = 1
    logits[1, :, 0] = 1  # the second row's padding holds token 0 below the root: it must not be accepted
    verdict = verify(logits, tree, [SamplingParams()] * 2, torch.zeros(2, 5))
    assert verdict.path is not None
    assert verdict.path[:, :4].tolist() == [[0, 2, 3, 4], [0, -1, -1, -1]]
    assert verdict.committed == [[2, 3, 4, 7], [0]]
    assert verdict.tokens[0, :4].tolist() == [2, 3, 4, 7]


def proposal(bench: Bench, settings: DraftSettings, history: list[int]) -> Tree:
    drafter = Eagle3Drafter(bench.head, settings, Limits(), CONTEXT)
    engine = bench.engine(drafter)
    engine.submit(Request(history, SamplingParams(max_tokens=4)))
    with torch.inference_mode():
        return engine._draft(engine._plan())


def chain_scores(bench: Bench, history: list[int], path: list[int]) -> torch.Tensor:
    """Log-probabilities [V] of what follows `path`, from one forward over everything: no cache, no tree."""
    config, head, target = bench.config, bench.head, bench.target
    size = len(history) - 1
    starts = torch.zeros(1, dtype=torch.int64)
    shape = (1, config.num_kv_heads, size + len(path), config.head_dim)
    caches = [(torch.zeros(shape), torch.zeros(shape)) for _ in range(config.num_layers)]
    places = torch.arange(size)[None]
    inputs = ForwardInputs(torch.tensor([history[:-1]]), places, starts, causal_mask(places, size))
    features = head.fuse(target(inputs, caches, head.config.taps).taps)
    tokens = history[1:]
    for token in [*path, None]:
        width = len(tokens)
        places = torch.arange(width)[None]
        block = ForwardInputs(torch.tensor([tokens]), places, starts, causal_mask(places, width))
        cache = (torch.zeros(shape[0], shape[1], width, shape[3]), torch.zeros(shape[0], shape[1], width, shape[3]))
        hidden = head(block, features, cache)
        if token is not None:
            tokens = [*tokens, token]
            features = torch.cat((features, head.feedback(hidden[:, -1:])), dim=1)
    scores = torch.full((config.vocab_size,), -math.inf)
    scores[head.draft_to_target] = head.logits(hidden[0, -1]).log_softmax(-1)
    return scores


@pytest.mark.parametrize("flags", [{}, {"norm_output": True, "norm_before_residual": True}])
@pytest.mark.parametrize("settings", [CHAIN, TREE], ids=["chain", "tree"])
def test_the_drafted_tree_is_what_plain_forwards_give(settings, flags):
    bench = Bench(**flags)
    history = [3, 1, 4, 1, 5, 9, 2, 6]
    tree = proposal(bench, settings, history)
    tokens, parents = tree.tokens[0].tolist(), tree.parents[0].tolist()
    totals = {0: 0.0}
    for node in range(1, tree.width):
        path = [tokens[i] for i in range(1, tree.width) if tree.ancestors[0, parents[node], i]]
        step = chain_scores(bench, history, path)
        assert tokens[node] in step.topk(settings.topk).indices.tolist()
        totals[node] = totals[parents[node]] + step[tokens[node]].item()
    roots = chain_scores(bench, history, []).topk(settings.topk)
    children = [tokens[i] for i in range(1, tree.width) if parents[i] == 0]
    assert set(children) <= set(roots.indices.tolist())
    # nothing that was left out among the root's children scores above the worst that was taken
    left_out = [v.item() for t, v in zip(roots.indices.tolist(), roots.values, strict=True) if t not in children]
    assert all(score <= min(totals.values()) + 1e-5 for score in left_out)


def test_ties_never_orphan_a_child():
    """A head that is certain (log-probability 0 at every step) ties every child with its parent."""
    bench = Bench()
    with torch.no_grad():
        bench.head.lm_head.weight.zero_()
        bench.head.lm_head.weight[3] = 1e4 * bench.head.norm.weight.sign()
        bench.head.norm.weight.abs_()
    for nodes in range(1, 14):
        tree = proposal(bench, DraftSettings(steps=4, topk=3, nodes=nodes), [3, 1, 4, 1, 5])
        assert (tree.parents[0, 1:] < torch.arange(1, tree.width)).all()
        depths = tree.depths[0]
        assert (depths[1:] == depths[tree.parents[0, 1:]] + 1).all()


def test_equal_scores_everywhere():
    bench = Bench()
    with torch.no_grad():
        bench.head.lm_head.weight.zero_()
    tree = proposal(bench, DraftSettings(steps=3, topk=4, nodes=20), [3, 1, 4, 1, 5])
    assert (tree.parents[0, 1:] < torch.arange(1, tree.width)).all()
    assert len({tuple(tree.ancestors[0, i].tolist()) for i in range(tree.width)}) == tree.width

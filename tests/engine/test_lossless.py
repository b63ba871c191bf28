"""Speculative equals plain, token for token: the first test of anything in the engine."""

import random

import pytest
import torch
from conftest import Bench

from wingbeat.engine.drafters.scripted import ScriptedDrafter
from wingbeat.engine.request import Request, SamplingParams
from wingbeat.engine.settings import Limits
from wingbeat.model.attention import causal_mask
from wingbeat.model.layers import ForwardInputs

GREEDY = SamplingParams(max_tokens=40)
SAMPLED = SamplingParams(max_tokens=40, temperature=0.8, seed=7)
FILTERED = SamplingParams(max_tokens=40, temperature=1.0, seed=7, top_k=12, top_p=0.85, min_p=0.02)
LIMITS = {"one": Limits(max_batch=1), "four": Limits(max_batch=4, prefill_chunk=16)}


@pytest.mark.parametrize("params", [GREEDY, SAMPLED, FILTERED], ids=["greedy", "sampled", "filtered"])
@pytest.mark.parametrize("limits", LIMITS.values(), ids=LIMITS)
@pytest.mark.parametrize("name", ["none", "ngram", "chain", "tree"])
def test_speculative_equals_plain(bench, prompts, name, limits, params):
    engine = bench.engine(bench.drafter(name, limits), limits)
    assert bench.run(engine, prompts, params) == bench.plain(prompts, params)


@pytest.mark.parametrize("family", ["qwen2", "qwen3"])
@pytest.mark.parametrize(
    "flags", [{"norm_before_residual": True, "norm_before_fc": True}, {"fc_norm": True, "norm_output": True}]
)
def test_families_and_head_flags(prompts, family, flags):
    bench = Bench(family, **flags)
    assert bench.run(bench.engine(bench.drafter("tree")), prompts, GREEDY) == bench.plain(prompts, GREEDY)


def script_from(answers: dict[tuple[int, ...], list[int]], branches: int, seed: int | None):
    """Proposes the known continuation of each prompt, with wrong siblings first; with a seed, only noise."""
    generator = random.Random(seed)

    def script(history):
        tokens, parents, parent = [], [], 0
        prompt = next(p for p in answers if tuple(history[: len(p)]) == p)
        future = answers[prompt][len(history) - len(prompt) :][:5]
        for token in future:
            right = generator.randrange(40) if seed is not None else token
            siblings = [(right + shift) % 40 for shift in range(1, branches)] + [right]
            tokens += siblings
            parents += [parent] * len(siblings)
            parent = len(tokens)
        return tokens, parents

    return script


@pytest.mark.parametrize("limits", LIMITS.values(), ids=LIMITS)
@pytest.mark.parametrize("branches", [1, 3])
@pytest.mark.parametrize("seed", [None, 3], ids=["perfect", "random"])
def test_scripted_drafters(bench, prompts, seed, branches, limits):
    plain = bench.plain(prompts, GREEDY)
    answers = dict(zip(map(tuple, prompts), plain, strict=True))
    drafter = ScriptedDrafter(script_from(answers, branches, seed), 5 * branches)
    facts = []
    engine = bench.engine(drafter, limits)
    engine.observer.cycle = facts.append  # type: ignore[method-assign]
    assert bench.run(engine, prompts, GREEDY) == plain
    accepted = sum(sum(fact.accepted) for fact in facts) / sum(fact.batch for fact in facts)
    assert accepted > 4 if seed is None else accepted < 1


def test_seed_decides_and_none_varies(bench, prompts):
    sample = SamplingParams(max_tokens=30, temperature=1.0)
    first, second = (bench.run(bench.engine(bench.drafter("tree")), prompts, sample) for _ in range(2))
    assert first != second
    seeded = SamplingParams(max_tokens=30, temperature=1.0, seed=1)
    again = [bench.run(bench.engine(bench.drafter("tree")), prompts, seeded) for _ in range(2)]
    assert again[0] == again[1]
    assert again[0] != bench.plain(prompts, SamplingParams(max_tokens=30, temperature=1.0, seed=2))


def test_mixed_parameters_in_one_batch(bench, prompts):
    kinds = [GREEDY, SAMPLED, FILTERED]
    engine = bench.engine(bench.drafter("chain"))
    requests = [Request(prompt, kinds[i % 3]) for i, prompt in enumerate(prompts)]
    for request in requests:
        engine.submit(request)
    while engine.has_work:
        engine.step()
    for i, request in enumerate(requests):
        assert [request.output] == bench.plain([prompts[i]], kinds[i % 3])


def test_matches_a_loop_without_engine(bench):
    """Plain decoding itself equals the naive loop that recomputes everything."""
    tokens = [3, 1, 4, 1, 5]
    config = bench.config
    for _ in range(20):
        size = len(tokens)
        shape = (1, config.num_kv_heads, size, config.head_dim)
        caches = [(torch.zeros(shape), torch.zeros(shape)) for _ in range(config.num_layers)]
        starts = torch.zeros(1, dtype=torch.int64)
        places = torch.arange(size)[None]
        inputs = ForwardInputs(torch.tensor([tokens]), places, starts, causal_mask(places, size))
        hidden = bench.target(inputs, caches).hidden
        tokens.append(int(bench.target.logits(hidden[:, -1]).argmax()))
    assert bench.plain([tokens[:5]], SamplingParams(max_tokens=20)) == [tokens[5:]]

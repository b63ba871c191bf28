"""Sampling: the filters agree with transformers', and the verdict has the target's distribution."""

import pytest
import torch
from conftest import Bench
from scipy.stats import chisquare
from transformers import MinPLogitsWarper, TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper

from wingbeat.engine.request import Request, SamplingParams
from wingbeat.engine.sampling import choose, distribution, invert
from wingbeat.engine.tree import Tree
from wingbeat.engine.verify import verify

DRAWS = 200_000
VOCABULARY = 16


def reference(logits: torch.Tensor, params: SamplingParams) -> torch.Tensor:
    """logits [R, V] -> probabilities, by transformers' processors."""
    warpers = [TemperatureLogitsWarper(params.temperature)]
    if params.top_k:
        warpers.append(TopKLogitsWarper(params.top_k))
    if params.top_p < 1:
        warpers.append(TopPLogitsWarper(params.top_p))
    if params.min_p:
        warpers.append(MinPLogitsWarper(params.min_p))
    for warper in warpers:
        logits = warper(None, logits)
    return logits.softmax(-1)


@pytest.mark.parametrize(
    "params",
    [
        SamplingParams(temperature=0.7),
        SamplingParams(temperature=1.3, top_k=5),
        SamplingParams(temperature=1.0, top_p=0.6),
        SamplingParams(temperature=0.9, min_p=0.1),
        SamplingParams(temperature=1.1, top_k=20, top_p=0.8, min_p=0.05),
    ],
)
def test_filters_agree_with_transformers(params):
    logits = torch.randn(6, 3, 50, generator=torch.Generator().manual_seed(0)) * 2
    ours = distribution(logits, [params] * 6)
    ours = ours / ours.sum(-1, keepdim=True)
    torch.testing.assert_close(ours.flatten(0, 1), reference(logits.flatten(0, 1), params), atol=1e-6, rtol=1e-5)


def test_invert_never_picks_the_impossible():
    probabilities = torch.tensor([[0.0, 0.5, 0.0, 0.5, 0.0]]).expand(4, 5)
    uniforms = torch.tensor([0.0, 0.49, 0.51, 1 - 1e-6])
    assert invert(probabilities, uniforms).tolist() == [1, 1, 3, 3]


def test_greedy_rows_beside_sampled_rows():
    logits = torch.randn(2, 3, 20, generator=torch.Generator().manual_seed(1))
    chosen = choose(logits, [SamplingParams(), SamplingParams(temperature=1.0)], torch.rand(2, 3))
    assert chosen[0].tolist() == logits[0].argmax(-1).tolist()


class OneCycle:
    """What a cycle sees after a history: the drafter's tree and the target's logits at its nodes."""

    def __init__(self, bench: Bench, name: str, history: list[int]) -> None:
        engine = bench.engine(bench.drafter(name))
        engine.submit(Request(history, SamplingParams(max_tokens=8)))
        with torch.inference_mode():
            batch = engine._plan()
            self.tree = engine._draft(batch)
            forward, seen = engine.step_forward, []
            engine.step_forward = lambda *arguments: seen.append(forward(*arguments)) or seen[0]
            engine._verify(batch, self.tree)
        self.logits = seen[0][0]

    def draw(self, uniforms: torch.Tensor, params: SamplingParams) -> tuple[torch.Tensor, torch.Tensor]:
        """uniforms [R, depths] -> committed tokens [R, D+1] and their counts [R], by `verify`."""
        rows = len(uniforms)
        tree = self.tree
        wide = Tree(
            *(getattr(tree, name).expand(rows, -1) for name in ("tokens", "parents", "depths")),
            ancestors=tree.ancestors.expand(rows, -1, -1),
            valid=tree.valid.expand(rows, -1),
            max_depth=tree.max_depth,
            is_chain=tree.is_chain,
        )
        verdict = verify(self.logits.expand(rows, -1, -1), wide, [params] * rows, uniforms.gather(1, wide.depths))
        return verdict.tokens, torch.tensor(list(map(len, verdict.committed)))


def likely_prompt(bench: Bench, name: str, params: SamplingParams) -> list[int]:
    """A prompt after which the first draft is accepted sometimes, but not always."""
    for seed in range(100):
        prompt = torch.randint(0, VOCABULARY, (6,), generator=torch.Generator().manual_seed(seed)).tolist()
        cycle = OneCycle(bench, name, prompt)
        chance = reference(cycle.logits[0, :1], params)[0, cycle.tree.tokens[0, 1]]
        if 0.1 < chance < 0.8:
            return prompt
    raise AssertionError("no prompt whose draft is uncertain")


@pytest.mark.parametrize("name", ["chain", "tree"])
@pytest.mark.parametrize(
    "params",
    [
        SamplingParams(temperature=0.7),
        SamplingParams(temperature=1.0),
        SamplingParams(temperature=1.0, top_k=6),
        SamplingParams(temperature=0.7, top_p=0.8),
    ],
    ids=["cool", "warm", "top_k", "top_p"],
)
def test_two_tokens_have_the_targets_distribution(name, params):
    bench = Bench(vocab_size=VOCABULARY)
    prompt = likely_prompt(bench, name, params)
    generator = torch.Generator().manual_seed(11)
    counts, joint = torch.zeros(VOCABULARY, VOCABULARY), []
    begun = OneCycle(bench, name, prompt)
    then = [OneCycle(bench, name, [*prompt, token]) for token in range(VOCABULARY)]
    for _ in range(DRAWS // 20_000):
        tokens, taken = begun.draw(torch.rand(20_000, 6, generator=generator), params)
        first = tokens[:, 0]
        second = tokens[:, 1].clone() if tokens.shape[1] > 1 else torch.zeros_like(first)
        for token in range(VOCABULARY):  # nothing was accepted: the second token comes from the next cycle
            alone = (taken == 1) & (first == token)
            if alone.any():
                uniforms = torch.rand(int(alone.sum()), 6, generator=generator)
                second[alone] = then[token].draw(uniforms, params)[0][:, 0]
        counts += torch.bincount(first * VOCABULARY + second, minlength=VOCABULARY**2).reshape(counts.shape)
        joint.append((taken > 1).float().mean())
    assert 0.005 < torch.stack(joint).mean() < 0.995  # both ways to a second token are exercised
    p_first = reference(begun.logits[0, :1], params)[0]
    p_second = torch.stack([reference(cycle.logits[0, :1], params)[0] for cycle in then])
    expected = (p_first[:, None] * p_second).double().flatten() * DRAWS
    observed = counts.double().flatten()
    assert observed[expected == 0].sum() == 0
    common = expected >= 5
    pooled = [float(observed[~common].sum())], [float(expected[~common].sum())]
    got, want = observed[common].tolist(), expected[common].tolist()
    if pooled[1][0] > 5:
        got, want = got + pooled[0], want + pooled[1]
    scale = sum(got) / sum(want)
    assert chisquare(got, [value * scale for value in want]).pvalue > 1e-4

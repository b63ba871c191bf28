"""On native forwards speculation is lossless in bfloat16 too, bit for bit: no near ties."""

import pytest
import torch
from conftest import Bench

from wingbeat.engine.request import SamplingParams
from wingbeat.engine.settings import Limits
from wingbeat.model.native import to_native


class NativeBench(Bench):
    """The tiny target and head of `Bench`, native."""

    def __init__(self, **flags) -> None:
        super().__init__(**flags)
        self.target, self.head = to_native(self.target.bfloat16(), self.head.bfloat16())


@pytest.fixture(scope="module")
def native():
    return NativeBench()


@pytest.mark.parametrize("limits", [Limits(max_batch=1), Limits(max_batch=4, prefill_chunk=16)], ids=["one", "four"])
@pytest.mark.parametrize("name", ["none", "ngram", "chain", "tree"])
@pytest.mark.parametrize("temperature", [0.0, 0.8])
def test_speculative_equals_plain_in_bfloat16(native, prompts, name, limits, temperature):
    params = SamplingParams(max_tokens=40, temperature=temperature, seed=3)
    engine = native.engine(native.drafter(name, limits), limits)
    assert engine.step_forward.path == "native"
    assert native.run(engine, prompts, params) == native.plain(prompts, params)


def test_norm_output_heads(prompts):
    bench = NativeBench(norm_output=True, norm_before_residual=True, fc_norm=True)
    params = SamplingParams(max_tokens=40)
    assert bench.run(bench.engine(bench.drafter("tree")), prompts, params) == bench.plain(prompts, params)


@pytest.mark.parametrize("flags", [{}, {"norm_output": True, "norm_before_residual": True}], ids=str)
def test_a_chain_in_one_call_is_the_chain_step_by_step(flags):
    bench = NativeBench(**flags)
    drafter = bench.drafter("chain")
    sizes = [9, 2, 20]
    for row in range(3):
        drafter.begin(row, [])
    random = torch.Generator().manual_seed(2)
    tokens = torch.randint(0, 40, (3, 20), generator=random)
    drafter.observe(0, tokens, torch.randn(3, 20, drafter._no_pairs[1].shape[1], generator=random).bfloat16(), sizes)
    with torch.inference_mode():
        hidden = drafter._extend(0, 3, sizes)[torch.arange(3), torch.tensor(sizes) - 1]
        starts, cache = drafter._cache.starts(0, 3), drafter._cache.rows(0, 3)[0]
        roots = torch.tensor([7, 8, 9])
        drafts, scores = drafter.head.draft(roots, hidden, starts, cache, 4)
        assert drafts[:, 0].tolist() == [7, 8, 9]
        assert drafts[:, 1:].tolist() == drafter._grow(hidden[:, None], starts, 4, 24)[0].tolist()
        assert (scores.diff(dim=1) <= 0).all()
        assert len(set(drafts.flatten().tolist())) > 3
        short, _ = drafter.head.draft(roots, hidden, starts, cache, 4, floor=scores[:, 1].max().item() + 1e-6)
        assert short.tolist() == drafts[:, :2].tolist()

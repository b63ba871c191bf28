"""On native forwards speculation is lossless in bfloat16 too, bit for bit: no near ties."""

import pytest
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

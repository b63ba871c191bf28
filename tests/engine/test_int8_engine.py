"""int8 weights: speculation equals plain decoding with the same weights; `LLM` says what came of asking for them."""

import pytest
from conftest import Bench

from wingbeat import LLM, SamplingParams
from wingbeat.engine.settings import DraftSettings, Limits
from wingbeat.errors import UnsupportedError, UsageError
from wingbeat.model.native import to_native

PROMPTS = ["What is the capital of France?", "Count from one to ten."]


class Int8Bench(Bench):
    """The tiny target and head of `Bench`, native, with int8 weights."""

    def __init__(self) -> None:
        super().__init__()
        self.target, self.head = to_native(self.target.bfloat16(), self.head.bfloat16(), int8=True)


@pytest.fixture(scope="module")
def int8():
    return Int8Bench()


@pytest.mark.parametrize("limits", [Limits(max_batch=1), Limits(max_batch=4, prefill_chunk=16)], ids=["one", "four"])
@pytest.mark.parametrize("name", ["none", "ngram", "chain", "tree"])
@pytest.mark.parametrize("temperature", [0.0, 0.8])
def test_speculative_equals_plain(int8, prompts, name, limits, temperature):
    params = SamplingParams(max_tokens=40, temperature=temperature, seed=3)
    assert int8.run(int8.engine(int8.drafter(name, limits), limits), prompts, params) == int8.plain(prompts, params)


@pytest.fixture(scope="module")
def llm():
    return LLM(weights="int8", draft=DraftSettings(drafter="none"), limits=Limits(context=256))


def test_the_default_model_in_int8(llm):
    plain = llm.generate(PROMPTS, SamplingParams(max_tokens=16))
    assert "Paris" in plain[0].text
    llm.use(DraftSettings(drafter="ngram"))
    assert llm.generate(PROMPTS, SamplingParams(max_tokens=16)) == plain
    assert (llm.requested["weights"], llm.effective["weights"], llm.effective["path"]) == ("int8", "int8", "native")


def test_without_a_native_form_weights_are_rounded_all_the_same(monkeypatch, llm):
    def refuse(*_, **__):
        raise UnsupportedError("no C compiler")

    monkeypatch.setattr("wingbeat.engine.llm.to_native", refuse)
    with pytest.warns(UserWarning, match="no C compiler; int8 weights are held as torch.bfloat16"):
        eager = LLM(weights="int8", draft=DraftSettings(drafter="none"), limits=Limits(context=256))
    assert (eager.effective["weights"], eager.effective["path"]) == ("int8, held as bfloat16", "eager")
    ours, native = (model.logits(model.tokenizer.encode(PROMPTS[0])) for model in (eager, llm))
    assert (ours - native).abs().mean() < 0.5


def test_weights_that_contradict_the_dtype():
    with pytest.raises(UsageError, match="choose int8 or float32"):
        LLM(dtype="float32", weights="bfloat16")

"""`LLM` on the default model: streaming, stop strings, switching drafters, clear refusals."""

import pytest
import torch

from wingbeat import LLM, SamplingParams
from wingbeat.engine.llm import _settled
from wingbeat.engine.observe import Unobserved
from wingbeat.engine.settings import DraftSettings, Limits
from wingbeat.errors import CapacityError, NotFoundError, PromptError, UsageError

PROMPTS = ["Count from one to ten.", "What is the capital of France?", "Write a short poem about rain and tea."]
PARAMS = SamplingParams(max_tokens=24)


@pytest.fixture(scope="module")
def llm():
    return LLM(dtype="float32", draft=DraftSettings(drafter="none"), limits=Limits(context=512))


@pytest.fixture(scope="module")
def plain(llm):
    llm.use(DraftSettings(drafter="none"))
    return llm.generate(PROMPTS, PARAMS)


def test_ngram_equals_plain_and_switching_keeps_the_model(llm, plain):
    target = llm.target
    llm.use(DraftSettings(drafter="ngram"))
    assert llm.generate(PROMPTS, PARAMS) == plain
    assert llm.target is target
    assert llm.effective["draft"]["drafter"] == "ngram"


def test_stream_gives_the_same_text(llm, plain):
    pieces = list(llm.stream(PROMPTS[2], PARAMS))
    assert "".join(pieces) == plain[2].text
    assert len(pieces) > 3


def test_closing_a_stream_frees_its_row(llm):
    stream = llm.stream(PROMPTS[0], PARAMS)
    next(stream)
    stream.close()
    assert not llm.engine.has_work


def test_stop_string(llm, plain):
    words = plain[2].text.split()
    stop = " ".join(words[2:4])
    [cut] = llm.generate([PROMPTS[2]], SamplingParams(max_tokens=24, stop=(stop,)))
    assert cut.text == plain[2].text.split(stop)[0]
    assert cut.finish == "stop"
    assert "".join(llm.stream(PROMPTS[2], SamplingParams(max_tokens=24, stop=(stop,)))) == cut.text


def test_messages_ids_and_raw_text(llm):
    [text], [messages] = (
        llm.generate([prompt], PARAMS) for prompt in (PROMPTS[1], [{"role": "user", "content": PROMPTS[1]}])
    )
    [ids] = llm.generate([list(text.prompt_tokens)], PARAMS)
    assert text == messages == ids
    [raw] = llm.generate([PROMPTS[1]], PARAMS, raw=True)
    assert len(raw.prompt_tokens) < len(text.prompt_tokens)


def test_the_answer_makes_sense(llm, plain):
    assert "Paris" in plain[1].text
    assert plain[1].finish == "stop"


@pytest.mark.parametrize(
    ("error", "prompts", "words"),
    [
        (PromptError, [""], "empty"),
        (PromptError, [[0, 49152]], "49152"),
        (PromptError, [[object()]], "text, a list of messages"),
        (CapacityError, ["word " * 600], "context"),
    ],
)
def test_bad_prompts_leave_nothing_behind(llm, error, prompts, words):
    with pytest.raises(error, match=words):
        llm.generate(["fine", *prompts], PARAMS)
    assert not llm.engine.has_work


def test_bad_settings():
    with pytest.raises(NotFoundError, match="does not exist"):
        LLM("/no/such/model")
    with pytest.raises(UsageError, match="dtype"):
        LLM(dtype="int3")


def test_eagle3_without_a_head(llm):
    llm, head = llm, llm.head
    llm.head = None
    with pytest.raises(UsageError, match="needs a draft head"):
        llm.use(DraftSettings(drafter="eagle3"))
    llm.head = head


def test_settled_holds_back_what_may_change():
    assert _settled("abc\ufffd", ()) == 3
    assert _settled("hello EN", ("END",)) == 6
    assert _settled("hello", ("END",)) == 5


def test_context_beyond_the_model(llm):
    with pytest.raises(UsageError, match="exceeds the model's"):
        llm._resolve_context(Limits(context=10**6))


def test_threads_are_recorded(llm):
    assert llm.effective["threads"] == torch.get_num_threads()


def test_verify_through_the_prefill_path_is_named_and_equals_plain(llm, plain):
    llm.use(DraftSettings(drafter="ngram", steps=4, extend=True))
    watcher = Paths()
    assert llm.generate(PROMPTS, SamplingParams(max_tokens=24), observer=watcher) == plain
    assert {path for path, width in watcher.seen if width > 1} == {"extend"}
    assert "extend" not in {path for path, width in watcher.seen if width == 1}


class Paths(Unobserved):
    """Notes how each cycle ran."""

    def __init__(self) -> None:
        self.seen = []

    def cycle(self, facts) -> None:
        self.seen.append((facts.path, facts.width))

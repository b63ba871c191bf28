"""Joining and leaving, stopping, refusing, observing, and not growing."""

import resource

import pytest
import torch

from wingbeat.engine.request import Request, SamplingParams
from wingbeat.engine.settings import DraftSettings, Limits
from wingbeat.errors import CapacityError, PromptError, UsageError

LONG = SamplingParams(max_tokens=60)


class Recorder:
    """Keeps every cycle and the order of phases."""

    def __init__(self) -> None:
        self.cycles, self.phases = [], []

    def phase(self, name):
        self.phases.append(name)
        return torch.no_grad()

    def cycle(self, facts):
        self.cycles.append(facts)


def decode(tokens) -> str:
    return "".join(chr(97 + token % 26) for token in tokens)


@pytest.mark.parametrize("name", ["none", "ngram", "chain", "tree"])
def test_requests_join_and_leave_between_cycles(bench, prompts, name):
    limits = Limits(max_batch=3)
    engine = bench.engine(bench.drafter(name, limits), limits)
    lengths = [5, 40, 12, 33, 7, 21, 3, 60]
    requests = [Request(p, SamplingParams(max_tokens=n)) for p, n in zip(prompts, lengths, strict=True)]
    ended = []
    for request in requests:  # one more joins every second cycle
        engine.submit(request)
        ended += engine.step() + engine.step()
    engine.abort(requests[1])
    while engine.has_work:
        ended += engine.step()
    for request, prompt in zip(requests, prompts, strict=True):
        expected = bench.plain([prompt], SamplingParams(max_tokens=60))[0]
        assert request.output == expected[: request.num_output]
        assert request.finish == "length" or request is requests[1]
    assert {id(r) for r in ended} | {id(requests[1])} == {id(r) for r in requests}


@pytest.mark.parametrize("name", ["none", "tree"])
def test_nothing_after_a_stop_token(bench, prompts, name):
    expected = bench.plain([prompts[3]], LONG)[0]
    stop = expected[25]
    cut = expected[: expected.index(stop) + 1]
    params = SamplingParams(max_tokens=60, stop_token_ids=(stop,))
    assert bench.run(bench.engine(bench.drafter(name)), [prompts[3]], params) == [cut]


def test_end_tokens_and_ignore_eos(bench, prompts):
    expected = bench.plain([prompts[3]], LONG)[0]
    end = frozenset({expected[9]})
    for ignore, size in ((False, expected.index(expected[9]) + 1), (True, 60)):
        request = Request(prompts[3], SamplingParams(max_tokens=60, ignore_eos=ignore), end)
        engine = bench.engine(bench.drafter("tree"))
        engine.submit(request)
        while engine.has_work:
            engine.step()
        assert request.output == expected[:size]
        assert request.finish == ("length" if ignore else "stop")


@pytest.mark.parametrize("name", ["none", "chain", "tree"])
def test_stop_strings_cut_the_text(bench, prompts, name):
    expected = decode(bench.plain([prompts[3]], LONG)[0])
    stop = expected[20:23]
    request = Request(prompts[3], SamplingParams(max_tokens=60, stop=(stop, "never!")), decode=decode)
    engine = bench.engine(bench.drafter(name))
    engine.submit(request)
    while engine.has_work:
        engine.step()
    at = expected.index(stop)
    assert request.text() == expected[:at]
    assert decode(request.output) == expected[: at + 3]
    assert request.completion().finish == "stop"


def test_observer_sees_phases_and_cycles(bench, prompts):
    engine, recorder = bench.engine(bench.drafter("tree")), Recorder()
    engine.observer = recorder
    outputs = bench.run(engine, prompts[:4], LONG)
    assert recorder.phases[:9] == ["prefill"] * 4 + ["draft", "extend", "verify", "accept", "commit"]
    first = recorder.cycles[0]
    assert (first.batch, first.width, first.path) == (4, 10, "eager")
    assert first.contexts == tuple(len(prompt) - 1 for prompt in prompts[:4])
    assert first.drafted == (0, 9, 9, 9)  # a prompt of one token has shown the head nothing yet
    assert sum(sum(facts.committed) for facts in recorder.cycles) == sum(map(len, outputs))


def test_refused_before_it_starts(bench):
    engine = bench.engine(bench.drafter("chain"))
    with pytest.raises(PromptError, match="empty"):
        engine.submit(Request([], LONG))
    with pytest.raises(PromptError, match=r"40 .*0 to 39"):
        engine.submit(Request([1, 40], LONG))
    with pytest.raises(PromptError, match="-1"):
        engine.submit(Request([-1], LONG))
    with pytest.raises(CapacityError, match=r"200 prompt tokens and up to 60 .* 260, but this engine has 256"):
        engine.submit(Request([1] * 200, LONG))
    assert not engine.has_work


def test_a_full_context_is_usable_to_the_last_token(bench):
    prompt = [1, 2, 3] * 65 + [4]
    params = SamplingParams(max_tokens=60)
    for name in ("none", "ngram", "chain", "tree"):
        assert bench.run(bench.engine(bench.drafter(name)), [prompt], params) == bench.plain([prompt], params)


@pytest.mark.parametrize(
    "wrong",
    [
        {"temperature": -1}, {"temperature": float("nan")}, {"top_p": 0}, {"top_k": -1}, {"min_p": 2},
        {"max_tokens": 0}, {"stop": ("",)},
    ],
)
def test_bad_sampling_parameters(wrong):
    with pytest.raises(UsageError, match=next(iter(wrong)) if "stop" not in wrong else "stop string"):
        SamplingParams(**wrong)


@pytest.mark.parametrize(
    "wrong", [{"drafter": "magic"}, {"steps": 0}, {"steps": 65}, {"nodes": 600}, {"drafter": "ngram", "topk": 2}]
)
def test_bad_draft_settings(wrong):
    with pytest.raises(UsageError):
        DraftSettings(**wrong)


def test_memory_does_not_grow_over_2000_cycles(bench):
    engine = bench.engine(bench.drafter("tree", Limits()))
    prompt, params, cycles, readings = [3, 1, 4, 1, 5], SamplingParams(max_tokens=200), 0, []
    while cycles < 2600:
        for _ in range(4):
            engine.submit(Request(prompt, params))
        while engine.has_work:
            engine.step()
            cycles += 1
        readings.append((cycles, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss))
    settled = next(memory for at, memory in readings if at >= 600)
    assert readings[-1][1] - settled < 4_000  # KiB

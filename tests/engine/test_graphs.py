"""Captured forwards equal called ones, and a capture that goes wrong is never silent.

A graph itself needs a GPU (`benchmarks/gpu.py` checks it there). Everything around it runs here, with a recorder that
repeats the call as a graph would: into the same outputs, spoiling those of all other graphs.
"""

import pytest
import torch
from conftest import Bench
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten

from wingbeat.engine.graphs import RepeatRecorder, Runner, round_batch, round_width
from wingbeat.engine.kv_cache import KVCache
from wingbeat.engine.llm import LLM
from wingbeat.engine.request import Request, SamplingParams
from wingbeat.engine.settings import Limits
from wingbeat.engine.steps import Step
from wingbeat.errors import UsageError
from wingbeat.model.attention import attend, attend_as_groups, causal_mask
from wingbeat.model.layers import ForwardInputs

GREEDY = SamplingParams(max_tokens=24)
SAMPLED = SamplingParams(max_tokens=24, temperature=0.8, seed=7)


@pytest.fixture
def captured(monkeypatch):
    """Engines and drafters are built as on a GPU. Their runners are in the list."""
    runners, recorder = [], RepeatRecorder()

    def build(device, rows, eager=False):
        runners.append(Runner(None if eager else recorder, rows))
        return runners[-1]

    monkeypatch.setattr(Runner, "of", build)
    return runners


def inputs_at(cache: KVCache, starts: list[int], width: int, seed: int) -> ForwardInputs:
    """Random tokens after random keys and values."""
    generator = torch.Generator().manual_seed(seed)
    used = cache._all[..., :320, :]
    used.copy_(torch.randn(used.shape, generator=generator))
    cache.lengths[: len(starts)] = starts
    first = cache.starts(0, len(starts))
    tokens = torch.randint(40, (len(starts), width), generator=generator)
    places = first[:, None] + torch.arange(width)
    return ForwardInputs(tokens, places, first, causal_mask(places, cache.reach(0, len(starts), width)))


def empty_cache(bench: Bench, rounded: bool) -> KVCache:
    config = bench.config
    return KVCache(config.num_layers, (5, config.num_kv_heads, 400, config.head_dim), torch.zeros(0), rounded)


@torch.inference_mode()
def test_captured_equals_eager(bench):
    """Over batches, widths and lengths that share graphs, in an order that leaves longer and wider ones behind."""
    runner = Runner(RepeatRecorder(), 5)
    taps = bench.head.config.taps
    captured = Step(bench.target, taps, empty_cache(bench, rounded=True), runner)
    eager = Step(bench.target, taps, empty_cache(bench, rounded=False))
    blocks = [([40], 1), ([300], 1), ([20], 8), ([7, 290, 31], 13), ([50, 3, 99, 1], 16), ([5, 9, 2], 10), ([40], 1)]
    for seed, (starts, width) in enumerate(blocks):
        logits, taps_seen = captured(inputs_at(captured.cache, starts, width, seed))
        wanted, taps_wanted = eager(inputs_at(eager.cache, starts, width, seed))
        torch.testing.assert_close(logits, wanted, atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(taps_seen, taps_wanted, atol=1e-5, rtol=1e-5)
        for row, start in enumerate(starts):
            end = start + width
            torch.testing.assert_close(captured.cache._all[:, :, row, :, :end], eager.cache._all[:, :, row, :, :end])
    assert captured.path == "repeat"
    assert eager.path == "eager"
    shapes = {(round_batch(len(starts), 5), round_width(width), max(starts) > 255) for starts, width in blocks}
    assert len(runner._graphs) == len(shapes) == 5


ONE, THREE = Limits(max_batch=1), Limits(max_batch=3, prefill_chunk=16)


@pytest.mark.parametrize(
    ("name", "limits", "params"),
    [
        ("none", THREE, GREEDY), ("ngram", THREE, GREEDY), ("chain", THREE, SAMPLED), ("tree", THREE, GREEDY),
        ("chain", ONE, GREEDY),
    ],
)
def test_a_captured_engine_is_lossless(bench, prompts, captured, name, limits, params):
    engine = bench.engine(bench.drafter(name, limits), limits)
    assert engine.step_forward.path == "repeat"
    outputs = bench.run(engine, prompts[:6], params)
    assert all(runner._graphs and not runner.because for runner in captured)
    eager = Limits(max_batch=1, eager=True)
    plain = bench.engine(bench.drafter("none", eager), eager)
    assert plain.step_forward.path == "eager"
    assert outputs == bench.run(plain, prompts[:6], params)


def test_a_short_prompt_joins_a_request_at_the_end_of_its_context(bench, captured):
    """The head extends over the short one's prompt in the same forward as over the long one's last tokens."""
    limits = Limits(max_batch=2)
    engine = bench.engine(bench.drafter("chain", limits), limits)
    prompts = [[1, 2, 3] * 65 + [4], [9], [5, 6, 7] * 20]
    lengths = (60, 52, 9)
    requests = [Request(p, SamplingParams(max_tokens=n)) for p, n in zip(prompts, lengths, strict=True)]
    for request in requests:
        engine.submit(request)
    while engine.has_work:
        engine.step()
    for request in requests:
        assert [request.output] == bench.plain([request.prompt], request.params)


class _Failing:
    """A recorder that cannot, or that replays something else."""

    path = "graph"

    def __init__(self, error: str | None) -> None:
        self.error = error

    def record(self, work):
        if self.error:
            raise RuntimeError(self.error)
        outputs = tuple(output.clone() for output in work())
        return lambda: [output.add_(1) for output in outputs], outputs


@pytest.mark.parametrize(
    ("error", "words"), [("operation not permitted when stream is capturing", "not permitted"), (None, "other results")]
)
def test_a_failed_capture_is_told_and_recorded(bench, prompts, monkeypatch, error, words):
    plain = bench.plain(prompts[1:3], GREEDY)
    monkeypatch.setattr(Runner, "of", lambda device, rows, eager=False: Runner(_Failing(error), rows))
    facts = []
    engine = bench.engine(bench.drafter("chain"))
    engine.observer.cycle = facts.append
    with pytest.warns(UserWarning, match=words):
        outputs = bench.run(engine, prompts[1:3], GREEDY)
    assert outputs == plain
    assert {fact.path for fact in facts} == {"eager"}
    assert [fact.captured for fact in facts] == [True] + [False] * (len(facts) - 1)
    assert words in engine.step_forward.because


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_cuda_where_there_is_none_is_refused():
    with pytest.raises(UsageError, match="no CUDA device"):
        LLM(device="cuda")


def test_a_mistake_in_the_function_itself_is_raised():
    def wrong(x):
        return (x @ x.new_zeros(7, 7),)

    run = Runner(RepeatRecorder(), 4)
    with pytest.warns(UserWarning, match="shape"), pytest.raises(RuntimeError, match="shape"):
        run(wrong, (torch.ones(2, 3),))


def test_outputs_hold_until_the_next_call_only():
    run = Runner(RepeatRecorder(), 4)
    (first,) = run(lambda x: (x + 1,), (torch.zeros(2, 3),))
    assert first.tolist() == [[1.0] * 3] * 2
    run(lambda x: (x + 2,), (torch.zeros(2, 3),))
    assert first.isnan().all()


def test_rounding():
    assert [round_batch(rows, 12) for rows in (1, 2, 3, 5, 8, 9, 12)] == [1, 2, 4, 8, 8, 12, 12]
    assert [round_width(width) for width in (1, 7, 8, 9, 16, 17)] == [1, 7, 8, 16, 16, 24]
    cache = KVCache(1, (1, 1, 1000, 2), torch.zeros(0), rounded=True)
    reached = {columns: cache.round_reach(columns) for columns in range(1, 1001)}
    assert set(reached.values()) == {256, 384, 512, 768, 1024}
    assert all(columns <= reach for columns, reach in reached.items())
    assert KVCache(1, (1, 1, 1000, 2), torch.zeros(0)).round_reach(7) == 7


def test_heads_folded_into_queries_attend_alike():
    query, mask = torch.randn(2, 6, 3, 8), causal_mask(torch.tensor([[4, 5, 6], [9, 10, 11]]), 12)
    cache = torch.randn(2, 3, 15, 8), torch.randn(2, 3, 15, 8)
    keys = cache[0][:, :, :12], cache[1][:, :, :12]
    torch.testing.assert_close(attend_as_groups(query, keys, mask), attend(query, cache, mask))


class _NoHost(TorchDispatchMode):
    """Refuses what a capture on a GPU would refuse: tensors of the host. Single numbers go along with a launch."""

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        outputs = function(*args, **(kwargs or {}))
        flat = tree_flatten((args, kwargs, outputs))[0]
        devices = {each.device.type for each in flat if isinstance(each, torch.Tensor) and each.dim()}
        assert devices <= {"meta"}, f"{function} touches {devices}"
        return outputs


@pytest.mark.parametrize("flags", [{}, {"fc_norm": True, "norm_output": True}])
@pytest.mark.parametrize("name", ["chain", "tree"])
def test_nothing_that_is_captured_touches_the_host(monkeypatch, name, flags):
    """On a device of shapes alone, where nothing can be read back, and no tensor of the host may come in."""
    bench = Bench(**flags)
    bench.target.to("meta")
    bench.head.to("meta")
    drafter = bench.drafter(name)
    step = bench.engine(drafter).step_forward
    tokens = torch.ones(2, 3, dtype=torch.int64, device="meta")
    taps = torch.ones(2, 3, drafter._no_pairs[1].shape[1], device="meta")
    starts, last, mask = tokens[:, 0], taps[:, :1, :32], torch.ones(2, 3, 256, dtype=torch.bool, device="meta")

    def everything():
        step._forward(tokens, starts, columns=256)
        step._forward(tokens, starts, tokens, mask, columns=256)
        drafter._forward(tokens, taps, starts, 256)
        return drafter._grow(last, starts, 3, 256)[0].shape

    assert everything() == (2, 3 if name == "chain" else 9)
    host = torch.ones(2)
    with _NoHost(), pytest.raises(AssertionError, match="cpu"):
        host.to("meta")
    monkeypatch.delattr(torch, "tensor")  # makes tensors of lists, on the host, where no mode sees it
    with _NoHost():
        everything()

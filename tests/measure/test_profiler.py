"""Timing of single forwards: the order of calls, the grid, and every cell of a tiny engine."""

from dataclasses import asdict

import pytest
import torch
from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM

from wingbeat.engine.llm import LLM
from wingbeat.engine.settings import DraftSettings, Limits
from wingbeat.errors import UsageError
from wingbeat.measure import profiler
from wingbeat.measure.clock import FakeClock
from wingbeat.measure.record import Launch, RunRecord
from wingbeat.model.config import HeadConfig
from wingbeat.model.cost import Block, draft_extend, draft_step, target_step
from wingbeat.model.draft_head import DraftHead
from wingbeat.model.weights import locate_model, read_target_config
from wingbeat.model.weights.head_saving import save_head


def test_calls_are_timed_in_turn_and_the_first_round_does_not_count():
    clock, order = FakeClock(), []

    def call(name, seconds):
        def run():
            order.append(name)
            clock.advance(seconds if order.count(name) > 1 else 99.0)

        return run

    times = profiler.interleave([call("a", 0.001), call("b", 0.002)], 2, clock, lambda: clock.advance(0.0005))
    assert "".join(order) == "baabba"
    assert times == [pytest.approx([1.5, 1.5]), pytest.approx([2.5, 2.5])]


def test_the_usual_contexts_are_those_that_fit_and_the_most():
    assert profiler.Grid.within(4096, None, [8, 1], 3) == profiler.Grid((1, 8), (128, 512, 2048, 4088), 3)
    assert profiler.Grid.within(100, None, [1, 4], 3).contexts == (92,)


@pytest.mark.parametrize(
    ("contexts", "widths", "message"),
    [([500], [1, 32], "the longest context is 480"), ([], [1], "at least one"), ([8], [0], "1 or more"),
     (None, [], "at least one")],
)  # fmt: skip
def test_a_grid_that_cannot_be_measured_is_refused(contexts, widths, message):
    with pytest.raises(UsageError, match=message):
        profiler.Grid.within(512, contexts, widths, 3)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tiny")
    words = locate_model(None)
    AutoTokenizer.from_pretrained(str(words.parent), gguf_file=words.name).save_pretrained(folder / "model")
    config = LlamaConfig(
        vocab_size=49152, hidden_size=32, intermediate_size=64, num_hidden_layers=4, num_attention_heads=2,
        num_key_value_heads=1, max_position_embeddings=256, tie_word_embeddings=True,
    )
    LlamaForCausalLM(config).save_pretrained(folder / "model")
    target = read_target_config(folder / "model")
    save_head(DraftHead.random(HeadConfig.for_target(target, 500)), folder / "head")
    return folder


@pytest.fixture(scope="module")
def llm(folder):
    return LLM(str(folder / "model"), head=str(folder / "head"), limits=Limits(max_batch=1))


def test_every_cell_is_timed_with_what_it_takes_at_least(llm):
    grid = profiler.Grid((1, 4), (16, 200), repeats=2)
    ceilings, timings = profiler.measure(llm, grid, [DraftSettings(steps=3, topk=2), DraftSettings(steps=2)])
    assert min(asdict(ceilings).values()) > 0
    paths = {llm.engine.step_forward.path, "eager"}
    verify = [one for one in timings if one.part == "verify"]
    assert {(one.path, one.context, one.width) for one in verify} == {
        (path, context, width) for path in paths for context in (16, 200) for width in (1, 4)
    }
    drafting = [one for one in timings if one.part == "draft"]
    assert [(one.context, one.branches, one.width) for one in drafting] == [
        (context, *cell) for context in (16, 200) for cell in ((1, 1), (1, 2), (1, 4), (1, 8), (2, 3))
    ]
    assert all(0 < one.low <= one.ms <= one.high for one in timings)
    cost = target_step(llm.target.config, Block(width=4, context=200), item=2)
    assert {(one.bytes, one.flops) for one in verify if (one.context, one.width) == (200, 4)} == {
        (cost.bytes, cost.flops)
    }
    config = llm.head.config
    packed = 1.0625 if llm.effective["head_weights"] == "int8" else 2
    step = draft_step(config, Block(width=2, context=16), 2, packed)
    cost = draft_extend(config, Block(width=2, context=16), 2, packed) + step + step
    assert {(one.bytes, one.flops) for one in drafting if (one.context, one.branches) == (16, 2)} == {
        (cost.bytes, cost.flops)
    }


def test_int8_weights_are_fewer_bytes_on_quick_forwards_alone(folder):
    llm = LLM(str(folder / "model"), weights="int8", limits=Limits(max_batch=1))
    if llm.weights != "int8":
        pytest.skip(f"no native forwards here: {llm.eager_because}")
    _, timings = profiler.measure(llm, profiler.Grid((2,), (16,), 1), [])
    block = Block(width=2, context=16)
    assert {one.path: one.bytes for one in timings} == {
        "native": target_step(llm.target.config, block, 2, 1.0625).bytes,
        "eager": target_step(llm.target.config, block, 2).bytes,
    }


def test_the_eager_forward_can_be_left_out_and_float32_has_no_other(folder):
    llm = LLM(str(folder / "model"), dtype="float32", limits=Limits(max_batch=1))
    _, timings = profiler.measure(llm, profiler.Grid((1,), (16,), 1), [])
    assert [(one.part, one.path) for one in timings] == [("verify", "eager")]


@torch.inference_mode()
def test_drafting_is_measured_at_the_context_that_it_says(llm):
    starts = []
    drafter_step = llm.head.__class__.__call__

    def watched(self, inputs, features, cache):
        starts.append(int(inputs.starts[0]) + inputs.tokens.shape[1])
        return drafter_step(self, inputs, features, cache)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(llm.head.__class__, "__call__", watched)
        call = profiler._drafting(llm, DraftSettings(steps=1), 100, repeats=3)
        before = len(starts)
        for _ in range(4):
            call()
    assert starts[before:] == [94, 96, 98, 100]


def run_of(llm, **changes):
    effective = {**llm.effective, "draft": asdict(DraftSettings(steps=3)), **changes}
    return RunRecord("bench", "", {}, {}, ["eagle3"], [Launch(effective={"eagle3": effective})])


def test_a_record_names_the_drafting_to_measure_and_must_be_of_the_same_model(llm):
    assert profiler.drafts(llm, run_of(llm)) == [DraftSettings(steps=3)]
    for name, value in (("dtype", "float32"), ("weights", "int8")):
        with pytest.raises(UsageError, match=rf"{name} {value} \(here bfloat16\).*; profile the same"):
            profiler.drafts(llm, run_of(llm, **{name: value}))



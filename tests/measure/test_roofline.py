"""Fits, look-ups and predictions from tables, against runs whose costs are written down."""

import runpy
from pathlib import Path

import pytest

from wingbeat.errors import UsageError
from wingbeat.measure.roofline import BreakEven, Ceilings, Parts, Timing, fit, lookup, predict, speed_up
from wingbeat.measure.runner import Plan, measure
from wingbeat.measure.subjects import FakeArm, FakeSubject
from wingbeat.measure.workload import bundled

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


def cell(width, context, ms, part="verify", **changes):
    base = {"part": part, "path": "script", "width": width, "context": context, "branches": 1, "ms": ms, "low": ms}
    return Timing(**{**base, "high": ms, "bytes": 200_000_000, "flops": 4_000_000_000, **changes})


def test_a_line_through_points_on_a_line_is_that_line():
    line = fit([2, 3, 5], [10.0, 11.0, 13.0])
    assert (line.intercept, line.slope, line.worst) == pytest.approx((8.0, 1.0, 0.0))
    assert line.at(7) == pytest.approx(15.0)


def test_a_line_says_how_far_the_worst_point_is():
    line = fit([0, 1, 2], [1.0, 4.0, 1.0])
    assert (line.intercept, line.slope, line.worst) == pytest.approx((2.0, 0.0, 1.0))


def test_one_place_gives_no_line():
    with pytest.raises(UsageError, match="two places"):
        fit([3, 3], [1.0, 2.0])


def test_published_fits_come_out_of_the_cost_model():
    published = runpy.run_path(str(BENCHMARKS / "published_fits.py"))
    for method, intercept, slope in (("EAGLE-3", 8.35, 1.02), ("EAGLE-1", 7.7, 0.74)):
        line = published["round_line"](method)
        assert [line.at(steps) for steps in range(2, 8)] == pytest.approx(
            [intercept + slope * steps for steps in range(2, 8)], rel=0.02
        )
        assert line.worst < 0.022  # of the published points themselves
        tpot = published["TPOT_MS"][method]
        assert published["predicted_tpot"](method) == pytest.approx(tpot, rel=0.022)
        assert published["best_steps"](published["predicted_tpot"](method)) == published["best_steps"](tpot)
    assert published["round_ms"]("EAGLE-3") == pytest.approx([10.20, 11.41, 12.47, 13.71, 14.53, 15.19], abs=0.006)
    assert published["sglang_step_ms"]() == pytest.approx(0.43, rel=0.02)
    assert published["graph_share"]() == pytest.approx(0.27, abs=0.005)


def test_the_weights_of_llama_8b_and_its_head():
    published = runpy.run_path(str(BENCHMARKS / "published_fits.py"))
    least = {name: ms * published["H100_GB_PER_S"] * 1e6 for name, ms in published["least_ms"]().items()}
    embedding = 2 * 128256 * 4096
    assert least["decode"] == pytest.approx(2 * 8_030_261_248 - embedding, rel=1e-5)  # parameters on the model's card
    assert least["EAGLE-3"] < 0.5 * least["EAGLE-1"]


def test_the_story_needs_more_than_2_4_tokens_per_cycle():
    even = BreakEven.of(Parts(draft=0.0, verify=29.0, rest=0.0), plain_ms=1000 / 82.5, tokens_per_cycle=1.75)
    assert even.needed == pytest.approx(2.39, abs=0.01)
    assert even.verify_ms == pytest.approx(21.2, abs=0.05)
    assert even.achieved < even.needed


def test_what_verify_may_cost_is_where_the_speed_up_is_one():
    even = BreakEven.of(Parts(draft=3.0, verify=20.0, rest=1.0), plain_ms=10.0, tokens_per_cycle=2.0)
    assert speed_up(2.0, 3.0 + even.verify_ms + 1.0, 10.0) == pytest.approx(1.0)


def test_look_up_is_linear_between_cells_and_stays_at_the_edges():
    cells = [cell(1, 100, 10.0), cell(5, 100, 14.0), cell(1, 300, 20.0), cell(5, 300, 24.0)]
    assert lookup(cells, 1, 100) == 10.0
    assert lookup(cells, 3, 100) == pytest.approx(12.0)
    assert lookup(cells, 3, 200) == pytest.approx(17.0)
    assert lookup(cells, 9, 1000) == 24.0
    assert lookup(cells, 0, 0) == 10.0


def test_the_bound_is_the_slower_of_moving_and_computing():
    one = cell(1, 100, 10.0)
    assert one.gb_per_s == pytest.approx(20.0)
    assert one.gflop_per_s == pytest.approx(400.0)
    assert one.bound_ms(Ceilings(gb_per_s=40.0, gflop_per_s=1000.0, launch_us=1.0)) == pytest.approx(5.0)
    assert one.bound_ms(Ceilings(gb_per_s=40.0, gflop_per_s=500.0, launch_us=1.0)) == pytest.approx(8.0)


@pytest.fixture
def run(tmp_path):
    def run(settings=None, **arms):
        plan = Plan(bundled().take(4), tuple(arms))
        record = plan.record("bench", {})
        measure(record, FakeSubject(arms, max_tokens=60), plan, tmp_path / "run.jsonl")
        for arm in arms:
            record.launches[0].effective[arm]["draft"] = settings or {"drafter": "ngram", "steps": 4, "topk": 1}
        return record

    return run


PLAIN = FakeArm(20.0)
FAST = FakeArm(24.0, draft_ms=5.0, drafted=4, accepted=(3, 1))
TABLE = [cell(1, 100, 20.0), cell(5, 100, 24.0)]


def test_a_run_that_does_as_the_tables_say_leaves_no_residual(run):
    [found] = predict(run(plain=PLAIN, ngram=FAST), TABLE)
    # 20 cycles an answer, 3 and 1 accepted in turn, the first left out
    assert found.acceptance == pytest.approx((1.0, 9 / 19, 9 / 19))
    assert found.tokens_per_cycle == pytest.approx(2 + 18 / 19)
    observed = found.observed
    assert (observed.draft, observed.verify, observed.rest) == pytest.approx((5.0, 24.0, 1.0), rel=1e-4)
    assert found.draft_from_run
    assert found.speed_up_predicted == pytest.approx(found.tokens_per_cycle * 21 / 30, rel=1e-4)
    assert found.residual == pytest.approx(0.0, abs=1e-4)
    assert found.break_even.needed == pytest.approx(30 / 21, rel=1e-4)
    assert found.break_even.verify_ms == pytest.approx(found.tokens_per_cycle * 21 - 6, rel=1e-4)


def test_a_verify_that_is_slower_in_the_run_is_the_residual(run):
    slow = FakeArm(48.0, draft_ms=5.0, drafted=4, accepted=(3, 1))
    [found] = predict(run(plain=PLAIN, ngram=slow), TABLE)
    assert found.predicted.verify == pytest.approx(24.0)
    assert found.observed.verify == pytest.approx(48.0, rel=1e-4)
    assert found.residual == pytest.approx(30 / 54 - 1, rel=1e-3)
    assert found.break_even.needed > found.break_even_predicted.needed


def test_drafting_that_was_measured_comes_from_the_tables(run):
    settings = {"drafter": "eagle3", "steps": 4, "topk": 1}
    drafting = [cell(4, 100, 3.0, "draft"), cell(2, 100, 1.0, "draft"), cell(4, 100, 9.0, "draft", branches=2)]
    [found] = predict(run(settings, plain=PLAIN, eagle3=FAST), [*TABLE, *drafting])
    assert not found.draft_from_run
    assert found.predicted.draft == pytest.approx(3.0)
    assert found.observed.draft == pytest.approx(5.0, rel=1e-4)


def test_a_chain_costs_what_its_depth_costs_and_nothing_where_nothing_is_drafted(run):
    record = run({"drafter": "eagle3", "steps": 4, "topk": 1}, plain=PLAIN, eagle3=FAST)
    for entry in record.measured():
        drafted = entry.arms["eagle3"].cycles.drafted.flat  # of 20 cycles; the first is left out
        drafted[1:11], drafted[11:16] = type(drafted)("i", [0] * 10), type(drafted)("i", [2] * 5)
    [found] = predict(record, [*TABLE, cell(2, 100, 1.0, "draft"), cell(4, 100, 3.0, "draft")])
    assert found.predicted.draft == pytest.approx((5 * 1.0 + 4 * 3.0) / 19)


def test_the_first_cycle_which_also_reads_the_prompt_is_left_out(run):
    record = run(plain=PLAIN, ngram=FAST)
    for entry in record.measured():
        entry.arms["ngram"].cycles.ms["draft"][0] = 500.0
    [found] = predict(record, TABLE)
    assert found.observed.draft == pytest.approx(5.0, rel=1e-4)


def test_nothing_is_predicted_without_a_plain_arm_or_a_draft(run):
    assert predict(run(ngram=FAST), TABLE) == ()
    assert predict(run(plain=PLAIN, ngram=PLAIN), TABLE) == ()


def test_a_path_without_a_table_is_refused(run):
    with pytest.raises(UsageError, match="forwards were script"):
        predict(run(plain=PLAIN, ngram=FAST), [cell(1, 100, 20.0, path="native")])


def test_a_verify_as_extend_is_an_eager_forward(run):
    record = run(plain=PLAIN, ngram=FAST)
    for entry in record.measured():
        cycles = entry.arms["ngram"].cycles
        cycles.path = ["extend"] * len(cycles)
    [found] = predict(record, [*TABLE, cell(5, 100, 60.0, path="eager")])
    assert found.predicted.verify == pytest.approx(60.0)


def test_cycles_of_several_requests_are_refused(run):
    record = run(plain=PLAIN, ngram=FAST)
    record.measured()[0].arms["ngram"].cycles.contexts.append([5, 6])
    with pytest.raises(UsageError, match="cycles of several"):
        predict(record, TABLE)

import random

import pytest
from scipy import stats as reference

from wingbeat.measure import stats
from wingbeat.measure.runner import Plan, measure
from wingbeat.measure.subjects import FakeArm, FakeSubject
from wingbeat.measure.workload import bundled


def run(tmp_path, prompts=8, temperature=0.0, max_tokens=32, **arms):
    plan = Plan(bundled().take(prompts), tuple(arms))
    record = plan.record("bench", {"temperature": temperature, "dtype": "bfloat16"})
    measure(record, FakeSubject(arms, max_tokens), plan, tmp_path / "run.json")
    return record


def test_spread_is_the_median_with_quartiles():
    values = [5.0, 1.0, 4.0, 2.0, 3.0]
    assert stats.spread(values) == stats.Spread(3.0, 2.0, 4.0, 5)
    assert stats.spread([7.0]) == stats.Spread(7.0, 7.0, 7.0, 1)
    with pytest.raises(ValueError, match="no values"):
        stats.spread([])


@pytest.mark.parametrize(("wins", "losses"), [(0, 0), (1, 0), (5, 5), (6, 0), (0, 6), (14, 3), (18, 6)])
def test_sign_test_is_the_exact_binomial_test(wins, losses):
    expected = reference.binomtest(wins, wins + losses).pvalue if wins + losses else 1.0
    assert stats.sign_test(wins, losses) == pytest.approx(expected)


def test_acceptance_by_position_of_a_chain():
    # four cycles with a draft (one of only two tokens) and one without
    found = stats.acceptance(drafted=[3, 3, 2, 3, 0], accepted=[3, 1, 2, 0, 0])
    assert found.unconditional == pytest.approx([3 / 4, 2 / 4, 1 / 4])
    assert found.conditional == pytest.approx([3 / 4, 2 / 3, 1 / 1])  # position 3 was drafted once after two accepted
    assert found.drafted == pytest.approx(4 / 5)
    # 1 + the sum of unconditional acceptance is the mean number of tokens of a cycle with a draft
    assert 1 + sum(found.unconditional) == pytest.approx(1 + (3 + 1 + 2 + 0) / 4)


def test_acceptance_without_a_draft_and_without_a_hit():
    assert stats.acceptance([0, 0], [0, 0]) is None
    found = stats.acceptance([4, 4], [0, 0])
    assert (found.unconditional, found.conditional) == ((0.0,), (0.0,))


def test_a_summary_recovers_the_script(tmp_path):
    eagle3 = FakeArm(24.0, draft_ms=5.0, rest_ms=1.0, drafted=4, accepted=(3, 1))
    plain, fast = stats.summarise(run(tmp_path, plain=FakeArm(20.0, rest_ms=1.0), eagle3=eagle3, max_tokens=60))
    assert plain.tokens_per_second.median == pytest.approx(1000 / 21)
    assert plain.tokens_per_cycle == 1
    assert (plain.acceptance, plain.against_plain) == (None, None)
    assert {name: part.median for name, part in fast.ms.items()} == pytest.approx(
        {"cycle": 30.0, "draft": 5.0, "verify": 24.0, "rest": 1.0}
    )
    assert fast.prefill_ms.median == pytest.approx(10)
    assert fast.tokens_per_cycle == pytest.approx(3.0)  # (3 + 1 + 1 + 1) / 2
    assert fast.acceptance.unconditional == pytest.approx([1.0, 0.5, 0.5])
    assert fast.acceptance.conditional == pytest.approx([1.0, 0.5, 1.0])
    against = fast.against_plain
    assert against.break_even.median == pytest.approx(30 / 21)
    assert against.verify_ratio.median == pytest.approx(24 / 20)
    assert against.speed_up.median == pytest.approx(fast.tokens_per_cycle / against.break_even.median)
    assert (against.verdict.answer, against.verdict.wins, against.verdict.prompts) == ("faster", 8, 8)
    assert (against.identity.same, against.identity.compared) == (8, 8)


@pytest.mark.parametrize(
    ("verify_ms", "prompts", "answer"),
    [(40.0, 8, "slower"), (20.1, 8, "same"), (10.0, 4, "cannot tell"), (10.0, 6, "faster")],
)
def test_the_verdict_on_an_arm(tmp_path, verify_ms, prompts, answer):
    record = run(tmp_path, prompts, plain=FakeArm(20.0), ngram=FakeArm(verify_ms, drafted=4))
    assert stats.summarise(record)[1].against_plain.verdict.answer == answer


def test_too_few_prompts_can_never_decide():
    few = stats.verdict({str(n): [2.0] for n in range(5)})
    assert few.answer == "cannot tell"
    assert few.smallest > stats.LEVEL
    enough = stats.verdict({str(n): [2.0] for n in range(6)})
    assert enough.answer == "faster"
    assert enough.smallest < stats.LEVEL


def test_repeats_of_a_prompt_are_not_more_evidence():
    assert stats.verdict({"a": [2.0] * 50, "b": [2.0] * 50}).answer == "cannot tell"


def test_noise_alone_is_seldom_called_a_difference():
    rng = random.Random(5)
    alarms = 0
    for _ in range(2000):
        ratios = {str(n): [rng.lognormvariate(0, 0.2)] for n in range(24)}
        alarms += stats.verdict(ratios).answer in ("faster", "slower")
    assert alarms / 2000 <= 0.065


def test_differences_are_counted_and_the_worst_is_named(tmp_path):
    record = run(tmp_path, plain=FakeArm(20.0), ngram=FakeArm(20.0, differs_at=7))
    rounds = record.measured()
    rounds[0].differences["ngram"] = []
    rounds[3].differences["ngram"][0].gap = 0.25

    def identity():
        return stats.summarise(record)[1].against_plain.identity

    assert identity() == stats.Identity(1, 8, 0.25, True, (rounds[3].prompt, 7))
    rounds[4].differences["ngram"][0].gap = 1.25
    assert identity() == stats.Identity(1, 8, 1.25, False, (rounds[4].prompt, 7))
    rounds[5].differences["ngram"][0].gap = None  # not measured is not a near tie
    assert identity() == stats.Identity(1, 8, None, False, (rounds[5].prompt, 7))
    record.requested["dtype"] = "an unknown type"
    rounds[5].differences["ngram"][0].gap = 0.001
    assert not identity().near_ties


def test_sampled_outputs_are_not_compared(tmp_path):
    record = run(tmp_path, temperature=0.7, plain=FakeArm(20.0), ngram=FakeArm(20.0))
    assert stats.summarise(record)[1].against_plain.identity is None


def test_without_a_plain_arm_nothing_is_compared(tmp_path):
    summaries = stats.summarise(run(tmp_path, ngram=FakeArm(20.0), eagle3=FakeArm(20.0)))
    assert [summary.against_plain for summary in summaries] == [None, None]


def test_a_record_with_warm_up_alone_has_no_figures(tmp_path):
    record = run(tmp_path, plain=FakeArm(20.0))
    record.launches[0].rounds = record.launches[0].rounds[:1]
    assert stats.summarise(record) == []

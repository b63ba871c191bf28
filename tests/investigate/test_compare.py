import math
import runpy
from dataclasses import replace
from pathlib import Path

import pytest
import scenarios
from scenarios import WORKLOAD, cycles, launches, measured, noted, sampled

from wingbeat.errors import UsageError
from wingbeat.investigate.compare import compare
from wingbeat.investigate.history import against_history
from wingbeat.investigate.side import common_arm, side

SIMULATION = runpy.run_path(str(Path(__file__).parents[2] / "benchmarks" / "false_alarms.py"))


def of(before, after, arm="eagle3", **named):
    return compare(side("a", before, arm), side("b", after, arm), **named)


def test_the_story_verify_explains_the_loss_and_tokens_per_cycle_did_not_move():
    found = of(*scenarios.story())
    assert found.verdict == "slower"
    assert [row.name for row in found.explained_by()] == ["verify_ms"]
    assert found.row("verify_ms").share == pytest.approx(0.94, abs=0.01)
    tokens = found.row("tokens_per_cycle")
    assert (tokens.before, tokens.after) == (pytest.approx(94 * 0.019), pytest.approx(60 * 0.029))
    assert tokens.answer != "differs"
    assert tokens.origin == "at least: tok/s x cycle time"
    good, bad = found.break_even
    assert bad.bound
    assert bad.needed == pytest.approx(29 / (1000 / 82.5))
    assert good.needed < good.reached
    assert bad.needed > bad.reached
    assert bad.verify_ms == pytest.approx(29 * 60 / 82.5)
    assert found.control.answer == "cannot tell"
    assert any("Context lengths are not known (a and b)" in line for line in found.unclaimed)
    assert any("Not known on both sides" in line for line in found.cautions)


def test_a_smaller_loss_noted_once_cannot_be_told():
    found = of(noted("a", eagle3={"tokens_per_second": 94}), noted("b", eagle3={"tokens_per_second": 80}))
    assert (found.verdict, found.needed) == ("cannot tell", None)
    assert found.explained_by() == []


@pytest.mark.parametrize(
    ("known", "name", "value"),
    [
        ({"tokens_per_second": 100, "tokens_per_cycle": 2.0}, "cycle_ms", 20.0),
        ({"tokens_per_second": 100, "cycle_ms": 20.0}, "tokens_per_cycle", 2.0),
        ({"tokens_per_cycle": 2.0, "cycle_ms": 20.0}, "tokens_per_second", 100.0),
        ({"tokens_per_second": 100, "draft_ms": 4.0, "verify_ms": 16.0}, "tokens_per_cycle", 2.0),
    ],
)
def test_what_is_not_noted_follows_from_what_is(known, name, value):
    row = of(noted("a", eagle3=known), noted("b", eagle3=known)).row(name)
    assert (row.before, row.after) == (pytest.approx(value), pytest.approx(value))
    assert row.origin


def test_what_known_parts_leave_of_the_cycle_can_be_the_cause():
    before = noted("a", eagle3={"tokens_per_second": 100, "cycle_ms": 20, "verify_ms": 17})
    after = noted("b", eagle3={"tokens_per_second": 50, "cycle_ms": 40, "verify_ms": 17.5})
    found = of(before, after)
    assert [row.name for row in found.explained_by()] == ["rest_ms"]
    assert (found.row("rest_ms").before, found.row("rest_ms").after) == (pytest.approx(3), pytest.approx(22.5))


def test_sides_are_left_as_they_are():
    one, other = (side(record.name, record, "eagle3") for record in scenarios.story())
    first, second = compare(one, other), compare(one, other)
    assert first.rows == second.rows
    assert "tokens_per_cycle" not in one.launches[0].levels


def test_a_noted_range_widens_the_interval():
    exact = of(noted("a", eagle3={"verify_ms": 19}), noted("b", eagle3={"verify_ms": 29}))
    ranged = of(noted("a", eagle3={"verify_ms": (19, 12, 30)}), noted("b", eagle3={"verify_ms": 29}))
    assert exact.verdict == "slower"  # by verify alone: the only thing known
    assert ranged.row("verify_ms").change.half > exact.row("verify_ms").change.half


def test_launches_and_parts_add_up_to_the_whole_change():
    found = of(measured("a", launches()), measured("b", launches(verify=24.0, draft=3.0, accepted=(2, 1, 1))))
    rows = {row.name: row for row in found.rows}
    whole = rows["tokens_per_second"].change.value
    assert rows["tokens_per_cycle"].effect.value + rows["cycle_ms"].effect.value == pytest.approx(whole)
    parts = [rows[name].effect.value for name in ("draft_ms", "verify_ms", "host_ms")]
    assert sum(parts) == pytest.approx(rows["cycle_ms"].effect.value)
    assert rows["verify_ms"].after - rows["verify_ms"].before == pytest.approx(4.0, rel=0.01)
    assert rows["draft_ms"].change.value == pytest.approx(math.log(1.5), rel=0.01)
    assert found.unaccounted == 0.0
    assert rows["tokens_per_second"].change.basis == "launches"


def test_slower_verify_is_found_and_plain_decoding_serves_as_control():
    found = of(measured("a", launches()), measured("b", launches(verify=30.0)))
    assert found.verdict == "slower"
    assert [row.name for row in found.explained_by()] == ["verify_ms"]
    assert found.row("tokens_per_cycle").answer == "same"
    assert found.row("draft_ms").answer == "same"
    assert found.control.answer == "same"
    assert found.break_even[1].needed == pytest.approx((30 + 2 + 1) / 16, rel=0.01)
    assert found.break_even[1].verify_ms == pytest.approx(2.0 * 16 - 3, rel=0.01)
    assert found.outputs == (6, 6)


def test_fallen_acceptance_is_found_with_its_position():
    found = of(measured("a", launches()), measured("b", launches(accepted=(2, 0, 0, 0))))
    assert found.verdict == "slower"
    assert [row.name for row in found.explained_by()] == ["tokens_per_cycle"]
    assert found.row("cycle_ms").answer == "same"
    first, second = found.positions
    assert first.unconditional == (pytest.approx(0.75), pytest.approx(0.25))
    assert first.moved == pytest.approx(-0.5)
    assert second.unconditional == (pytest.approx(0.25), pytest.approx(0.25))
    assert second.conditional == (pytest.approx(1 / 3), pytest.approx(1.0))
    assert (second.low, second.high) == (0.0, 0.0)


def test_acceptance_of_one_launch_has_its_interval_from_prompts():
    def run(*accepted):
        return measured("", [{"eagle3": {f"p{n}": cycles(2, 20, accepted=(2, a)) for n, a in enumerate(accepted)}}])

    found = of(run(0, 1, 2, 0, 1, 2), run(0, 0, 2, 0, 1, 0)).positions[0]
    assert found.low < found.moved < found.high
    assert found.moved == pytest.approx(-2 / 12)


def test_arms_of_one_run_are_compared_launch_by_launch():
    record = measured("a", launches(factors=(0.7, 1.0, 1.4)))
    found = compare(side("a:plain", record, "plain"), side("a:eagle3", record, "eagle3"))
    assert found.primary.change.basis == "pairs"
    assert found.verdict == "faster"  # 2 tokens in 23 ms against 1 in 16, though launches differ twofold
    assert found.control is None
    assert found.row("draft_ms").before == 0  # plain decoding has no such part, and the sum of parts is still the whole
    parts = [row.effect.value for row in found.rows if row.name.endswith("_ms") and row.name != "cycle_ms"]
    assert sum(parts) == pytest.approx(found.row("cycle_ms").effect.value)
    one = measured("a", launches(factors=(1.0,)))
    found = compare(side("a:plain", one, "plain"), side("a:eagle3", one, "eagle3"))
    assert found.primary.change.half == pytest.approx(1.96 * 0.05, rel=0.01)


def test_several_requests_at_once_are_a_factor_of_their_own():
    two = measured("a", launches(batch=2), workload={**WORKLOAD, "concurrency": 2})
    four = measured("b", launches(batch=4), workload={**WORKLOAD, "concurrency": 2})
    found = of(two, four)
    assert found.row("requests").effect.value == pytest.approx(math.log(2))
    assert found.row("tokens_per_second").change.value == pytest.approx(math.log(2))
    assert found.row("tokens_per_cycle").answer == "same"


def changed(**workload):
    return {**WORKLOAD, **workload}


@pytest.mark.parametrize(
    ("workload", "words", "left"),
    [
        (changed(sha256="cd" * 32), "the prompts differ", set()),
        (
            changed(sampling={"temperature": 0.7}),
            "temperature 0.0 and 0.7",
            {"cycle_ms", "draft_ms", "verify_ms", "host_ms"},
        ),
        (changed(sampling={"temperature": 0.0, "max_tokens": 9}), "max_tokens 64 and 9", set()),
        (changed(concurrency=8), "concurrency 1 and 8", {"tokens_per_cycle"}),
    ],
)
def test_another_experiment_is_not_compared_beyond_what_may_be(workload, words, left):
    found = of(measured("a", launches()), measured("b", launches(verify=40.0), workload=workload))
    assert found.verdict == "not comparable"
    assert words in found.obstacles[0]
    assert {row.name for row in found.rows} == left


def test_no_prompt_in_both_is_no_comparison():
    other = measured("b", [{"eagle3": {f"q{n}": cycles(2, 20) for n in range(6)}} for _ in range(3)])
    found = of(measured("a", launches()), other)
    assert found.obstacles == ["no prompt is in both"]
    assert [row.answer for row in found.matched] == ["same"]  # the cycles themselves can be


def test_longer_contexts_are_told_from_a_slower_machine():
    def grows(context):
        return 10 + context / 20

    short, long = launches(verify=grows), launches(verify=grows, start=150)
    found = of(measured("a", short), measured("b", long))
    assert found.row("cycle_ms").answer == "differs"
    assert any("Context lengths differ" in line for line in found.cautions)
    narrow = [row for row in found.contexts if row.low == 128]
    assert len(narrow) == 1
    assert abs(narrow[0].row.change.value) < abs(found.row("cycle_ms").change.value)
    far = of(measured("a", short), measured("b", launches(verify=grows, start=5000)))
    assert (far.contexts, far.matched) == ([], [])
    assert any("nothing was matched" in line for line in far.unclaimed)


def samples(rng_times, tokens=1.8):
    return {
        "tokens_per_second": [None, *(1000 * tokens / ms for ms in rng_times)],
        "tokens_per_cycle": [None, *[tokens] * len(rng_times)],
        "context": [500 + index for index in range(len(rng_times) + 1)],
    }


def test_samples_over_time_compare_and_show_drift():
    steady = [samples([20 * by] * 120) for by in (0.99, 1.0, 1.01)]
    drifting = [samples([20 * by * (1 + 0.3 * n / 120) for n in range(120)]) for by in (0.99, 1.0, 1.01)]
    found = of(sampled("a", steady), sampled("b", drifting))
    assert found.verdict == "slower"
    assert found.row("cycle_ms").origin == "from tok/s and tokens per cycle"
    assert found.row("tokens_per_cycle").answer == "same"
    drift = [line for line in found.cautions if "drifted" in line]
    assert len(drift) == 1
    assert drift[0].startswith("b: in 3 of 3 launches")
    assert "context length moved with it" in drift[0]


def test_what_an_importer_counts_otherwise_is_not_compared():
    before, after = (sampled(name, [samples([20.0] * 120)]) for name in "ab")
    for record, what in ((before, "between log lines"), (after, "over the whole benchmark")):
        record.launches[0].effective = {"eagle3": {"definitions": {"tok_s": {"what": what}}}}
    found = of(before, after)
    assert found.verdict == "not comparable"
    assert found.obstacles == [
        'tokens per second means "between log lines" before and "over the whole benchmark" after'
    ]
    assert [row.name for row in found.rows] == ["tokens_per_cycle"]  # cycle time would follow from tokens a second


def test_settings_that_differ_are_named():
    before, after = measured("a", launches()), measured("b", launches())
    for record, steps in ((before, 2), (after, 4)):
        for launch in record.launches:
            launch.effective = {"eagle3": {"draft": {"steps": steps}}}
    assert of(before, after).settings == ["draft.steps 2 and 4"]


def test_launches_in_groups_and_unfinished_ones_are_mentioned():
    before = measured("a", launches(factors=(1.0, 1.01, 1.3)))
    after = measured("b", launches(factors=(1.0, 1.3, 1.31)))
    after.launches[0] = replace(after.launches[0], finished=False, rounds=after.launches[0].rounds[:4])
    found = of(before, after)
    assert found.verdict == "cannot tell"
    text = " ".join(found.cautions)
    assert "two groups" in text
    assert "b: 1 of 3 launches did not finish" in text
    assert "a: of its 6 prompts, the 4 that ran in all launches are used." in text


def test_warm_up_rounds_do_not_count():
    before, after = measured("a", launches()), measured("b", launches())
    for launch in after.launches:
        launch.rounds.append(replace(launch.rounds[0], warmup=True, arms={"eagle3": cycles(50, 500)}))
    assert of(before, after).row("cycle_ms").change.value == pytest.approx(0)


def test_a_run_against_its_history():
    runs = [
        measured(f"h{n}", launches(factors=(by, by)), created=f"2026-01-0{n + 1}T00:00:00+00:00")
        for n, by in enumerate((0.99, 1.0, 1.01, 1.0))
    ]
    new = measured("new", launches(factors=(1.3, 1.31)), created="2026-02-01T00:00:00+00:00")
    later = measured("later", launches(), created="2026-03-01T00:00:00+00:00")
    stranger = measured("s", launches(), workload=changed(sha256="0"), created="2026-01-01T00:00:00+00:00")
    found = compare(*against_history("new", new, "eagle3", [*runs, new, later, stranger, noted("n", eagle3={})]))
    assert (found.before.units, found.primary.change.launches) == ("runs", (4, 1))
    assert found.verdict == "slower"
    single = against_history("new", new, "eagle3", runs[:1])
    assert [one.units for one in single] == ["launches", "launches"]
    with pytest.raises(UsageError, match="holds no run from before"):
        against_history("new", new, "eagle3", [later, stranger])
    with pytest.raises(UsageError, match="which prompts"):
        against_history("n", noted("n", eagle3={"cycle_ms": 2}), "eagle3", runs)


def test_errors_say_what_to_do():
    with pytest.raises(UsageError, match="nothing to compare of the arm 'other': there are plain, eagle3"):
        side("a", measured("a", launches()), "other")
    with pytest.raises(UsageError, match="no quantity in common"):
        of(noted("a", eagle3={"cycle_ms": 20}), noted("b", eagle3={"verify_ms": 20}))
    two = noted("a", plain={}, ngram={}, eagle3={})
    with pytest.raises(UsageError, match="several arms"):
        common_arm([two, two])
    with pytest.raises(UsageError, match="no arm is in both"):
        common_arm([noted("a", plain={}), noted("b", eagle3={})])
    assert common_arm([two, noted("b", plain={}, eagle3={})]) == "eagle3"
    assert common_arm([noted("a", plain={}), two]) == "plain"


@pytest.mark.parametrize("noise", [0.0, 0.01, 0.02])
def test_false_alarms_are_rare(noise):
    found = SIMULATION["answers"](150, 3, noise, 0.0, seed=1)
    assert found["faster"] + found["slower"] <= SIMULATION["ALLOWED"]


def test_a_tenth_slower_is_found():
    found = SIMULATION["answers"](60, 3, 0.01, 0.10, seed=1)
    assert found["slower"] >= 0.95

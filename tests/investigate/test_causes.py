"""Causes that others bring about, that explain too little, or that were put back: seen first in real runs."""

import math

import pytest
from scenarios import launches, measured, sampled

from wingbeat.investigate import courses
from wingbeat.investigate.case import investigate
from wingbeat.investigate.side import side

SLOWER = (1.49, 1.5, 1.51)


def of(before, after):
    return investigate(side("before", before, "eagle3"), side("after", after, "eagle3"))


def verdict(found, key):
    one = next(one for one in found.findings if one.cause.key == key)
    return one.verdict, one.reason


def asked(record, **settings):
    record.requested = {**record.requested, **settings}
    return record


def test_a_path_that_follows_from_the_number_format_is_no_cause_of_its_own():
    native = asked(measured("a", launches()), dtype="bfloat16", path="native")
    found = of(native, asked(measured("b", launches(SLOWER)), dtype="float32", path="eager"))
    assert found.accused[0].cause.key == "precision"
    assert verdict(found, "captured")[0] == "ruled out"
    assert "follows from the number format" in verdict(found, "captured")[1]
    eager = asked(measured("b", launches(SLOWER)), dtype="bfloat16", path="eager", eager=True)
    assert verdict(of(native, eager), "captured")[0] == "consistent"


def test_output_lengths_that_follow_from_other_text_are_no_cause_of_their_own():
    short = [{arm: {name: _cut(facts) for name, facts in by.items()} for arm, by in one.items()} for one in launches()]
    before, after = measured("a", launches()), measured("b", short)
    assert "speed" in verdict(of(asked(before), asked(after)), "output_length")[1]
    found = of(asked(before, template="x"), asked(measured("b", _slow(short)), template="y"))
    assert verdict(found, "output_length")[1].startswith("changed, but the lengths follow from other text")
    assert verdict(found, "prompts")[0] == "consistent"


def _cut(facts):
    facts.requests[0].new_tokens //= 2
    return facts


def _slow(launched):
    for one in launched:
        for facts in (facts for by in one.values() for facts in by.values()):
            facts.seconds *= 2
    return launched


def course(*shape, factors=(0.99, 1.0, 1.01)):
    """A run whose cycles take these times, in tenths of the run."""
    times = [ms for ms in shape for _ in range(160 // len(shape))]
    return sampled("x", [
        {"cycle_ms": [by * ms for ms in times], "tokens_per_second": [2000 / by / (sum(shape) / len(shape))] * 160}
        for by in factors
    ])  # fmt: skip


WARMING, STEADY, SLOW = (60.0, *[20.0] * 9), [20.0] * 10, [40.0] * 10


def test_a_course_says_how_much_it_explains():
    one = side("x", course(*WARMING), "eagle3")
    assert courses.warmed(one) == pytest.approx(math.log(24 / 20), rel=0.05)
    assert courses.drifted(one) == 0
    rising = side("x", course(*[20.0] * 5, *[30.0] * 5), "eagle3")
    assert courses.drifted(rising) == pytest.approx(math.log(1.5), rel=0.05)
    assert courses.warmed(rising) == 0


@pytest.mark.parametrize(("key", "shape"), [("warmup", WARMING), ("leak", [*[20.0] * 5, *[30.0] * 5])])
def test_it_must_be_the_slower_side_and_explain_enough(key, shape):
    assert verdict(of(course(*STEADY), course(*shape)), key)[0] == "consistent"
    assert verdict(of(course(*shape), course(*SLOW)), key)[0] == "ruled out"
    assert "it explains" in verdict(of(course(*STEADY), course(*[3 * ms for ms in shape])), key)[1]


@pytest.mark.parametrize(("seconds", "state"), [(10.0, "changed"), (100.0, "same")])
def test_counters_count_by_the_second(seconds, state):
    runs = [measured("a", launches()), measured("b", launches(SLOWER))]
    for run, lasted, grew in zip(runs, (10.0, seconds), (50, 500), strict=True):
        for launch in run.launches:
            launch.fingerprint, launch.fingerprint_after = (
                {name: {"state": "value", "value": value} for name, value in fields.items()}
                for fields in ({"uptime": 7.0, "process.switches": 3},
                               {"uptime": 7.0 + lasted, "process.switches": 3 + grew})
            )  # fmt: skip
    fact = of(*runs).facts["process.switches"]
    assert (fact.state, fact.before, fact.after) == (state, "+5/s", f"+{500 / seconds:g}/s")
    assert (fact.rise > 0) == (state == "changed")


@pytest.mark.parametrize(
    ("factors", "ended", "words"),
    [
        ((0.99, 1.0, 1.01), "confirmed", "moved the speed back by 100% of the change"),
        ((1.49, 1.5, 1.51), "ruled out", "did not certainly change the speed"),
        ((0.8, 1.2, 1.9), "consistent", "more launches would tell"),
    ],
)
def test_what_was_tried_confirms_refutes_or_cannot_tell(factors, ended, words):
    before = asked(measured("a", launches()), dtype="bfloat16")
    after = asked(measured("b", launches(SLOWER)), dtype="float32")
    sides = [side(name, run, "eagle3") for name, run in (("a", before), ("b", after))]
    tried = {"precision": side("c", asked(measured("c", launches(factors)), dtype="bfloat16"), "eagle3")}
    found = investigate(*sides, tried=tried)
    assert verdict(found, "precision")[0] == ended
    assert words in verdict(found, "precision")[1]

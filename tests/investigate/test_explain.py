"""What a single run's arithmetic advises, and what it says is not known; and what positions say of a head."""

import pytest
from scenarios import cycles, measured, noted

from wingbeat.investigate.case import investigate
from wingbeat.investigate.explain import explain
from wingbeat.investigate.side import side


def of(**eagle3):
    return explain("run", noted("run", plain={"tokens_per_second": 50}, eagle3=eagle3), "eagle3", 0.03)


def advice(**eagle3):
    return " | ".join(of(**eagle3).advice)


BASE = {"tokens_per_second": 60, "tokens_per_cycle": 1.8, "cycle_ms": 30, "draft_ms": 4, "verify_ms": 24}


def test_time_on_the_host_is_named_with_its_share():
    assert "33% of the cycle passes between phases, on the host" in advice(**{**BASE, "verify_ms": 16})
    assert "on the host" not in advice(**BASE)


def test_a_poor_first_position_is_a_head_that_does_not_fit():
    assert "accepted 30% of the time: the head does not fit" in advice(**BASE, acceptance_1=0.3, acceptance_2=0.1)
    assert "does not fit" not in advice(**BASE, acceptance_1=0.7, acceptance_2=0.3)


def test_fewer_steps_where_late_positions_do_not_pay():
    dear = {"tokens_per_second": 50, "tokens_per_cycle": 1.55, "cycle_ms": 31, "draft_ms": 12, "verify_ms": 18}
    found = of(**dear, acceptance_1=0.5, acceptance_2=0.04, acceptance_3=0.01)
    steps, speed = found.best_steps
    assert (steps, speed) == (1, pytest.approx(1000 * 1.5 / 23))
    assert "1 steps instead of 3 would give about 65.2 tok/s (estimated)" in found.advice


def test_more_steps_where_the_last_position_is_as_good_as_the_first():
    more = "the last position is accepted nearly as often as the first: more steps may pay"
    assert more in of(**BASE, acceptance_1=0.8, acceptance_2=0.75).advice
    assert more not in of(**BASE, acceptance_1=0.8, acceptance_2=0.5).advice
    assert more not in of(**BASE, acceptance_1=0.3, acceptance_2=0.29).advice


def test_a_share_of_the_host_that_is_not_known_is_said_to_be_so():
    unknown = "the host's share of a cycle is not known: it needs the time of a whole cycle beside its phases"
    assert unknown in of(tokens_per_second=60, verify_ms=24).missing
    assert unknown not in of(**BASE).missing
    assert [one for one in of(tokens_per_second=60).missing if "phases" in one] == [
        "the phases of a cycle were not recorded: what verify costs is not known"
    ]


def head(name, config, accepted):
    arms = {"eagle3": {f"p{place}": cycles(2.0, 20.0, accepted) for place in range(6)}}
    record = measured(name, [arms, arms, arms])
    for launch in record.launches:
        launch.fingerprint = {"head.config": {"state": "value", "value": config}}
    return record


@pytest.mark.parametrize(
    ("accepted", "words"),
    [
        ((0, 0, 0, 0, 0, 0, 0, 0, 0, 2), "The first position fell from 75% to 10%: taps, norms"),
        ((1, 1, 0, 1), "The first position stayed and later ones fell: rope, the fed-back feature"),
    ],
)
def test_positions_say_how_a_head_does_not_fit(accepted, words):
    sides = (head("a", "x", (2, 2, 0, 2)), head("b", "y", accepted))
    found = investigate(*(side(one.name, one, "eagle3") for one in sides))
    accused = next(one for one in found.findings if one.cause.key == "head")
    assert accused.verdict == "consistent"
    assert len(accused.notes) == 1
    assert accused.notes[0].startswith(words)

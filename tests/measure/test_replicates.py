import math
import random

import pytest
from scipy import stats as reference

from wingbeat.measure.replicates import ASSUMED_NOISE, answer, change, launches_needed, two_groups

A, B = [0.01, -0.02, 0.015, 0.0], [0.06, 0.03, 0.07]


def test_the_interval_between_launches_is_welch_s():
    found = change(A, B)
    expected = reference.ttest_ind(B, A, equal_var=False).confidence_interval(0.95)
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high))
    expected = reference.ttest_ind(B, A, equal_var=False).confidence_interval(0.90)
    assert found.value - found.half_90 == pytest.approx(expected.low)
    assert (found.basis, found.launches) == ("launches", (4, 3))


def test_paired_launches_lose_what_they_share():
    shared = [0.3, -0.2, 0.5]
    before, after = shared, [value + move for value, move in zip(shared, (0.04, 0.05, 0.06), strict=True)]
    found = change(before, after, paired=True)
    expected = reference.ttest_rel(after, before).confidence_interval(0.95)
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high))
    assert answer(found) == "differs"
    assert answer(change(before, after)) == "cannot tell"


def test_one_new_launch_against_several_uses_their_noise():
    found = change(A, [0.1])
    half = reference.t.ppf(0.975, 3) * reference.tstd(A) * math.sqrt(1 + 1 / 4)
    assert (found.half, found.basis) == (pytest.approx(half), "one side")
    assert change([0.1], A).half == pytest.approx(half)


@pytest.mark.parametrize(("factor", "expected"), [(1.0, "cannot tell"), (1.3, "cannot tell"), (1.35, "differs")])
def test_one_launch_a_side_shows_only_what_no_noise_explains(factor, expected):
    found = change([0.0], [math.log(factor)])
    assert (answer(found), found.basis) == (expected, "assumed")
    assert found.half == pytest.approx(1.96 * math.sqrt(2) * ASSUMED_NOISE, rel=1e-3)
    assert launches_needed(found) is None
    unsure = change([0.0], [math.log(factor)], within=0.2)
    assert answer(unsure) == "cannot tell"


def test_the_three_answers():
    assert answer(change([0.0, 0.001, -0.001], [0.002, 0.001, 0.003])) == "same"
    assert answer(change([0.0, 0.001, -0.001], [0.05, 0.051, 0.049])) == "differs"
    assert answer(change([0.0, 0.05, -0.05], [0.02, 0.01, 0.06])) == "cannot tell"
    # equivalence is two one-sided tests: the 90 % interval, not the mean, must lie within the margin
    wide = change([0.0, 0.02, -0.02], [0.001, 0.02, -0.02])
    assert answer(wide) == "cannot tell"
    assert answer(wide, same_within=0.1) == "same"


@pytest.mark.parametrize(("effect", "noise"), [(0.10, 0.02), (0.05, 0.02), (0.0, 0.02)])
def test_the_launches_said_to_be_needed_do_tell(effect, noise):
    rng = random.Random(1)
    pilot = change([-noise, 0.0, noise], [effect - noise, effect, effect + noise])
    count = launches_needed(pilot)
    assert 2 <= count <= 30
    told = 0
    for _ in range(200):
        before, after = ([rng.gauss(mean, noise) for _ in range(count)] for mean in (0.0, effect))
        told += answer(change(before, after)) != "cannot tell"
    assert told / 200 >= 0.7


def test_no_number_of_launches_tells_a_change_at_the_margin():
    edge = math.log(1.03)
    assert launches_needed(change([-0.1, 0.0, 0.1], [edge - 0.3, edge, edge + 0.3])) is None


def test_groups_of_launches_that_are_not_the_sides():
    slow, fast = math.log(26), math.log(33)
    assert two_groups([slow, slow + 0.01, fast], [fast + 0.005, slow + 0.004]) == pytest.approx(fast - slow - 0.01)
    assert two_groups([slow, slow + 0.01, slow], [fast + 0.005, fast]) is None  # a difference between the sides
    assert two_groups([slow, slow, fast], [slow]) is None  # a single outlier is no group
    assert two_groups([slow, fast], [fast]) is None
    rng = random.Random(2)
    draws = [[[rng.gauss(0, 0.02) for _ in range(5)] for _ in range(2)] for _ in range(300)]
    assert sum(two_groups(*pair) is not None for pair in draws) < 6

import os

import pytest

from wingbeat.errors import CapacityError, InterruptedRunError, UsageError
from wingbeat.measure import calibrate
from wingbeat.measure import record as records
from wingbeat.measure.record import Difference
from wingbeat.measure.runner import Plan, first_difference, measure
from wingbeat.measure.subjects import FakeArm, FakeSubject
from wingbeat.measure.workload import bundled

ARMS = {"A": FakeArm(20.0), "B": FakeArm(10.0), "C": FakeArm(5.0)}


def plan(prompts=4, arms=tuple(ARMS), **changes):
    return Plan(bundled().take(prompts), arms, **changes)


def orders(plan):
    return ["".join(turn.order) for turn in plan.turns() if not turn.warmup]


def test_arms_run_forwards_and_backwards_in_turn():
    assert orders(plan()) == ["ABC", "CBA", "ABC", "CBA"]
    assert orders(plan(prompts=2, rounds=2)) == ["ABC", "CBA", "ABC", "CBA"]
    assert orders(plan(prompts=1, rounds=3, arms=("A", "B"))) == ["AB", "BA", "AB"]


def test_every_second_launch_begins_backwards():
    assert orders(plan(prompts=3, launch=1)) == ["CBA", "ABC", "CBA"]
    assert orders(plan(prompts=3, launch=2)) == orders(plan(prompts=3))


def test_a_linear_drift_hits_all_arms_alike():
    places = dict.fromkeys(ARMS, 0)
    for index, arm in enumerate("".join(orders(plan(prompts=4)))):
        places[arm] += index
    assert len(set(places.values())) == 1


def test_every_prompt_meets_every_arm_as_often_as_asked():
    chosen = plan(prompts=3, rounds=2, warmup=2)
    turns = list(chosen.turns())
    assert len(turns) == len(chosen) == 2 + 3 * 2
    assert [turn.warmup for turn in turns] == [True] * 2 + [False] * 6
    assert {turn.prompt.id for turn in turns if turn.warmup} == {turns[2].prompt.id}
    assert [turn.repeat for turn in turns] == [0, 1] + [0, 1] * 3


@pytest.mark.parametrize("changes", [{"arms": ()}, {"arms": ("A", "A")}, {"rounds": 0}, {"warmup": -1}])
def test_a_plan_that_makes_no_sense_is_refused(changes):
    with pytest.raises(UsageError):
        plan(**changes)


def test_a_run_is_saved_after_every_round_and_marks_its_warm_up(tmp_path):
    chosen = plan(prompts=2)
    path = tmp_path / "run.json"
    run = chosen.record("bench", {"max_tokens": 32})
    seen = []

    def look(turn):
        kept = records.load(path)
        seen.append((len(kept.launches[0].rounds), kept.launches[0].finished, turn.warmup))

    measure(run, FakeSubject(ARMS), chosen, path, look)
    assert seen == [(1, False, True), (2, False, False), (3, False, False)]
    assert records.load(path).launches[0].finished
    launch = run.launches[0]
    assert launch.rounds[1].order == ["A", "B", "C"]
    assert set(launch.rounds[1].arms) == set(ARMS)
    assert launch.effective["B"]["verify_ms"] == 10.0
    assert launch.fingerprint["boot_id"] == launch.fingerprint_after["boot_id"] == {"state": "value", "value": "script"}
    assert launch.calibration["before"].keys() == launch.calibration["after"].keys() == calibrate.UNITS.keys()
    assert (launch.pid, launch.started[:2]) == (os.getpid(), "20")
    times = [time for entry in launch.rounds for arm in entry.order for time in entry.arms[arm].cycles.time]
    assert times == sorted(times)
    assert run.requested == {"max_tokens": 32, "rounds": 1, "warmup": 1}
    assert run.workload["sha256"] == chosen.workload.digest
    assert (run.workload["sampling"], run.workload["concurrency"]) == ({"max_tokens": 32}, 1)
    assert [entry.prompt for entry in run.measured()] == [prompt.id for prompt in chosen.workload.prompts]


def test_differences_from_the_plain_arm_are_found_and_their_gap_is_asked_for(tmp_path):
    asked = []

    class Asked(FakeSubject):
        def gap(self, prompt, output, rivals):
            asked.append((prompt, list(output), list(rivals)))
            return 0.3

    arms = {"ngram": FakeArm(10.0, differs_at=3), "plain": FakeArm(20.0), "eagle3": FakeArm(10.0)}
    chosen = plan(prompts=1, arms=tuple(arms), warmup=0)
    run = chosen.record("bench", {})
    measure(run, Asked(arms), chosen, tmp_path / "run.json")
    done = run.measured()[0]
    assert done.differences == {"ngram": [Difference(3, 0.3)], "eagle3": []}
    plain, other = done.arms["plain"].requests[0].tokens, done.arms["ngram"].requests[0].tokens
    assert asked == [(chosen.workload.prompts[0].text, plain[:3], [other[3], plain[3]])]


def test_first_difference():
    assert first_difference([1, 2, 3], [1, 2, 4]) == 2
    assert first_difference([1, 2], [1, 2, 4]) == 2


def test_launches_add_up_in_one_file(tmp_path):
    path, run = tmp_path / "run.jsonl", plan().record("bench", {"launches": 2})
    records.save(run, path)
    for number in range(2):
        run = records.load(path)
        assert not run.finished
        measure(run, FakeSubject(ARMS), plan(prompts=2, launch=number), path)
    assert records.load(path) == run
    assert run.finished
    assert [launch.rounds[1].order for launch in run.launches] == [["A", "B", "C"], ["C", "B", "A"]]


class StoppedSubject(FakeSubject):
    """Ctrl-C in the middle of the run with the given number."""

    def __init__(self, stop_at):
        super().__init__(ARMS)
        self.left = stop_at

    def run(self, arm, prompts):
        self.left -= 1
        if self.left < 0:
            raise KeyboardInterrupt
        return super().run(arm, prompts)


def test_ctrl_c_keeps_the_finished_rounds_and_says_where(tmp_path):
    chosen = plan(prompts=4)
    path = tmp_path / "run.json"
    with pytest.raises(InterruptedRunError, match=rf"after 2 of 5 rounds; the record is .*{path.name}"):
        measure(chosen.record("bench", {}), StoppedSubject(stop_at=7), chosen, path)
    kept = records.load(path)
    assert [list(entry.arms) for entry in kept.launches[0].rounds] == [["A", "B", "C"], ["A", "B", "C"]]
    assert not kept.launches[0].finished


def test_ctrl_c_before_the_first_round_saves_nothing(tmp_path):
    chosen = plan()
    with pytest.raises(InterruptedRunError, match="nothing to save"):
        measure(chosen.record("bench", {}), StoppedSubject(stop_at=1), chosen, tmp_path / "run.json")
    assert not list(tmp_path.iterdir())


def test_a_prompt_that_is_refused_names_the_rounds_that_are_saved(tmp_path):
    class Refusing(FakeSubject):
        """Refuses its third prompt."""

        rounds = 0

        def run(self, arm, prompts):
            self.rounds += 1
            if self.rounds > 2 * len(ARMS):
                raise CapacityError("this prompt is too long")
            return super().run(arm, prompts)

    path, chosen = tmp_path / "run.json", plan()
    with pytest.raises(CapacityError, match="too long") as refused:
        measure(chosen.record("bench", {}), Refusing(ARMS), chosen, path)
    assert refused.value.__notes__ == [f"the 2 rounds before it are in {path}"]
    assert len(records.load(path).launches[0].rounds) == 2

"""The policy in simulated engines: never much slower than plain, close to the best fixed number of steps."""

import random

import pytest

from wingbeat.engine.observe import CycleFacts
from wingbeat.engine.policy import AutoPolicy, FixedPolicy

MOST = 6


class Machine:
    """A target and a drafter whose costs and acceptance are given.

    costs: ms of a plain cycle, of drafting at all, and of each drafted token (drafting and verifying it). chances: of
    accepting a drafted token, one for each kind of cycle (easy, hard); with `knows` the drafter knows the kind.
    """

    def __init__(self, costs=(10.0, 1.0, 1.0), chances=(0.8, 0.4), batch=1, knows=True, noise=0.03) -> None:
        self.costs, self.chances, self.batch, self.knows, self.noise = costs, chances, batch, knows, noise
        self.seconds = 0.0
        self.random = random.Random(1)

    def run(self, policy, tokens: int) -> float:
        """ms a token and request."""
        begin, context, done = self.seconds, 100, 0.0
        while done < tokens:
            done += self._cycle(policy, context + int(done), joined=not done)
        return 1e3 * (self.seconds - begin) / done

    def _cycle(self, policy, context, joined) -> float:
        budget = policy.plan(self.batch, context, joined)
        chance = self.random.choice(self.chances)
        steps = budget.steps
        if self.knows:
            path = [chance**depth for depth in range(1, steps + 1)]
            steps = sum(value >= 2.718281828**budget.floor for value in path)
        accepted = [self._accepted(chance, steps) for _ in range(self.batch)]
        plain, drafting, each = self.costs
        ms = plain + (drafting + each * steps if budget.steps else 0.0)
        self.seconds += ms / 1e3 * self.random.lognormvariate(0, self.noise)
        expected = tuple(sum(path[:steps]) for _ in accepted) if self.knows and budget.steps else ()
        policy.learn(self._facts(steps, accepted, context, expected, budget.reason))
        return 1 + sum(accepted) / self.batch

    def _accepted(self, chance, steps) -> int:
        return next((depth for depth in range(steps) if self.random.random() > chance), steps)

    def _facts(self, steps, accepted, context, expected, reason) -> CycleFacts:
        return CycleFacts(
            batch=self.batch, contexts=(context,) * self.batch, drafted=(steps,) * self.batch, accepted=tuple(accepted),
            committed=tuple(count + 1 for count in accepted), width=steps + 1, path="native", expected=expected,
            reason=reason,
        )


def auto(machine, knows=None) -> AutoPolicy:
    return AutoPolicy(MOST, machine.knows if knows is None else knows, clock=lambda: machine.seconds)


def best_fixed(**settings) -> float:
    return min(Machine(**settings).run(FixedPolicy(steps), 4000) for steps in range(MOST + 1))


@pytest.mark.parametrize("knows", [True, False], ids=["knows", "guesses"])
@pytest.mark.parametrize("costs", [(10, 0.5, 0.5), (10, 1, 1), (10, 2, 3), (10, 1, 8)], ids=str)
@pytest.mark.parametrize("chances", [(0.0,), (0.3,), (0.6,), (0.9,), (0.9, 0.2)], ids=str)
@pytest.mark.parametrize("batch", [1, 16])
def test_never_much_slower_and_close_to_the_best(knows, costs, chances, batch):
    settings = {"costs": costs, "chances": chances, "batch": batch, "knows": knows}
    machine = Machine(**settings)
    policy = auto(machine)
    machine.run(policy, 512)  # what it learns at first; a large batch tries late, as that is dear
    measured = machine.run(policy, 4000)
    assert measured < costs[0] / 0.97
    assert measured < 1.12 * best_fixed(**settings)


def test_what_a_useless_head_costs_at_first():
    machine = Machine(chances=(0.0,))
    assert machine.run(auto(machine), 128) < 10 / 0.93


def test_drafting_comes_back_when_it_pays_again():
    machine = Machine(chances=(0.0,))
    policy = auto(machine)
    machine.run(policy, 1000)
    assert not policy._cell.is_on
    machine.chances = (0.8,)
    machine.run(policy, 3000)
    assert machine.run(policy, 500) < 6


def test_a_drafter_that_is_too_sure_is_trusted_less():
    floors = []
    for expected in (0.5, 1.5):
        machine = Machine(chances=(0.5,))
        policy = auto(machine)
        for _ in range(60):
            budget = policy.plan(1, 100, False)
            drafted = 2 if budget.steps else 0
            machine.seconds += 0.010 + 0.001 * drafted
            policy.learn(machine._facts(drafted, [drafted // 2], 100, (expected,) if drafted else (), ""))
        floors.append(policy.plan(1, 100, False).floor)
    assert floors[0] < floors[1]


def test_every_choice_has_a_reason():
    machine = Machine()
    policy = auto(machine)
    machine.run(policy, 200)
    budget = policy.plan(1, 300, False)
    assert (budget.steps > 0, budget.reason) in ((True, "drafting pays"), (False, "measuring a plain cycle"))
    assert FixedPolicy(3).plan(1, 1, False).reason == "fixed"

"""Runs with a known answer, made through the record API."""

from wingbeat.measure.columns import CycleColumns, Rows, floats, integers
from wingbeat.measure.record import ArmFacts, Figure, Launch, RequestFacts, Round, RunRecord

WORKLOAD = {
    "name": "scenario",
    "sha256": "ab" * 32,
    "concurrency": 1,
    "sampling": {"temperature": 0.0, "max_tokens": 64},
}


def noted(name, **arms):
    """A run of single figures: arm={"tokens_per_second": 94, "verify_ms": (19, 17.5, 19.1)}."""
    figures = {
        arm: {key: Figure(*value) if isinstance(value, tuple) else Figure(value) for key, value in known.items()}
        for arm, known in arms.items()
    }
    launch = Launch(figures=figures, finished=True)
    return RunRecord("bench", "2026-01-01T00:00:00+00:00", {}, {}, list(arms), [launch], name=name, source="noted")


def story():
    """The good and the bad day of a machine, as far as anybody wrote them down."""
    good = noted(
        "good", plain={"tokens_per_second": 89}, eagle3={"tokens_per_second": 94, "verify_ms": (19, 17.47, 19.1)}
    )
    bad = noted("bad", plain={"tokens_per_second": 82.5}, eagle3={"tokens_per_second": 60, "verify_ms": 29})
    return good, bad


def sampled(name, launches):
    """A run of columns over time, one dict a launch."""
    found = [Launch(samples={"eagle3": columns}, finished=True) for columns in launches]
    return RunRecord("log", "2026-01-01T00:00:00+00:00", {}, {}, ["eagle3"], found, name=name, source="sglang-log")


def measured(name, launches, workload=WORKLOAD, created="2026-01-01T00:00:00+00:00"):
    """A run of cycles; launches: for each, {arm: {prompt: facts}}."""
    record = RunRecord("bench", created, {}, workload, list(launches[0]), name=name)
    for arms in launches:
        prompts = next(iter(arms.values()))
        rounds = [
            Round(prompt, "", 0, False, list(arms), {arm: facts[prompt] for arm, facts in arms.items()}, {})
            for prompt in prompts
        ]
        record.launches.append(Launch(rounds=rounds, finished=True))
    return record


def cycles(draft, verify, accepted=(2, 1, 0, 1), count=60, start=100, batch=1):
    """The facts of a prompt: `count` cycles, host 1 ms; verify may be a function of the context length."""
    taken = [accepted[place % len(accepted)] for place in range(count)]
    contexts = [start + sum(taken[:place]) + place for place in range(count)]
    checked = [verify(context) if callable(verify) else verify for context in contexts]
    whole = [draft + value + 1.0 for value in checked]
    columns = CycleColumns(
        ms={
            **({"draft": floats([draft] * count)} if draft else {}),
            "verify": floats(checked),
            "host": floats([1.0] * count),
            "cycle": floats(whole),
        },
        contexts=Rows([context] * batch for context in contexts),
        drafted=Rows([[max(accepted)] * batch] * count),
        accepted=Rows([value] * batch for value in taken),
        committed=Rows([value + 1] * batch for value in taken),
        width=integers([max(accepted) + 1] * count),
        path=["script"] * count,
    )
    tokens = list(range(sum(taken) + count))
    return ArmFacts(sum(whole) / 1000 + 0.01, 10.0, [RequestFacts.of(start, tokens, "length")] * batch, columns)


def launches(factors=(0.99, 1.0, 1.01), prompts=6, draft=2.0, verify=20.0, **named):
    """One launch a factor, by which all its times but the host's are longer."""
    names = [f"p{place}" for place in range(prompts)]
    return [
        {
            "plain": {name: cycles(0.0, 15 * by, accepted=(0,)) for name in names},
            "eagle3": {name: cycles(draft * by, _by(verify, by), **named) for name in names},
        }
        for by in factors
    ]


def _by(verify, factor):
    return (lambda context: factor * verify(context)) if callable(verify) else factor * verify

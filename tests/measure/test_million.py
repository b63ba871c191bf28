"""A record of a million cycles is written and read whole. How long that takes is printed (pytest -s), not judged."""

import random
import time

from wingbeat.measure import record as records
from wingbeat.measure.columns import ROWS, CycleColumns, Rows, floats, integers, seconds
from wingbeat.measure.record import ArmFacts, Launch, RequestFacts, Round, RunRecord

CYCLES, ROUNDS, LAUNCHES = 100, 1250, 4  # of each arm: cycles a round, rounds a launch
PHASES = ("draft", "verify", "accept", "commit", "host", "cycle")


def arm(generator):
    columns = CycleColumns(
        ms={name: floats(generator.gauss(10, 1) for _ in range(CYCLES)) for name in PHASES},
        time=seconds(index / 100 for index in range(CYCLES)),
        width=integers([5] * CYCLES),
        path=["native"] * CYCLES,
        **{name: Rows([generator.randrange(5)] for _ in range(CYCLES)) for name in ROWS},
    )
    tokens = [generator.randrange(49152) for _ in range(2 * CYCLES)]
    return ArmFacts(1.0, 50.0, [RequestFacts.of(40, tokens, "length", 60.0)], columns)


def test_a_million_cycles(tmp_path):
    generator = random.Random(0)
    facts = {name: [arm(generator) for _ in range(10)] for name in ("plain", "eagle3")}
    rounds = [
        Round("a", "b", index, False, list(facts), {name: made[index % 10] for name, made in facts.items()}, {})
        for index in range(ROUNDS)
    ]
    run = RunRecord("bench", "", {}, {}, list(facts), [Launch(rounds=rounds, finished=True) for _ in range(LAUNCHES)])
    path = tmp_path / "run.jsonl"
    start = time.perf_counter()
    records.save(run, path)
    saved = time.perf_counter()
    read = records.load(path)
    loaded = time.perf_counter()
    size = path.stat().st_size / 1e6
    print(f"\n1,000,000 cycles: {size:.0f} MB, saved in {saved - start:.2f} s, loaded in {loaded - saved:.2f} s")
    assert sum(len(one.cycles) for entry in read.measured() for one in entry.arms.values()) == 1_000_000
    assert read.launches[-1].rounds[-1] == rounds[-1]

"""How often `compare` calls a difference where there is none, and how often it finds one that is there.

Runs are simulated cycle by cycle and compared as records of real ones are. A launch has a speed of its own (normal,
its standard deviation is given in the table); the times of its cycles follow one another (AR(1), correlation 0.5,
standard deviation 8 %). What is accepted is the same in all launches, as with greedy decoding. An effect of 10 % makes
cycles 10 % longer.

    python benchmarks/false_alarms.py [--without 1000] [--with-effect 250] [--seed 0]
"""

import argparse
import time

import numpy as np
from scipy.signal import lfilter

from wingbeat.investigate.compare import compare
from wingbeat.investigate.side import side
from wingbeat.measure.columns import CycleColumns, Rows, floats, integers
from wingbeat.measure.record import ArmFacts, Launch, Round, RunRecord

PROMPTS, CYCLES = 6, 50  # in a launch; cycles of one prompt
CYCLE_MS, SPREAD, CORRELATION = 20.0, 0.08, 0.5
ACCEPTED = (0.4, 0.3, 0.3)  # probability of 0, 1 and 2 accepted tokens
LAUNCH_NOISE = (0.0, 0.01, 0.02)
LAUNCHES = (3, 5)
EFFECTS = (0.02, 0.05, 0.10, 0.50)
ALLOWED = 0.05 + 0.015  # 1.5 % for the error of 1,000 drawings


def simulated(rng: np.random.Generator, launches: int, noise: float, slower: float = 0.0) -> RunRecord:
    """A run whose cycles take 20 ms, times 1 + `slower`, times each launch's own factor."""
    record = RunRecord("bench", "", {"temperature": 0.0, "max_tokens": 100}, {"sha256": "simulated"}, ["eagle3"])
    innovations = rng.normal(size=(launches, PROMPTS * CYCLES)) * SPREAD * (1 - CORRELATION**2) ** 0.5
    own = rng.normal(size=(launches, 1)) * noise
    times = CYCLE_MS * (1 + slower) * np.exp(own + lfilter([1], [1, -CORRELATION], innovations, axis=1))
    accepted = np.random.default_rng(0).choice(len(ACCEPTED), p=ACCEPTED, size=PROMPTS * CYCLES)
    record.launches = [Launch(rounds=_rounds(ms, accepted), finished=True) for ms in times]
    return record


def _rounds(times: np.ndarray, accepted: np.ndarray) -> list[Round]:
    return [
        Round(f"prompt-{place}", "", 0, False, ["eagle3"], {"eagle3": _facts(ms, hits)}, {})
        for place, (ms, hits) in enumerate(zip(np.split(times, PROMPTS), np.split(accepted, PROMPTS), strict=True))
    ]


def _facts(ms: np.ndarray, accepted: np.ndarray) -> ArmFacts:
    ends = integers(range(1, CYCLES + 1))
    contexts = 100 + np.cumsum(accepted + 1)
    columns = CycleColumns(
        ms={"draft": floats(0.2 * ms), "verify": floats(0.7 * ms), "host": floats(0.1 * ms), "cycle": floats(ms)},
        contexts=Rows.of(integers(contexts), ends),
        drafted=Rows.of(integers([2] * CYCLES), ends),
        accepted=Rows.of(integers(accepted), ends),
        committed=Rows.of(integers(accepted + 1), ends),
        width=integers([3] * CYCLES),
        path=["script"] * CYCLES,
    )
    return ArmFacts(float(ms.sum()) / 1000, 0.0, [], columns)


def answers(count: int, launches: int, noise: float, slower: float, seed: int) -> dict[str, float]:
    """The share of each verdict in `count` comparisons of `launches` against as many."""
    rng = np.random.default_rng(seed)
    found = {"faster": 0, "slower": 0, "same": 0, "cannot tell": 0}
    for _ in range(count):
        sides = [side(name, simulated(rng, launches, noise, by), "eagle3") for name, by in (("a", 0.0), ("b", slower))]
        found[compare(*sides).verdict] += 1
    return {verdict: times / count for verdict, times in found.items()}


def main() -> None:
    """Prints the table; exits with 1 where there are too many false alarms."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--without", type=int, default=1000, help="comparisons without an effect, in each row")
    parser.add_argument("--with-effect", type=int, default=250, help="comparisons with an effect, in each row")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    start, worst = time.perf_counter(), 0.0
    print("launches  launch SD  effect   differs   (right way)     same   cannot tell")
    for launches in LAUNCHES:
        for noise in LAUNCH_NOISE:
            for effect in (0.0, *EFFECTS):
                count = given.with_effect if effect else given.without
                found = answers(count, launches, noise, effect, given.seed)
                differs = found["faster"] + found["slower"]
                worst = worst if effect else max(worst, differs)
                print(
                    f"  {launches} + {launches}      {noise:>4.0%}     {effect:>4.0%}    {differs:>6.1%}       "
                    f"{found['slower'] if effect else 0:>6.1%}   {found['same']:>6.1%}   "
                    f"     {found['cannot tell']:>6.1%}",
                    flush=True,
                )
    print(f"\nMost false alarms in a row: {worst:.1%} (allowed {ALLOWED:.1%}); {time.perf_counter() - start:.0f} s.")
    raise SystemExit(worst > ALLOWED)


if __name__ == "__main__":
    main()

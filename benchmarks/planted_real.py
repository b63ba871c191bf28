"""How often an investigation names a cause that was planted in real runs of this engine, on this machine.

Every scenario of `planted_real_cases` is recorded on both sides, by turns (A B B A), each launch a fresh process as in
`wingbeat bench`, and investigated from the records alone. What is finished stays in the store, and is not run
again. Each scenario takes a minute or two; nothing else should run meanwhile.

    python benchmarks/planted_real.py --store FOLDER [--only NAME] [--launches 4] [--reports]
"""

from __future__ import annotations

import argparse
import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from planted_real_cases import SCENARIOS, LeftOutError, Scenario, Way

from wingbeat.cli.bench import LAUNCH
from wingbeat.errors import WingbeatError
from wingbeat.investigate import courses
from wingbeat.investigate.case import Investigation, investigate
from wingbeat.investigate.side import common_arm, side
from wingbeat.measure import launches, record, runner, workload
from wingbeat.measure.launches import Job
from wingbeat.report import investigate as report
from wingbeat.report.table import columns

LEAST_RIGHT, MOST_WRONG = 0.90, 0.02
ASKED: dict[str, Any] = {
    "model": None, "head": None, "dtype": "bfloat16", "device": "cpu", "context": 4096, "eager": False, "weights": None,
    "draft": {"drafter": "eagle3", "steps": 3}, "arms": "plain,eagle3:3", "temperature": 0.0, "seed": 0,
    "max_tokens": 32, "prompts": None, "limit": 4,
}  # fmt: skip
OWN = ("PYTHONPATH", "HF_HUB_OFFLINE")  # variables that scenarios set
BUSY = "while True: pass"


def job(name: str, way: Way, store: Path, count: int) -> Job:
    """A side of a scenario, ready to be launched; its record is made if it is not there."""
    path = store / f"{name}.jsonl"
    asked = {**ASKED, "launches": count, **way.asked}
    if not path.exists():
        asked_for = asked["prompts"]
        questions = (workload.read(Path(asked_for)) if asked_for else workload.bundled()).take(asked["limit"])
        plan = runner.Plan(questions, tuple(asked["arms"].split(",")), warmup=way.warmup)
        record.save(replace(plan.record("bench", asked), name=name), path)
    variables = {key: value for key, value in os.environ.items() if key not in OWN}
    start = (way.python or sys.executable, "-c", way.code or LAUNCH[2], *LAUNCH[3:])
    return Job(path, start, {**variables, **way.environment}, way.cores)


@contextlib.contextmanager
def busy(count: int) -> Iterator[None]:
    """So many processes that do nothing but use a core."""
    processes = [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range(count)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def measure(scenario: Scenario, store: Path, count: int) -> None:
    """Both sides of a scenario, by turns, as far as they are not there. Raises LeftOutError."""
    things = store / "things" / scenario.name
    things.mkdir(parents=True, exist_ok=True)
    ways = dict(zip(("before", "after"), scenario.make(things), strict=True))
    jobs = [job(f"{scenario.name}-{name}", way, store, count) for name, way in ways.items()]
    beside = {one.path: way.beside for one, way in zip(jobs, ways.values(), strict=True)}
    for one in launches.by_turns(jobs, count):
        with busy(beside[one.path]):
            code = one.launch()
        if code:
            raise SystemExit(f"{scenario.name}: a launch of {one.path} failed with exit code {code}")


def found(scenario: Scenario, store: Path) -> Investigation:
    """What the records say."""
    runs = [record.load(store / f"{scenario.name}-{name}.jsonl") for name in ("before", "after")]
    return investigate(*(side(run.name, run, common_arm([run])) for run in runs))


def first(result: Investigation) -> str:
    """The cause that is named first, or how it ended."""
    return result.accused[0].cause.key if result.accused else result.outcome


def table(results: dict[Scenario, Investigation]) -> str:
    """One row a scenario, and the score."""
    header = ("scenario", "tok/s before", "after", "named first", "then", "is", "")
    rows, right, wrong = [], [], []
    for scenario, result in results.items():
        sides = (result.found.before, result.found.after)
        levels = [f"{courses.level(one, 'tokens_per_second') or 0:.1f}" for one in sides]
        (right if scenario.right else wrong).append(good := scenario.fits(first(result), bool(result.accused)))
        others = ", ".join(one.cause.key for one in result.accused[1:])
        expected = " or ".join(scenario.right) or "no cause"
        rows.append((scenario.name, *levels, first(result), others, expected, "" if good else "WRONG"))
    share = sum(right) / len(right) if right else 0.0
    accused = wrong.count(False)
    lines = [
        f"Right cause first: {sum(right)} of {len(right)}, {share:.0%} (at least {LEAST_RIGHT:.0%}).",
        f"Accused wrongly: {accused} of {len(wrong)} without a cause (at most {MOST_WRONG:.0%}).",
    ]
    return "\n".join([columns(header, rows, 140), "", *lines])


def main() -> None:
    """Measures what is missing, and prints the score; exits with 1 where it is not reached."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--store", type=Path, required=True, help="folder for the records")
    parser.add_argument("--only", action="append", choices=[one.name for one in SCENARIOS], help="this scenario")
    parser.add_argument("--launches", type=int, default=4, help="launches a side")
    parser.add_argument("--reports", action="store_true", help="print every investigation")
    options = parser.parse_args()
    results = {}
    store = options.store.resolve()
    for scenario in (one for one in SCENARIOS if not options.only or one.name in options.only):
        start = time.perf_counter()
        try:
            measure(scenario, store, options.launches)
            results[scenario] = found(scenario, store)
        except (LeftOutError, WingbeatError) as error:
            print(f"{scenario.name}: left out, {error}", flush=True)
            continue
        print(f"{scenario.name}: {first(results[scenario])} ({time.perf_counter() - start:.0f} s)", flush=True)
        if options.reports:
            print(report.render(results[scenario]), "\n")
    print(f"\n{table(results)}")
    raise SystemExit(not all(one.fits(first(result), bool(result.accused)) for one, result in results.items()))


if __name__ == "__main__":
    main()

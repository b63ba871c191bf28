"""How often `compare` calls a difference between real runs of this engine where there is none.

Both sides of every comparison are the same: default model, head and drafting. Each launch is a fresh process as in
`wingbeat bench`, by turns (A B B A A B), and belongs to one comparison alone. What is finished stays in the store;
started again, it goes on after it. A comparison takes about 45 s; nothing else should run meanwhile.

    python benchmarks/no_change.py --store FOLDER [--comparisons 20] [--launches 3]
"""

import argparse
import math
import time
from collections import Counter
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from wingbeat.cli import options
from wingbeat.cli.bench import LAUNCH
from wingbeat.investigate.compare import Comparison, compare
from wingbeat.investigate.side import side
from wingbeat.measure import launches, record, runner, workload
from wingbeat.report.table import columns

ARM = "eagle3"
ASKED: dict[str, Any] = {
    "model": None, "head": None, "dtype": "bfloat16", "weights": None, "device": "cpu", "context": None, "eager": False,
    "draft": asdict(options.draft(None, "auto", 1, None, "captured")), "arms": ARM, "temperature": 0.0, "seed": 0,
    "max_tokens": 32, "prompts": None, "limit": 6,
}  # fmt: skip
MOST_DIFFERENT = 0.05


def job(path: Path, count: int) -> launches.Job:
    """A side, ready to be launched; its record is made if it is not there."""
    if not path.exists():
        plan = runner.Plan(workload.bundled().take(ASKED["limit"]), (ARM,))
        record.save(replace(plan.record("bench", {**ASKED, "launches": count}), name=path.stem), path)
    return launches.Job(path, LAUNCH)


def compared(number: int, store: Path, count: int) -> Comparison:
    """Measures what is missing of a comparison, and compares."""
    jobs = [job(store / f"{number:02}-{name}.jsonl", count) for name in ("a", "b")]
    for one in launches.by_turns(jobs, count):
        if code := one.launch():
            raise SystemExit(f"a launch of {one.path} failed with exit code {code}")
    first, second = (side(one.path.stem, record.load(one.path), ARM) for one in jobs)
    return compare(first, second)


def row(number: int, found: Comparison) -> list[str]:
    """What was found, and what would have shown."""
    assert found.primary is not None
    assert found.primary.change is not None
    moved = found.primary.change
    low, high, shows = (f"{math.expm1(value):+.1%}" for value in (moved.low, moved.high, -moved.half))
    levels = f"{found.primary.before:.1f}", f"{found.primary.after:.1f}"
    return [str(number), *levels, f"{math.expm1(moved.value):+.1%}", f"{low} to {high}", shows, found.verdict]


def main() -> None:
    """Prints the table; exits with 1 where there are too many differences."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--store", type=Path, required=True, help="folder for the records")
    parser.add_argument("--comparisons", type=int, default=20)
    parser.add_argument("--launches", type=int, default=3, help="launches a side")
    given = parser.parse_args()
    rows = []
    for number in range(1, given.comparisons + 1):
        start = time.perf_counter()
        rows.append(row(number, compared(number, given.store, given.launches)))
        print(f"{number} of {given.comparisons}: {rows[-1][-1]} ({time.perf_counter() - start:.0f} s)", flush=True)
    header = ["", "tok/s", "again", "change", "95% interval", "a fall that shows", "verdict"]
    print(f"\n{columns(header, rows)}\n")
    verdicts = Counter(one[-1] for one in rows)
    differ, allowed = verdicts["faster"] + verdicts["slower"], max(1, int(MOST_DIFFERENT * len(rows)))
    print(f"{', '.join(f'{verdict} {count}' for verdict, count in sorted(verdicts.items()))}.")
    print(f"Differs: {differ} of {len(rows)} (at most {allowed}).")
    raise SystemExit(differ > allowed)


if __name__ == "__main__":
    main()

"""One launch of a scripted subject, as a process: `fake_launch.py RECORD [NUMBER ENDING]`.

After two rounds of launch NUMBER it ends: "fail" with exit code 3, "die" by a signal, "hang" when it is interrupted.
"""

import os
import signal
import sys
import time
from pathlib import Path

from wingbeat.errors import InterruptedRunError
from wingbeat.measure import record as records
from wingbeat.measure.runner import Plan, measure
from wingbeat.measure.subjects import FakeArm, FakeSubject
from wingbeat.measure.workload import bundled

ARMS = {"plain": FakeArm(20.0), "eagle3": FakeArm(24.0, draft_ms=3.0, drafted=4, accepted=(2, 0, 4))}


def main(path, number="0", ending=""):
    run = records.load(Path(path))
    plan = Plan(bundled().take(2), tuple(ARMS), launch=len(run.launches))

    def after(turn):
        if len(run.launches) == int(number) and len(run.launches[-1].rounds) == 2:
            ENDINGS[ending](path)

    try:
        measure(run, FakeSubject(ARMS), plan, Path(path), after)
    except InterruptedRunError:
        sys.exit(130)


def hang(path):
    Path(f"{path}.waiting").touch()
    time.sleep(600)


ENDINGS = {
    "fail": lambda path: sys.exit(3),
    "die": lambda path: os.kill(os.getpid(), signal.SIGKILL),
    "hang": hang,
}

if __name__ == "__main__":
    main(*sys.argv[1:])

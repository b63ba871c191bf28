"""One launch of a script, as a process: `scripted_launch.py bench-launch RECORD`.

In float32 all takes half as long again, and verify as extend 40 % longer. SLOW is how much longer it takes where tokens
are sampled. It ends in the middle, as if by Ctrl-C, where STOP names its run.
"""

import os
import sys
from pathlib import Path

from wingbeat import probe
from wingbeat.errors import InterruptedRunError
from wingbeat.measure import record as records
from wingbeat.measure.runner import Plan, measure
from wingbeat.measure.subjects import FakeArm, FakeSubject
from wingbeat.measure.workload import bundled
from wingbeat.probe import registry


class Scripted(FakeSubject):
    def fingerprint(self):
        """Of this process, without what depends on who else is at work."""
        found = probe.fingerprint()
        steady = {name: one for name, one in found.items() if (field := registry.spec(name)) and field.kind != "noise"}
        return probe.to_json(steady)

    def effective(self, arm):
        return {"subject": "script"}

    def calibrate(self):
        return {}


def drafting(step, name):
    return FakeArm(step * (1.4 if name.endswith("@extend") else 1), 0.2 * step, 0.1, drafted=4, accepted=(2, 0, 4))


def main(path):
    run = records.load(path)
    number = len(run.launches)
    step = (15.0 if run.requested["dtype"] == "float32" else 10.0) * (1 + 0.001 * number)
    step *= float(os.environ.get("SLOW", 1)) if run.requested["temperature"] else 1
    arms = {name: drafting(step, name) for name in run.arms} | {"plain": FakeArm(step, rest_ms=0.1)}
    arms = {name: arms[name] for name in run.arms}
    plan = Plan(bundled().take(run.requested["limit"]), tuple(arms), launch=number)

    def after(turn):
        if os.environ.get("STOP") == run.name:
            raise KeyboardInterrupt

    try:
        measure(run, Scripted(arms), plan, path, after)
    except InterruptedRunError:
        sys.exit(130)


if __name__ == "__main__":
    main(Path(sys.argv[2]))

"""What to run next: experiments as data, and the smallest set of them that tells the causes that are left apart.

Each changes one factor. None is run here, and none that touches a machine's clocks, power or links ever is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from wingbeat.investigate.hypothesis import Finding


@dataclass(frozen=True)
class Experiment:
    """One re-run. factor: the one thing that is another ("": nothing); minutes: about; do: what to do, in words."""

    key: str
    factor: str
    minutes: int
    do: str

    @property
    def local(self) -> bool:
        """Whether the local engine can run it."""
        return self.key in LOCAL

    @property
    def intrusive(self) -> bool:
        """Whether it changes a machine, which nothing here ever does."""
        return self.key in INTRUSIVE


EXPERIMENTS = {
    row[0]: Experiment(*row)
    for row in (
        ("repeat", "", 15, "repeat the old configuration today, in 3 launches or more, recorded cycle by cycle"),
        ("context", "context", 10, "run both at the same context lengths: the same prompts and output lengths"),
        ("prompts", "prompts", 10, "run both with the same prompt file and the same chat template"),
        ("greedy", "sampling", 10, "run both at temperature 0"),
        ("batch", "concurrency", 10, "run both with one request at a time"),
        ("warm", "warm-up", 10, "run both with a warm-up that is left out, until cycles are steady"),
        ("unobserved", "observer", 10, "run both without profiler and extra logging"),
        ("plain", "speculation", 5, "run both with speculation off"),
        ("captured", "verify path", 10, "run verify captured and as extend by turns in one launch, plain beside them"),
        ("kernel", "attention", 15, "trace one verify and one decode step at the same context, compare the kernels"),
        ("collective", "all-reduce", 10, "time the all-reduce at verify's and decode's size, with and without NCCL_*"),
        ("configuration", "configuration", 10, "run with the old settings, all else as now"),
        ("head", "head", 10, "run with the old head and its configuration, all else as now"),
        ("model", "target", 15, "run with the old target's files, all else as now"),
        ("threads", "cores", 10, "run with the old number of threads and the old affinity"),
        ("quiet", "others", 10, "run with nothing else on the machine"),
        ("restart", "uptime", 10, "start the server anew, empty its caches, and run at once"),
        ("launches", "", 30, "run 5 launches of each side, and look whether they fall into groups"),
        ("environment", "environment", 10, "run with the old environment variables, in the workers too"),
        ("library", "libraries", 20, "run with the old libraries in a second environment, all else as now"),
        ("code", "code", 20, "run the old commit without local changes; then halve the commits in between"),
        ("load", "", 2, "take `wingbeat fingerprint --under-load` on both, and compare"),
        ("power", "power limit", 15, "have the old power limit restored by who runs the machine, and run again"),
        ("link", "link", 60, "have the link retrained, or another slot used, and run again"),
        ("driver", "driver", 60, "have the old driver booted, and run again"),
        ("power_off", "platform state", 30, "have the machine taken off power for a minute, and run again"),
        ("artefact", "", 10, "look again at the old figures: warm-up, client, how many values, what an average covers"),
        ("paths", "", 30, "compare the code paths: backend that was resolved, graph lines in the log, kernels"),
    )
}
LOCAL = {
    "repeat", "context", "prompts", "greedy", "batch", "warm", "unobserved", "plain", "captured", "configuration",
    "head", "model", "threads", "quiet", "launches", "environment", "library", "code",
}  # fmt: skip
INTRUSIVE = {"power", "link", "driver", "power_off"}
LAST = ("repeat", "artefact", "paths")


def choose(outcome: str, findings: Sequence[Finding]) -> list[Experiment]:
    """What to run, in order: for several causes the smallest set that separates them; for none, the last resorts.

    Where nothing was seen, repeating the old configuration comes first: it decides about all measurement conditions.
    """
    left = [finding.cause for finding in findings if finding.survives]
    accused = [finding for finding in findings if finding.verdict in ("confirmed", "consistent")]
    if outcome == "no change" or any(finding.verdict == "confirmed" for finding in accused):
        return []
    if outcome == "cannot tell":
        return [EXPERIMENTS["launches"]]
    if outcome == "nothing observable changed":
        covered = [cause.experiments for cause in left if "repeat" in cause.experiments]
        others = separating([cause.experiments for cause in left if "repeat" not in cause.experiments])
        keys = dict.fromkeys(("repeat", *(shows[0] for shows in covered[:1]), *others, *LAST))
        return [EXPERIMENTS[key] for key in keys]
    if len(accused) == 1:
        return [EXPERIMENTS[accused[0].cause.experiments[0]]]
    return [EXPERIMENTS[key] for key in separating([finding.cause.experiments for finding in accused])]


def separating(shown_by: Sequence[tuple[str, ...]]) -> list[str]:
    """The fewest experiments that tell causes apart, and each from none of them; of as few, those that take least.

    shown_by: for each cause, the experiments in which it would show. Causes that show in the same ones stay together.
    """
    causes = sorted(set(shown_by))
    keys = sorted(dict.fromkeys(key for shows in causes for key in shows), key=lambda key: EXPERIMENTS[key].minutes)
    for count in range(1, len(keys) + 1):
        fitting = [chosen for chosen in combinations(keys, count) if _separates(chosen, causes)]
        if fitting:
            return list(min(fitting, key=lambda chosen: sum(EXPERIMENTS[key].minutes for key in chosen)))
    return []


def _separates(chosen: Sequence[str], causes: Sequence[tuple[str, ...]]) -> bool:
    patterns = {tuple(key in shows for key in chosen) for shows in causes}
    return len(patterns) == len(causes) and not any(not any(pattern) for pattern in patterns)

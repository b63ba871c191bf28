"""A state that is chosen when a process starts: tuned kernels, placement, NCCL's choices."""

from __future__ import annotations

import math
import statistics
from typing import TYPE_CHECKING

from wingbeat.investigate import courses
from wingbeat.investigate.causes.shapes import ANY
from wingbeat.investigate.hypothesis import Cause, Watch

if TYPE_CHECKING:
    from wingbeat.investigate.case import Case
    from wingbeat.investigate.side import Side

TOGETHER, ENOUGH = 0.8, 0.5  # correlation with a calibration, and its spread beside that of the speed
WORK = ("memory_read", "matrix_product")  # fixed work, in amounts a second


def _refuted(case: Case) -> str:
    """Where the machine itself did fixed work faster in the faster launches, nothing was chosen when these started."""
    sides = (case.found.before, case.found.after)
    speeds = [log for one in sides for log in courses.logs(one, "tokens_per_second")]
    for name in WORK:
        rates = [rate for one in sides for rate in _rates(one, name)]
        if len(rates) == len(speeds) > 2 and _together([math.log(rate) for rate in rates], speeds):
            return f"the machine's own {name} went along, from {min(rates):.4g} to {max(rates):.4g}"
    return ""


def _rates(one: Side, name: str) -> list[float]:
    """A calibration of every launch, on average over its start and end."""
    taken = [launch.calibration for record in one.records for launch in record.launches]
    return [statistics.fmean(end[name] for end in ends.values()) for ends in taken if ends and _has(ends, name)]


def _has(ends: dict[str, dict[str, float]], name: str) -> bool:
    return all(end.get(name, 0) > 0 for end in ends.values())


def _together(rates: list[float], speeds: list[float]) -> bool:
    spreads = [statistics.pstdev(values) for values in (rates, speeds)]
    return 0 < ENOUGH * spreads[1] <= spreads[0] and statistics.correlation(rates, speeds) >= TOGETHER


CAUSE = Cause(
    key="launch",
    family="state of the process",
    question="Do launches of one configuration fall into groups?",
    predicts=(ANY,),
    watches=(Watch("run.groups", without_change=True), Watch("cache.vllm_autotune"), Watch("cache.sglang_autotune")),
    decides=("run.groups",),
    shape="two or more levels, fixed for the life of a process",
    see="5 launches or more on each side (`wingbeat bench --launches 5`)",
    experiments=("launches",),
    near=3,
    refuted=_refuted,
)

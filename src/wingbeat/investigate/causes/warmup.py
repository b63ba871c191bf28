"""Warm-up inside the timed window: the first cycles compile, capture and fill caches."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wingbeat.investigate import courses
from wingbeat.investigate.causes.shapes import SLOWER_CYCLES, WHILE_MEASURED
from wingbeat.investigate.hypothesis import Cause, Watch, too_small

if TYPE_CHECKING:
    from wingbeat.investigate.case import Case


def _refuted(case: Case) -> str:
    """Where the course is known, it is the slower side that must have warmed up, and long enough."""
    known = any(fact.state != "unknown" for fact in case.match("run.warmup"))
    changed = any(case.changed(watch.pattern) for watch in CAUSE.watches)
    return too_small(courses.warmed(case.slower), case) if case.slower and known and changed else ""


CAUSE = Cause(
    key="warmup",
    family="measurement conditions",
    question="Was warm-up counted in on one side?",
    predicts=(WHILE_MEASURED, SLOWER_CYCLES),
    watches=(
        Watch("run.warmup"), Watch("setting.warmup", "less"), Watch("setting.warmup_requests", "less"),
        Watch("setting.num_warmups", "less"),
    ),
    decides=("run.warmup",),
    shape="the first cycles alone are slow; every launch alike",
    see="a run recorded cycle by cycle",
    experiments=("warm", "repeat"),
    near=3,
    refuted=_refuted,
)  # fmt: skip

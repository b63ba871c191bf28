"""A process that slows as it runs: fragmentation, growing structures, an idle state."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wingbeat.investigate import courses
from wingbeat.investigate.causes.shapes import SLOWER_CYCLES
from wingbeat.investigate.hypothesis import Cause, Watch, too_small

if TYPE_CHECKING:
    from wingbeat.investigate.case import Case


def _refuted(case: Case) -> str:
    """It is the slower side that must have slowed down, and by as much as it is slower."""
    return too_small(courses.drifted(case.slower), case) if case.slower and case.changed("run.drift") else ""


CAUSE = Cause(
    key="leak",
    family="state of the process",
    question="Did one side slow down while it ran?",
    predicts=(SLOWER_CYCLES,),
    watches=(Watch("run.drift"),),
    decides=("run.drift",),
    shape="grows over the run at equal context lengths; gone after a restart",
    see="a longer run recorded cycle by cycle",
    experiments=("restart",),
    near=3,
    refuted=_refuted,
)

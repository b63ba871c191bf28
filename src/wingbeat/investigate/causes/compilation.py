"""Compilation inside the timed window: single cycles that take many times as long as the others."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from wingbeat.investigate.causes.shapes import SLOWER_CYCLES
from wingbeat.investigate.hypothesis import Cause, Watch, too_small

if TYPE_CHECKING:
    from wingbeat.investigate.case import Case


def _refuted(case: Case) -> str:
    """Long cycles explain no more than the time that they took."""
    shares = [share for fact in case.changed("run.uneven") for share in (fact.before, fact.after)]
    return too_small(-math.log1p(-max(shares)), case) if shares and max(shares) < 1 else ""


CAUSE = Cause(
    key="compilation",
    family="state of the process",
    question="Were kernels compiled while time was taken?",
    predicts=(SLOWER_CYCLES,),
    watches=(Watch("run.uneven", "more"),),
    decides=("run.uneven",),
    shape="a few cycles, at new widths or lengths; gone when run again in the same process",
    see="a run recorded cycle by cycle, or the server's log (compilation during inference)",
    experiments=("warm",),
    near=3,
    refuted=_refuted,
)

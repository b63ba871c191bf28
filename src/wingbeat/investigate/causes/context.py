"""Longer contexts: attention reads more in every verify."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wingbeat.investigate.causes.shapes import WHILE_MEASURED
from wingbeat.investigate.hypothesis import Cause, Watch
from wingbeat.investigate.moves import MOVED

if TYPE_CHECKING:
    from wingbeat.investigate.case import Case


def at_equal_contexts(case: Case) -> str:
    """A sentence where the change is there at equal context lengths too."""
    for row in case.found.matched:
        if row.name == "tokens_per_second" or row.change is None or not case.moves.total or row.answer != "differs":
            continue
        own = -row.change.value if row.name == "cycle_ms" else row.change.value
        if own / case.moves.total >= MOVED:
            what = "the time of a cycle" if row.name == "cycle_ms" else "tokens per cycle"
            return f"at equal context lengths too, {what} went from {row.before:.4g} to {row.after:.4g}"
    return ""


CAUSE = Cause(
    key="context",
    family="measurement conditions",
    question="Were the contexts longer?",
    predicts=(WHILE_MEASURED,),
    watches=(Watch("run.context", slower="more"),),
    decides=("run.context",),
    shape="grows with context; the same at equal contexts",
    see="a run recorded cycle by cycle (`wingbeat bench`)",
    experiments=("context", "repeat"),
    near=3,
    refuted=at_equal_contexts,
)

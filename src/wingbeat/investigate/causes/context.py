"""Longer contexts: attention reads more in every verify."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wingbeat.investigate.causes.shapes import WHILE_MEASURED
from wingbeat.investigate.hypothesis import Cause, Watch
from wingbeat.investigate.moves import MOVED

if TYPE_CHECKING:
    from wingbeat.investigate.case import Case


def _refuted(case: Case) -> str:
    """Whether the change is there at equal context lengths too."""
    row = next((row for row in case.found.matched if row.name == "cycle_ms"), None)
    if row is None or row.change is None or case.moves.total is None or row.answer != "differs":
        return ""
    if -row.change.value / case.moves.total < MOVED:
        return ""
    return f"at equal context lengths too, a cycle went from {row.before:.4g} to {row.after:.4g} ms"


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
    refuted=_refuted,
)

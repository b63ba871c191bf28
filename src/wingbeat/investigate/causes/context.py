"""Longer contexts: attention reads more in every verify."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wingbeat.investigate.causes.shapes import WHILE_MEASURED
from wingbeat.investigate.hypothesis import Cause, Prediction, Watch
from wingbeat.investigate.moves import MOVED

if TYPE_CHECKING:
    from wingbeat.investigate.case import Case

FAR = 4  # times the context, from which growth shows
CLEARLY = 0.5


def at_equal_contexts(case: Case) -> str:
    """A sentence where the change is there at equal context lengths too."""
    for row in case.found.matched:
        if row.name == "tokens_per_second" or row.change is None or not case.moves.total or row.answer != "differs":
            continue
        own = -row.change.value - (case.moves.machine or 0.0) if row.name == "cycle_ms" else row.change.value
        if own / case.moves.total >= MOVED:
            what = "the time of a cycle" if row.name == "cycle_ms" else "tokens per cycle"
            return f"at equal context lengths too, {what} went from {row.before:.4g} to {row.after:.4g}"
    return ""


def growth(case: Case) -> list[str]:
    """Whether time was added at every context length alike, or more at longer ones; [] where that is not known."""
    rows = [one for one in case.found.contexts if one.row.name == "cycle_ms" and one.row.answer == "differs"]
    if len(rows) < 2 or rows[-1].low < FAR * rows[0].low:
        return []
    added = [one.row.after - one.row.before for one in (rows[0], rows[-1])]
    text = f"A cycle took {added[0]:+.3g} ms at {rows[0].low} tokens of context, {added[1]:+.3g} ms at {rows[-1].low}"
    if added[1] / added[0] > 1 + CLEARLY:
        return [f"{text}: it grows with context, as attention does."]
    return [f"{text}: a constant, as launches of work are."] if abs(added[1] / added[0] - 1) < CLEARLY else []


CAUSE = Cause(
    key="context",
    family="measurement conditions",
    question="Were the contexts longer?",
    predicts=(WHILE_MEASURED, Prediction("another acceptance", moves=("tokens",))),
    watches=(Watch("run.context", "more", bounded=True),),
    decides=("run.context",),
    shape="grows with context; the same at equal contexts",
    see="a run recorded cycle by cycle (`wingbeat bench`)",
    experiments=("context", "repeat"),
    near=3,
    refuted=at_equal_contexts,
)

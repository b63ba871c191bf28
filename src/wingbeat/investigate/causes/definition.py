"""The same word for two quantities: acceptance with or without the target's own token, of a run or a server's life."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wingbeat.investigate.hypothesis import Cause, Prediction, Watch

if TYPE_CHECKING:
    from wingbeat.investigate.case import Case


def _refuted(case: Case) -> str:
    """Another source is another definition only where the sources themselves say so, or say nothing."""
    facts = case.changed("run.definitions")
    said = facts and ":" in str(facts[0].before) and ":" in str(facts[0].after)
    return "" if not said or case.found.obstacles else "both sources mean the same by the figures that were compared"


CAUSE = Cause(
    key="definition",
    family="measurement conditions",
    question="Do the figures of both sides count the same?",
    predicts=(Prediction("another acceptance and the same times", moves=("tokens",), stays=("verify", "draft")),
              Prediction("another speed by the clock alone", stays=("verify", "draft", "tokens"))),
    watches=(Watch("run.definitions"),),
    decides=("run.definitions",),
    shape="a fixed offset or factor, whatever the run",
    see="the same tool on both sides",
    experiments=("artefact", "repeat"),
    near=3,
    refuted=_refuted,
)  # fmt: skip

"""A head that was trained too little, or on other text: it fits, and guesses less well."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wingbeat.investigate.causes.head import COLLAPSED
from wingbeat.investigate.causes.shapes import ACCEPTANCE_ALONE
from wingbeat.investigate.hypothesis import Cause, Watch

if TYPE_CHECKING:
    from wingbeat.investigate.case import Case


def _refuted(case: Case) -> str:
    first = next(iter(case.found.positions), None)
    if first and min(first.unconditional) < COLLAPSED < max(first.unconditional):
        return f"a first position of {min(first.unconditional):.0%} is no matter of training"
    return ""


CAUSE = Cause(
    key="undertrained",
    family="head and target",
    question="Was the head trained less, or on other text?",
    predicts=(ACCEPTANCE_ALONE,),
    watches=(Watch("head.weights"),),
    decides=("head.weights",),
    shape="all positions a little lower, more on text that it was not trained on",
    see="`wingbeat fingerprint --head`",
    experiments=("head",),
    near=2,
    needs="drafting",
    refuted=_refuted,
)

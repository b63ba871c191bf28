"""A head that does not fit its target: other weights, taps, norm flags, rope or vocabulary."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wingbeat.investigate.causes.shapes import ACCEPTANCE_ALONE
from wingbeat.investigate.causes.target import only_renamed
from wingbeat.investigate.hypothesis import Cause, Watch

if TYPE_CHECKING:
    from wingbeat.investigate.case import Case

STILL = 0.05  # a first position that moved by less stayed
COLLAPSED = 0.15  # acceptance of the first position, below which a head does not see its target


def _where(case: Case) -> list[str]:
    """What the positions say about the kind of mismatch."""
    if not case.found.positions:
        return []
    first, *others = case.found.positions
    before, after = first.unconditional
    if after < COLLAPSED < before:
        return [
            f"The first position fell from {before:.0%} to {after:.0%}: taps, norms, vocabulary or weights do not fit."
        ]
    if others and first.moved > -STILL > min(one.moved for one in others):
        return ["The first position stayed and later ones fell: rope, the fed-back feature or the draft's cache."]
    return []


def _refuted(case: Case) -> str:
    """Other weights alone that guess a little better or worse from the first position on fit; so do the same files."""
    if any(case.changed(watch.pattern) for watch in CAUSE.watches if watch.pattern != "head.weights"):
        return only_renamed(case, "head")
    first = next(iter(case.found.positions), None)
    if first is None or min(first.unconditional) < COLLAPSED or abs(first.moved) < STILL:
        return ""
    return f"a head that does not fit has no first position of {min(first.unconditional):.0%}"


CAUSE = Cause(
    key="head",
    family="head and target",
    question="Is the draft head another one, or loaded another way?",
    predicts=(ACCEPTANCE_ALONE,),
    watches=(
        Watch("head.weights"), Watch("head.config"), Watch("head.name"), Watch("setting.head"),
        Watch("setting.speculative_draft_model_path"), Watch("setting.taps"),
    ),
    decides=("head.weights", "head.config"),
    shape="every prompt alike, from the first position on",
    see="`wingbeat fingerprint --head`",
    experiments=("head",),
    near=3,
    needs="drafting",
    refuted=_refuted,
    note=_where,
)  # fmt: skip

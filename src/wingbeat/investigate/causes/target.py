"""Another target: its weights, configuration or tokenizer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wingbeat.investigate.causes.shapes import ANY
from wingbeat.investigate.hypothesis import Cause, Watch

if TYPE_CHECKING:
    from wingbeat.investigate.case import Case

FILES = ("weights", "config")


def only_renamed(case: Case, role: str) -> str:
    """A sentence where the files of a model ("model", "head") are the same, whatever it is called."""
    states = {fact.state for name in FILES for fact in case.match(f"{role}.{name}")}
    moved = [fact for fact in case.changed(f"{role}.*") if fact.name not in (f"{role}.name", f"{role}.folder")]
    return "it is the same files under another name" if states == {"same"} and not moved else ""


def _refuted(case: Case) -> str:
    return only_renamed(case, "model") if any(map(case.changed, NAMES)) else ""


NAMES = ("model.name", "setting.model", "setting.model_path")
CAUSE = Cause(
    key="target",
    family="head and target",
    question="Is the target another one?",
    predicts=(ANY,),
    watches=(
        Watch("model.weights"), Watch("model.config"), Watch("model.tokenizer"),
        *map(Watch, NAMES),
    ),
    decides=("model.weights", "model.config", "model.tokenizer"),
    shape="every prompt alike",
    see="`wingbeat fingerprint --model`",
    experiments=("model",),
    near=3,
    refuted=_refuted,
)  # fmt: skip

"""Other output lengths: other contexts, and another part of the text is drafted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wingbeat.investigate.causes.context import at_equal_contexts
from wingbeat.investigate.causes.shapes import ANY
from wingbeat.investigate.hypothesis import Cause, Prediction, Watch

if TYPE_CHECKING:
    from wingbeat.investigate.case import Case

TEXT = ("run.prompts", "setting.template", "setting.temperature")  # what makes other outputs, and is a cause of its own


def _refuted(case: Case) -> str:
    seen = [fact.name for watch in CAUSE.watches for fact in case.changed(watch.pattern)]
    follows = seen == ["run.new_tokens"] and any(map(case.changed, TEXT))
    return "the lengths follow from other text" if follows else at_equal_contexts(case)


CAUSE = Cause(
    key="output_length",
    family="measurement conditions",
    question="Were the outputs longer or shorter?",
    predicts=(
        Prediction("another acceptance", moves=("tokens",)),
        Prediction("other contexts", moves=("verify",)),
        ANY,
    ),
    watches=(
        Watch("setting.max_tokens"), Watch("setting.ignore_eos"), Watch("setting.stop"), Watch("run.new_tokens"),
    ),
    decides=("run.new_tokens",),
    shape="the same at equal contexts and on the common beginning of the outputs",
    see="a run recorded request by request",
    experiments=("context", "repeat"),
    near=3,
    refuted=_refuted,
)  # fmt: skip

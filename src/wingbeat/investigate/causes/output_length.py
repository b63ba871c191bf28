"""Other output lengths: other contexts, and another part of the text is drafted."""

from wingbeat.investigate.causes.context import at_equal_contexts
from wingbeat.investigate.causes.shapes import ANY
from wingbeat.investigate.hypothesis import Cause, Prediction, Watch

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
    refuted=at_equal_contexts,
)  # fmt: skip

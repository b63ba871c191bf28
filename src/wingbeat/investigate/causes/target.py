"""Another target: its weights, configuration, tokenizer or template."""

from wingbeat.investigate.causes.shapes import ANY
from wingbeat.investigate.hypothesis import Cause, Watch

CAUSE = Cause(
    key="target",
    family="head and target",
    question="Is the target another one?",
    predicts=(ANY,),
    watches=(
        Watch("model.weights"), Watch("model.config"), Watch("model.tokenizer"), Watch("model.chat_template"),
        Watch("model.name"), Watch("setting.model"), Watch("setting.model_path"),
    ),
    decides=("model.weights", "model.config", "model.tokenizer", "model.chat_template"),
    shape="every prompt alike",
    see="`wingbeat fingerprint --model`",
    experiments=("model",),
    near=3,
)  # fmt: skip

"""Other prompts, or another way of wrapping them: what is easy to draft depends on the text."""

from wingbeat.investigate.causes.shapes import ANY
from wingbeat.investigate.hypothesis import Cause, Prediction, Watch

CAUSE = Cause(
    key="prompts",
    family="measurement conditions",
    question="Were the prompts or the chat template others?",
    predicts=(
        Prediction("another acceptance", moves=("tokens",)),
        Prediction("other contexts", moves=("prefill",)),
        ANY,
    ),
    watches=(
        Watch("run.prompts"), Watch("setting.template"), Watch("setting.raw"), Watch("setting.chat_template"),
        Watch("setting.apply_chat_template"), Watch("setting.dataset"), Watch("setting.dataset_name"),
        Watch("setting.dataset_path"), Watch("setting.system_prompt"),
    ),
    decides=("run.prompts",),
    shape="acceptance differs from prompt to prompt; the same on prompts that both ran",
    see="a run recorded with its prompt file (`wingbeat bench --prompts`)",
    experiments=("prompts", "repeat"),
    near=3,
)  # fmt: skip

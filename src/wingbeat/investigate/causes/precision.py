"""Other number formats: weights, activations or the cache in another type move other amounts of memory."""

from wingbeat.investigate.causes.shapes import ALL_PHASES, ANY, TARGET_STEPS
from wingbeat.investigate.hypothesis import Cause, Watch

CAUSE = Cause(
    key="precision",
    family="configuration",
    question="Is the model run in another number format?",
    predicts=(ALL_PHASES, TARGET_STEPS, ANY),
    watches=(
        Watch("setting.dtype"), Watch("setting.quantization"), Watch("setting.weights"),
        Watch("setting.kv_cache_dtype"), Watch("setting.speculative_draft_model_quantization"),
    ),
    decides=("setting.dtype|setting.arguments",),
    shape="one ratio for whatever reads these numbers",
    see="a run recorded with its settings",
    experiments=("configuration",),
    near=3,
)  # fmt: skip

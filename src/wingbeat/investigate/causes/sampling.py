"""Other sampling: temperature lowers acceptance, and its kernels (sorting, renormalising) run in verify."""

from wingbeat.investigate.hypothesis import Cause, Prediction, Watch

CAUSE = Cause(
    key="sampling",
    family="measurement conditions",
    question="Were tokens sampled in another way?",
    predicts=(
        Prediction("another acceptance", moves=("tokens",), stays=("draft",)),
        Prediction("sorting and renormalising in verify", moves=("verify",), stays=("tokens",)),
    ),
    watches=(
        Watch("setting.temperature"), Watch("setting.top_k"), Watch("setting.top_p"), Watch("setting.min_p"),
        Watch("setting.repetition_penalty"), Watch("setting.seed"), Watch("*.generation_config"),
        Watch("setting.speculative_accept_threshold_*"), Watch("setting.rejection_sample_method"),
    ),
    decides=("setting.temperature",),
    shape="gone at temperature 0",
    see="a run recorded with its sampling settings",
    experiments=("greedy", "repeat"),
    near=3,
)  # fmt: skip

"""Another NCCL: small all-reduces differ from version to version."""

from wingbeat.investigate.causes.shapes import ACCEPTANCE_ALONE, ALL_PHASES, TARGET_STEPS
from wingbeat.investigate.hypothesis import Cause, Watch

CAUSE = Cause(
    key="nccl",
    family="collectives",
    question="Is it another NCCL?",
    predicts=(TARGET_STEPS, ALL_PHASES, ACCEPTANCE_ALONE),
    watches=(
        Watch("loaded.nccl"), Watch("loaded.rccl"), Watch("installed.nvidia-nccl-cu12"),
        Watch("installed.nvidia-nccl-cu13"), Watch("env.VLLM_NCCL_SO_PATH"),
    ),
    decides=("loaded.nccl|installed.nvidia-nccl-*",),
    shape="most at small sizes; none on one GPU",
    see="`wingbeat fingerprint --pid` of the server",
    experiments=("library", "collective"),
    near=2,
    needs="several devices",
)  # fmt: skip

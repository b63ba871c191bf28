"""Another driver or kernel module, or one that waits on disk for the next boot."""

from wingbeat.investigate.causes.shapes import ALL_PHASES, BETWEEN_PHASES, TARGET_STEPS
from wingbeat.investigate.hypothesis import Cause, Watch

CAUSE = Cause(
    key="driver",
    family="software",
    question="Is it another driver or kernel module?",
    predicts=(ALL_PHASES, TARGET_STEPS, BETWEEN_PHASES),
    watches=(
        Watch("nvidia.driver"), Watch("nvidia.cuda"), Watch("nvidia.module"), Watch("nvidia.module.*"),
        Watch("amd.driver"), Watch("amdgpu.module*"), Watch("gpu.*.gsp"), Watch("loaded.cuda"),
    ),
    decides=("nvidia.driver|amd.driver", "nvidia.module|amdgpu.module"),
    shape="one ratio, or a constant for every launch of work",
    see="`wingbeat fingerprint`",
    experiments=("driver",),
    near=2,
    needs="devices",
)  # fmt: skip

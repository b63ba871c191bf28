"""Other hardware: another GPU, a slice of one, or memory that is slower."""

from wingbeat.investigate.causes.shapes import ALL_PHASES, TARGET_STEPS
from wingbeat.investigate.hypothesis import Cause, Watch

CAUSE = Cause(
    key="hardware",
    family="devices",
    question="Is it other hardware?",
    predicts=(ALL_PHASES, TARGET_STEPS),
    watches=(
        Watch("gpu.count"), Watch("gpu.*.name"), Watch("gpu.*.mig"), Watch("gpu.*.mig.devices"), Watch("gpu.*.ecc"),
        Watch("gpu.*.virtualization"), Watch("gpu.*.vgpu.licence"), Watch("gpu.*.memory.total"), Watch("gpu.*.vbios"),
        Watch("cpu.model"), Watch("gpu.*.rows.*"), Watch("gpu.*.recovery_action"),
        Watch("gpu.*.ecc.uncorrected", "more"),
    ),
    decides=("gpu.count", "gpu.*.name", "cpu.model"),
    shape="one ratio everywhere",
    see="`wingbeat fingerprint`",
    experiments=("repeat",),
    near=2,
)  # fmt: skip

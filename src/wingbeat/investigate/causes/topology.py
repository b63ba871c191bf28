"""The way between the GPUs: other root complexes, no peer-to-peer, translation by the IOMMU."""

from wingbeat.investigate.causes.shapes import ALL_PHASES, TARGET_STEPS
from wingbeat.investigate.hypothesis import Cause, Watch

CAUSE = Cause(
    key="topology",
    family="collectives",
    question="Do the GPUs reach each other another way?",
    predicts=(TARGET_STEPS, ALL_PHASES),
    watches=(
        Watch("gpu.topology"), Watch("gpu.p2p"), Watch("gpu.nvlink"), Watch("iommu"), Watch("bus.acs"),
        Watch("gpu.*.fabric"), Watch("board"), Watch("gpu.*.pcie.path"),
    ),
    decides=("gpu.topology", "gpu.p2p", "iommu"),
    shape="a constant for every all-reduce; none on one GPU",
    see="`wingbeat fingerprint`",
    experiments=("collective",),
    near=3,
    needs="several devices",
)  # fmt: skip

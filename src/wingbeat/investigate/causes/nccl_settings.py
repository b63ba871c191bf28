"""NCCL and all-reduce settings: protocol, algorithm, channels, peer-to-peer, the server's own all-reduce."""

from wingbeat.investigate.causes.shapes import ACCEPTANCE_ALONE, ALL_PHASES, TARGET_STEPS, VERIFY_ALONE
from wingbeat.investigate.hypothesis import Cause, Watch

CAUSE = Cause(
    key="nccl_settings",
    family="collectives",
    question="Is NCCL, or the all-reduce, set another way?",
    predicts=(TARGET_STEPS, ALL_PHASES, VERIFY_ALONE, ACCEPTANCE_ALONE),
    watches=(
        Watch("env.NCCL_[!D]*"), Watch("env.NCCL_D[!E]*"), Watch("env.RCCL_*"), Watch("env.UCX_*"),
        Watch("workers.env.NCCL_*"), Watch("workers.env.RCCL_*"), Watch("workers.env.UCX_*"),
        Watch("nccl.conf.*"), Watch("setting.disable_custom_all_reduce"), Watch("setting.enable_nccl_nvls"),
        Watch("setting.all_reduce_backend"), Watch("nvidia.module.parameters"),
    ),
    decides=("process.environ", "nccl.conf.system", "nccl.conf.user"),
    shape="differs by size class: verify's messages are wider than decode's",
    see="`wingbeat fingerprint --pid` of the server",
    experiments=("collective", "environment"),
    near=3,
    needs="several devices",
)  # fmt: skip

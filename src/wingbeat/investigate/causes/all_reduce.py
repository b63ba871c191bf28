"""Verify's all-reduce falls into another size class than decode's, for which the settings do not fit."""

from wingbeat.investigate.causes.shapes import ACCEPTANCE_ALONE, VERIFY_ALONE
from wingbeat.investigate.hypothesis import Cause, Watch

CAUSE = Cause(
    key="all_reduce",
    family="verify's code path",
    question="Is verify's all-reduce, wider than decode's, handled another way?",
    predicts=(VERIFY_ALONE, ACCEPTANCE_ALONE),
    watches=(
        Watch("calibration.all_reduce_*", "more"),
        Watch("setting.*flashinfer_allreduce*"),
        Watch("setting.*one_shot*"),
    ),
    decides=("calibration.all_reduce_*",),
    shape="a step at a size (hidden size x tokens x 2 bytes); none on one GPU",
    see="an all-reduce timed at both sizes (`all_reduce_perf` of nccl-tests, 4 KB to 1 MB)",
    experiments=("collective",),
    near=2,
    needs="several devices",
)

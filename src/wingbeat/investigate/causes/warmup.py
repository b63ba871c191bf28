"""Warm-up inside the timed window: the first cycles compile, capture and fill caches."""

from wingbeat.investigate.causes.shapes import ANY, WHILE_MEASURED
from wingbeat.investigate.hypothesis import Cause, Watch

CAUSE = Cause(
    key="warmup",
    family="measurement conditions",
    question="Was warm-up counted in on one side?",
    predicts=(WHILE_MEASURED, ANY),
    watches=(
        Watch("run.warmup"), Watch("setting.warmup"), Watch("setting.warmup_requests"), Watch("setting.num_warmups"),
    ),
    decides=("run.warmup",),
    shape="the first cycles alone are slow; every launch alike",
    see="a run recorded cycle by cycle",
    experiments=("warm", "repeat"),
    near=3,
)  # fmt: skip

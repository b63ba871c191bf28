"""Heat: the GPU slows itself as it warms, so that cycles lengthen within a run."""

from wingbeat.investigate.causes.shapes import ALL_PHASES
from wingbeat.investigate.hypothesis import Cause, Watch

CAUSE = Cause(
    key="thermal",
    family="devices",
    question="Do the GPUs slow down because they are hot?",
    predicts=(ALL_PHASES,),
    watches=(
        Watch("gpu.*.slowed.thermal", "more"),
        Watch("gpu.*.slowed.hardware_thermal", "more"),
        Watch("load.gpu.*.slowed", "other"),
        Watch("load.gpu.*.slowed.*thermal", "more"),
        Watch("load.gpu.*.temperature", "more"),
        Watch("gpu.*.fan", "less"),
    ),
    decides=("load.gpu.*.clock.sm",),
    shape="grows over the first minutes of load; gone after a pause",
    see="`wingbeat fingerprint --under-load`",
    experiments=("load", "restart"),
    near=3,
    needs="devices",
)

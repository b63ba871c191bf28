"""Lower clocks or a power cap: everything on the GPU slows by one ratio, and no more than the clock fell."""

from wingbeat.investigate.causes.shapes import ALL_PHASES
from wingbeat.investigate.hypothesis import Cause, Watch

CAUSE = Cause(
    key="clocks",
    family="devices",
    question="Do the GPUs run at lower clocks, or under a power cap?",
    predicts=(ALL_PHASES,),
    watches=(
        Watch("load.gpu.*.clock.sm", "less", bounded=True),
        Watch("load.gpu.*.clock.memory", "less", bounded=True),
        Watch("gpu.*.power.limit", "less", bounded=True),
        Watch("gpu.*.clock.application.*", "less", bounded=True),
        Watch("gpu.*.clock.*.max", "less", bounded=True),
        Watch("gpu.*.slowed.power_cap", "more"),
        Watch("gpu.*.slowed.power_brake", "more"),
        Watch("gpu.*.slowed.sync_boost", "more"),
        Watch("load.gpu.*.slowed.power_cap", "more"),
    ),
    decides=("load.gpu.*.clock.sm",),
    shape="one ratio at every context and batch size, in every launch",
    see="`wingbeat fingerprint --under-load`",
    experiments=("power", "load"),
    near=3,
    needs="devices",
)

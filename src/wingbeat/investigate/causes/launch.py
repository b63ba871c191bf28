"""A state that is chosen when a process starts: tuned kernels, placement, NCCL's choices."""

from wingbeat.investigate.causes.shapes import ANY
from wingbeat.investigate.hypothesis import Cause, Watch

CAUSE = Cause(
    key="launch",
    family="state of the process",
    question="Do launches of one configuration fall into groups?",
    predicts=(ANY,),
    watches=(Watch("run.groups", without_change=True), Watch("cache.vllm_autotune"), Watch("cache.sglang_autotune")),
    decides=("run.groups",),
    shape="two or more levels, fixed for the life of a process",
    see="5 launches or more on each side (`wingbeat bench --launches 5`)",
    experiments=("launches",),
    near=3,
)

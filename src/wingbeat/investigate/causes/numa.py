"""Memory on the wrong side: NUMA placement, balancing, the node of the GPU."""

from wingbeat.investigate.causes.shapes import BETWEEN_PHASES, ON_THE_CPU
from wingbeat.investigate.hypothesis import Cause, Watch

CAUSE = Cause(
    key="numa",
    family="machine",
    question="Does the process run away from its memory or its GPU?",
    predicts=(BETWEEN_PHASES, ON_THE_CPU),
    watches=(Watch("numa.*"), Watch("gpu.*.numa"), Watch("setting.numa_bind"), Watch("setting.numa_node")),
    decides=("numa.nodes", "numa.balancing"),
    shape="single launches differ; the GPU's own times stay",
    see="`wingbeat fingerprint`",
    experiments=("threads",),
    near=2,
)

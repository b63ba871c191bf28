"""Memory on the wrong side: NUMA placement, balancing, the node of the GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wingbeat.investigate.causes.shapes import BETWEEN_PHASES, ON_THE_CPU
from wingbeat.investigate.hypothesis import Cause, Watch

if TYPE_CHECKING:
    from wingbeat.investigate.case import Case


def _refuted(case: Case) -> str:
    nodes = [fact for fact in case.match("numa.nodes") if fact.state == "same"]
    return "all memory is one node" if nodes and len(nodes[0].after) == 1 else ""


CAUSE = Cause(
    key="numa",
    family="machine",
    question="Does the process run away from its memory or its GPU?",
    predicts=(BETWEEN_PHASES, ON_THE_CPU),
    watches=(
        Watch("numa.*"),
        Watch("gpu.*.numa"),
        Watch("setting.numa_bind"),
        Watch("setting.numa_node"),
        Watch("process.affinity"),
        Watch("workers.affinity"),
    ),
    decides=("numa.nodes", "numa.balancing", "process.affinity", "workers.affinity"),
    shape="single launches differ; the GPU's own times stay",
    see="`wingbeat fingerprint`",
    experiments=("threads",),
    near=2,
    refuted=_refuted,
)

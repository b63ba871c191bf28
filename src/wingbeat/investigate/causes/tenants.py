"""Others on the machine: processes on the GPU or the cores, a neighbour on the host."""

from wingbeat.investigate.causes.shapes import ALL_PHASES, BETWEEN_PHASES, ON_THE_CPU
from wingbeat.investigate.hypothesis import Cause, Watch

CAUSE = Cause(
    key="tenants",
    family="machine",
    question="Do others use the GPU or the cores?",
    predicts=(ALL_PHASES, BETWEEN_PHASES, ON_THE_CPU),
    watches=(
        Watch("gpu.*.others", "more"), Watch("cpu.steal", "more"), Watch("load.cpu.steal", "more"),
        Watch("pressure.cpu", "more"), Watch("pressure.memory", "more"), Watch("cpu.load_average", "more"),
        Watch("process.switches", "more"), Watch("memory.swapped_in", "more"),
    ),
    decides=("gpu.*.others", "pressure.cpu", "cpu.steal", "process.switches"),
    shape="uneven, and only while they run",
    see="`wingbeat fingerprint` at the start and at the end of the run",
    experiments=("quiet",),
    near=3,
)  # fmt: skip

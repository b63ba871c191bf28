"""A slower processor: governor, frequency, boost, energy preference, mitigations."""

from wingbeat.investigate.causes.shapes import ALL_ON_THE_CPU, BETWEEN_PHASES, ON_THE_CPU
from wingbeat.investigate.hypothesis import Cause, Watch

CAUSE = Cause(
    key="cpu",
    family="machine",
    question="Is the processor slower?",
    predicts=(BETWEEN_PHASES, ALL_ON_THE_CPU, ON_THE_CPU),
    watches=(
        Watch("cpu.governor"), Watch("cpu.driver"), Watch("cpu.energy_preference"), Watch("cpu.frequency.max"),
        Watch("cpu.boost"), Watch("cpu.smt"), Watch("cpu.mitigations"), Watch("cpu.idle_states"),
        Watch("load.cpu.frequency", "less", bounded=True), Watch("memory.huge_pages"), Watch("virtual_machine"),
    ),
    decides=("cpu.governor", "cpu.boost", "load.cpu.frequency"),
    shape="a constant for every launch of work; the GPU's own times stay",
    see="`wingbeat fingerprint --under-load`",
    experiments=("load",),
    near=3,
)  # fmt: skip

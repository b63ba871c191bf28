"""A state of the machine that no tool shows: the same calibration work takes longer."""

from wingbeat.investigate.causes.shapes import ALL_PHASES, ON_THE_CPU, TARGET_STEPS
from wingbeat.investigate.hypothesis import Cause, Watch

CAUSE = Cause(
    key="platform",
    family="machine",
    question="Does the machine do the same fixed work more slowly?",
    predicts=(ALL_PHASES, TARGET_STEPS, ON_THE_CPU),
    watches=(
        Watch("calibration.memory_read", "less", bounded=True),
        Watch("calibration.matrix_product", "less", bounded=True),
        Watch("calibration.launch", "more", bounded=True),
    ),
    decides=("calibration.memory_read", "calibration.matrix_product", "calibration.launch"),
    shape="one ratio, whatever runs; survives a restart of the server",
    see="a run by `wingbeat bench`, which calibrates at both ends",
    experiments=("power_off", "load"),
    near=2,
)

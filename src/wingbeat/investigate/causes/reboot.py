"""A reboot: it resets power limits, persistence, clocks, link training, caches and states that no tool shows."""

from wingbeat.investigate.causes.shapes import ALL_PHASES, BETWEEN_PHASES, ON_THE_CPU
from wingbeat.investigate.hypothesis import Cause, Watch

CAUSE = Cause(
    key="reboot",
    family="machine",
    question="Was the machine booted in between?",
    predicts=(ALL_PHASES, BETWEEN_PHASES, ON_THE_CPU),
    watches=(Watch("boot_id"), Watch("kernel.command_line"), Watch("kernel.version"), Watch("bios.*"), Watch("os")),
    decides=("boot_id",),
    shape="one ratio from one boot to the next",
    see="`wingbeat fingerprint`",
    experiments=("power_off",),
    near=1,
)

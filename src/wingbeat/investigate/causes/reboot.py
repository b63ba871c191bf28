"""A reboot: it resets power limits, persistence, clocks, link training, caches and states that no tool shows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wingbeat.investigate.causes.shapes import ALL_PHASES, BETWEEN_PHASES, ON_THE_CPU
from wingbeat.investigate.hypothesis import Cause, Watch, shown

if TYPE_CHECKING:
    from wingbeat.investigate.case import Case

RESET = (
    "gpu.*.persistence", "gpu.*.power.limit", "gpu.*.clock.application.*", "load.gpu.*.pcie.*", "aspm", "cpu.governor",
    "numa.balancing", "memory.huge_pages", "cache.*",
)  # fmt: skip


def _reset(case: Case) -> list[str]:
    """What a boot sets anew, and is another."""
    changed = [fact for pattern in RESET for fact in case.changed(pattern)] if case.changed("boot_id") else []
    return [f"A boot sets anew, and it is another: {'; '.join(shown(changed))}."] if changed else []


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
    note=_reset,
)

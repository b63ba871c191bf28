"""What the machine is: operating system, processor, memory, and which boot this is."""

from __future__ import annotations

import os
import platform
from pathlib import Path

from wingbeat.probe.reading import Reading, unknown

PROC = Path("/proc")


def operating_system() -> str:
    """Kernel name, release and architecture."""
    return f"{platform.system()} {platform.release()} {platform.machine()}"


def boot_id(proc: Path = PROC) -> str | Reading:
    """A number that changes with every boot (Linux)."""
    return _text(proc / "sys/kernel/random/boot_id")


def cpu_model(proc: Path = PROC) -> str | Reading:
    """The processor's name as /proc/cpuinfo gives it."""
    text = _text(proc / "cpuinfo")
    if isinstance(text, Reading):
        return text
    for line in text.splitlines():
        if line.lower().startswith("model name"):
            return line.partition(":")[2].strip()
    return unknown("/proc/cpuinfo names no model")


def memory_bytes(proc: Path = PROC) -> int | Reading:
    """Memory of the machine, in bytes."""
    text = _text(proc / "meminfo")
    if isinstance(text, Reading):
        return text
    for line in text.splitlines():
        if line.startswith("MemTotal:"):
            return 1024 * int(line.split()[1])
    return unknown("/proc/meminfo has no MemTotal")


def cores() -> int | Reading:
    """Logical processors of the machine."""
    return os.cpu_count() or unknown("the system does not say")


def usable_cores() -> int | Reading:
    """Logical processors that this process may run on."""
    if not hasattr(os, "sched_getaffinity"):
        return unknown("this system does not tell a process's affinity")
    return len(os.sched_getaffinity(0))


def load_average() -> float:
    """Runnable processes, mean of the last minute."""
    return round(os.getloadavg()[0], 2)


def _text(path: Path) -> str | Reading:
    if not path.exists():
        return unknown(f"{path} is not there")
    return path.read_text(encoding="utf-8", errors="replace").strip()

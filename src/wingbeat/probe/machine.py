"""What the machine is and how it is set: kernel, boot, processors, memory, pressure."""

from __future__ import annotations

import os
import re
from functools import partial

from wingbeat.probe.host import Host, NotReadError
from wingbeat.probe.reading import Probes, Reading, not_applicable, unknown

CPUS = "/sys/devices/system/cpu"
NO_CPUFREQ = "the kernel does not set frequencies here (no cpufreq), as in most virtual machines"
DMI = "/sys/class/dmi/id"


def probes(host: Host) -> Probes:
    """The fields of the machine itself."""
    return {
        **{name: partial(host.text, path) for name, path in FILES.items()},
        **{name: partial(_firmware, host, file) for name, file in FIRMWARE.items()},
        "os": partial(host.run, "uname", "-srm"),
        "uptime": lambda: float(host.text("/proc/uptime").split()[0]),
        "cpu.model": partial(cpu_model, host),
        "cpu.cores": lambda: len(re.findall(r"^processor\s*:", host.text("/proc/cpuinfo"), re.M)),
        "cpu.usable_cores": partial(usable_cores, host),
        "cpu.load_average": lambda: float(host.text("/proc/loadavg").split()[0]),
        "cpu.governor": partial(_over_cpus, host, "scaling_governor"),
        "cpu.driver": partial(_over_cpus, host, "scaling_driver"),
        "cpu.energy_preference": partial(_over_cpus, host, "energy_performance_preference"),
        "cpu.frequency": partial(frequency, host),
        "cpu.frequency.max": partial(_over_cpus, host, "scaling_max_freq"),
        "cpu.boost": partial(boost, host),
        "cpu.idle_states": partial(idle_states, host),
        "cpu.mitigations": partial(mitigations, host),
        "cpu.steal": partial(_stat, host, 7),
        "cpu.softirq": partial(_stat, host, 6),
        "memory.bytes": partial(memory_bytes, host),
        "memory.huge_pages": lambda: _chosen(host.text("/sys/kernel/mm/transparent_hugepage/enabled")),
        "memory.swapped_in": partial(_counter, host, "/proc/vmstat", "pswpin"),
        "numa.nodes": partial(numa_nodes, host),
        **{f"pressure.{what}": partial(pressure, host, what) for what in ("cpu", "memory", "io")},
    }


FILES = {
    "boot_id": "/proc/sys/kernel/random/boot_id",
    "kernel.version": "/proc/version",
    "kernel.command_line": "/proc/cmdline",
    "cpu.smt": f"{CPUS}/smt/active",
    "numa.balancing": "/proc/sys/kernel/numa_balancing",
}
FIRMWARE = {"board": "board_name", "bios.version": "bios_version", "bios.date": "bios_date"}


def cpu_model(host: Host) -> str:
    """The processor's name as /proc/cpuinfo gives it."""
    found = re.search(r"^model name\s*:\s*(.+)$", host.text("/proc/cpuinfo"), re.M | re.I)
    if not found:
        raise NotReadError("/proc/cpuinfo names no model")
    return found[1].strip()


def memory_bytes(host: Host) -> int:
    """Memory of the machine, in bytes."""
    found = re.search(r"^MemTotal:\s*(\d+)", host.text("/proc/meminfo"), re.M)
    if not found:
        raise NotReadError("/proc/meminfo has no MemTotal")
    return 1024 * int(found[1])


def usable_cores(host: Host) -> int:
    """Logical processors that the asking process may run on."""
    found = re.search(r"^Cpus_allowed:\s*([0-9a-f,]+)", host.text("/proc/self/status"), re.M)
    if not found:
        raise NotReadError("/proc/self/status tells no Cpus_allowed")
    return bin(int(found[1].replace(",", ""), 16)).count("1")


def frequency(host: Host) -> dict[str, float]:
    """Lowest, middle and highest frequency over the processors at this moment, in MHz."""
    files = host.paths(f"{CPUS}/cpu[0-9]*/cpufreq/scaling_cur_freq")
    found = [int(host.text(path)) / 1000 for path in files]
    found = found or [float(mhz) for mhz in re.findall(r"^cpu MHz\s*:\s*([\d.]+)", host.text("/proc/cpuinfo"), re.M)]
    if not found:
        raise NotReadError("neither cpufreq nor /proc/cpuinfo tells a frequency")
    found.sort()
    return {"low": found[0], "middle": found[len(found) // 2], "high": found[-1]}


def boost(host: Host) -> str | Reading:
    """Whether the processor may go beyond its base frequency."""
    if not host.paths(f"{CPUS}/cpu[0-9]*/cpufreq"):
        return unknown(NO_CPUFREQ)
    if host.exists(f"{CPUS}/intel_pstate/no_turbo"):
        return "off" if host.text(f"{CPUS}/intel_pstate/no_turbo") == "1" else "on"
    return "on" if host.text(f"{CPUS}/cpufreq/boost") == "1" else "off"


def idle_states(host: Host) -> dict[str, str]:
    """Whether each state in which the first processor can rest is allowed ("0") or disabled ("1")."""
    folders = host.paths(f"{CPUS}/cpu0/cpuidle/state[0-9]*")
    if not folders:
        raise NotReadError("the kernel tells no idle states here (no cpuidle), as in most virtual machines")
    return {host.text(f"{folder}/name"): host.text(f"{folder}/disable") for folder in folders}


def mitigations(host: Host) -> dict[str, str]:
    """What the kernel does against each processor fault that it knows."""
    files = host.paths(f"{CPUS}/vulnerabilities/*")
    if not files:
        raise NotReadError(f"{CPUS}/vulnerabilities is empty")
    return {os.path.basename(path): host.text(path) for path in files}


def numa_nodes(host: Host) -> dict[str, str]:
    """The processors of each memory node."""
    files = host.paths("/sys/devices/system/node/node[0-9]*/cpulist")
    if not files:
        raise NotReadError("/sys/devices/system/node tells no nodes")
    return {path.split("/")[-2]: host.text(path) for path in files}


def pressure(host: Host, what: str) -> float:
    """Share of the last 10 seconds in which some process waited for a processor, memory or a disk, in percent."""
    found = re.search(r"some avg10=([\d.]+)", host.text(f"/proc/pressure/{what}"))
    if not found:
        raise NotReadError(f"/proc/pressure/{what} has no avg10")
    return float(found[1])


def _firmware(host: Host, name: str) -> str | Reading:
    if not host.exists(DMI):
        return not_applicable("this machine's firmware has no tables (DMI)")
    return host.text(f"{DMI}/{name}")


def _over_cpus(host: Host, name: str) -> str | dict[str, int] | Reading:
    """A cpufreq setting: the one of all processors, or how many have which."""
    files = host.paths(f"{CPUS}/cpu[0-9]*/cpufreq/{name}")
    if not files:
        return unknown(NO_CPUFREQ)
    counts: dict[str, int] = {}
    for path in files:
        value = host.text(path)
        counts[value] = counts.get(value, 0) + 1
    return next(iter(counts)) if len(counts) == 1 else counts


def _stat(host: Host, column: int) -> int:
    """A column of the first line of /proc/stat: hundredths of a second since the boot, all processors together."""
    return int(host.text("/proc/stat").splitlines()[0].split()[1:][column])


def _counter(host: Host, path: str, name: str) -> int:
    found = re.search(rf"^{name}\s+(\d+)$", host.text(path), re.M)
    if not found:
        raise NotReadError(f"{path} has no {name}")
    return int(found[1])


def _chosen(text: str) -> str:
    """The word in brackets, as in "always [madvise] never"."""
    found = re.search(r"\[(\S+)\]", text)
    return found[1] if found else text

"""What bounds a process: its control groups' processor and memory limits, and the container or machine around it."""

from __future__ import annotations

import os
import re
from functools import partial

from wingbeat.probe.host import Host, NotReadError
from wingbeat.probe.reading import Probes, Reading, not_applicable

CGROUPS = "/sys/fs/cgroup"


def probes(host: Host, pid: int | str) -> Probes:
    """The fields of the control groups and the container of a process."""
    return {
        "cgroup.cpu.quota": partial(cpu_quota, host, pid),
        "cgroup.cpu.throttled": partial(throttled, host, pid),
        "cgroup.cpus": partial(_limit, host, pid, ("cpuset.cpus.effective", "cpuset.effective_cpus"), "cpuset"),
        "cgroup.memory.limit": partial(memory_limit, host, pid),
        "container": partial(container, host),
        "container.shared_memory": partial(shared_memory, host),
        "virtual_machine": partial(virtual_machine, host),
    }


def cpu_quota(host: Host, pid: int | str) -> float | Reading:
    """Processors' worth of time that the group may use; not applicable where it is unbounded."""
    if _unified(host, pid, "cpu.max"):
        quota, period = _limit(host, pid, ("cpu.max",), "cpu").split()
    else:
        quota = _limit(host, pid, ("cpu.cfs_quota_us",), "cpu")
        period = _limit(host, pid, ("cpu.cfs_period_us",), "cpu")
    if quota in ("max", "-1"):
        return not_applicable("no quota", f"{quota} {period}")
    return int(quota) / int(period)


def throttled(host: Host, pid: int | str) -> dict[str, int]:
    """How often, and for how many microseconds, the group was held back by its quota."""
    text = _limit(host, pid, ("cpu.stat",), "cpu")
    found = {name: int(value) for name, value in re.findall(r"^(\w+) (\d+)$", text, re.M)}
    if "nr_throttled" not in found:
        raise NotReadError("cpu.stat of the group has no nr_throttled")
    micros = found.get("throttled_usec", found.get("throttled_time", 0) // 1000)
    return {"times": found["nr_throttled"], "us": micros}


def memory_limit(host: Host, pid: int | str) -> int | Reading:
    """Bytes that the group may use."""
    text = _limit(host, pid, ("memory.max", "memory.limit_in_bytes"), "memory")
    if text == "max" or int(text) >= 2**62:
        return not_applicable("no limit", text)
    return int(text)


def container(host: Host) -> str:
    """The kind of container around the process, or "none"."""
    for path, name in (("/.dockerenv", "docker"), ("/run/.containerenv", "podman")):
        if host.exists(path):
            return name
    groups = host.maybe("/proc/1/cgroup")
    return next((name for name in ("kubepods", "docker", "lxc", "containerd") if name in groups), "none")


def shared_memory(host: Host) -> int:
    """Bytes of /dev/shm."""
    try:
        facts = os.statvfs(f"{host.root}/dev/shm")
    except OSError as error:
        raise NotReadError(f"/dev/shm: {error.strerror}") from None
    return facts.f_blocks * facts.f_frsize


def virtual_machine(host: Host) -> str:
    """What systemd-detect-virt says; where it is missing, whether the processor says that it is a guest."""
    try:
        return host.run("systemd-detect-virt", "--vm")
    except NotReadError as missing:
        if "none" in str(missing):
            return "none"
    vendor = host.maybe("/sys/class/dmi/id/sys_vendor")
    guest = re.search(r"^flags\s*:.*\bhypervisor\b", host.text("/proc/cpuinfo"), re.M)
    return (vendor or "unnamed") if guest else "none"


def _groups(host: Host, pid: int | str) -> dict[str, str]:
    """The group's path by controller; "" is the unified one."""
    lines = [line.split(":", 2) for line in host.text(f"/proc/{pid}/cgroup").splitlines()]
    return {name: path for _, names, path in lines for name in names.split(",")}


def _unified(host: Host, pid: int | str, name: str) -> bool:
    path = _groups(host, pid).get("", "/")
    return any(host.exists(f"{CGROUPS}{up}/{name}") for up in _upwards(path))


def _limit(host: Host, pid: int | str, names: tuple[str, ...], controller: str) -> str:
    """The file of the group or of the nearest group above it, under version 2, then under version 1."""
    groups = _groups(host, pid)
    places = [f"{CGROUPS}{up}" for up in _upwards(groups.get("", "/"))]
    places += [f"{CGROUPS}/{controller}{up}" for up in _upwards(groups.get(controller, "/"))]
    for place in places:
        for name in names:
            if host.exists(f"{place}/{name}"):
                return host.text(f"{place}/{name}")
    raise NotReadError(f"no {' or '.join(names)} in the control groups of process {pid}")


def _upwards(path: str) -> list[str]:
    """A path and all above it: /a/b, /a, and the top as ""."""
    parts = path.strip("/").split("/") if path.strip("/") else []
    return ["".join(f"/{part}" for part in parts[:count]) for count in range(len(parts), -1, -1)]

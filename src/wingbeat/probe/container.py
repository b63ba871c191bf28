"""What bounds a process: its control groups' processor and memory limits, and the container or machine around it."""

from __future__ import annotations

import os
import re
from functools import partial

from wingbeat.probe.host import Host, NotReadError
from wingbeat.probe.reading import Probes, Reading, not_applicable

CGROUPS = "/sys/fs/cgroup"
CPUSETS = ("cpuset.cpus.effective", "cpuset.effective_cpus")
KINDS = re.compile(r"kubepods|docker(?=[-/][0-9a-f]{12})|/lxc(?=[./])|containerd(?=[-/:])|libpod(?=[-/])")


def probes(host: Host, pid: int | str) -> Probes:
    """The fields of the control groups and the container of a process."""
    return {
        "cgroup.cpu.quota": partial(cpu_quota, host, pid),
        "cgroup.cpu.throttled": partial(throttled, host, pid),
        "cgroup.cpus": lambda: host.text(_files(host, pid, CPUSETS, "cpuset")[0]),
        "cgroup.memory.limit": partial(memory_limit, host, pid),
        "container": partial(container, host, pid),
        "container.shared_memory": partial(shared_memory, host),
        "virtual_machine": partial(virtual_machine, host),
    }


def cpu_quota(host: Host, pid: int | str) -> float | Reading:
    """Processors' worth of time that the group and those above it leave; not applicable where all are unbounded."""
    quotas = []
    for path in _files(host, pid, ("cpu.max", "cpu.cfs_quota_us"), "cpu"):
        quota, *period = host.text(path).split()
        if quota not in ("max", "-1"):
            quotas.append(int(quota) / int(period[0] if period else host.text(path.replace("quota", "period"))))
    return min(quotas) if quotas else not_applicable("no quota")


def throttled(host: Host, pid: int | str) -> dict[str, int]:
    """How often, and for how many microseconds, the group and those above it were held back by their quotas."""
    times = micros = None
    for path in _files(host, pid, ("cpu.stat",), "cpu"):
        found = {name: int(value) for name, value in re.findall(r"^(\w+) (\d+)$", host.text(path), re.M)}
        if "nr_throttled" in found:
            times = (times or 0) + found["nr_throttled"]
            micros = (micros or 0) + found.get("throttled_usec", found.get("throttled_time", 0) // 1000)
    if times is None or micros is None:
        raise NotReadError("cpu.stat of the group has no nr_throttled")
    return {"times": times, "us": micros}


def memory_limit(host: Host, pid: int | str) -> int | Reading:
    """Bytes that the group and those above it leave."""
    texts = [host.text(path) for path in _files(host, pid, ("memory.max", "memory.limit_in_bytes"), "memory")]
    limits = [int(text) for text in texts if text != "max" and int(text) < 2**62]
    return min(limits) if limits else not_applicable("no limit")


def container(host: Host, pid: int | str) -> str:
    """The kind of container around the process, or "none"."""
    marks = {"/.dockerenv": "docker", "/run/.containerenv": "podman", "/run/secrets/kubernetes.io": "kubepods"}
    for path, name in marks.items():
        if host.exists(path):
            return name
    named = re.search(KINDS, host.maybe(f"/proc/{pid}/cgroup"))
    if named:
        return named[0].strip("/")
    root = re.search(r"^\S+ \S+ \S+ \S+ / .* - (\S+)", host.text(f"/proc/{pid}/mountinfo"), re.M)
    return "unnamed, by its overlay root" if root and root[1] == "overlay" else "none"


def shared_memory(host: Host) -> int:
    """Bytes of /dev/shm."""
    try:
        facts = os.statvfs(host.place("/dev/shm"))
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


def _files(host: Host, pid: int | str, names: tuple[str, ...], controller: str) -> list[str]:
    """The file of the group and of each above it that has one, under version 2, else under version 1."""
    groups = _groups(host, pid)
    for top, path in ((CGROUPS, groups.get("", "/")), (f"{CGROUPS}/{controller}", groups.get(controller, "/"))):
        if ".." in path:
            raise NotReadError(f"the control group of process {pid} lies outside of those that are seen here")
        places = [f"{top}{up}/{name}" for up in _upwards(path) for name in names]
        found = [place for place in places if host.exists(place)]
        if found:
            return found
    raise NotReadError(f"no {' or '.join(names)} in the control groups of process {pid}")


def _upwards(path: str) -> list[str]:
    """A path and all above it: /a/b, /a, and the top as ""."""
    parts = path.strip("/").split("/") if path.strip("/") else []
    return ["".join(f"/{part}" for part in parts[:count]) for count in range(len(parts), -1, -1)]

"""The way from a processor to a device, and the kernel modules that drive it. Read from sysfs; nothing is written."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from functools import lru_cache, partial
from typing import Callable

from wingbeat.probe.host import Host, NotReadError
from wingbeat.probe.reading import Probes, Reading, Readings, guarded, not_applicable, sourced, unknown

DEVICES = "/sys/bus/pci/devices"
NVIDIA, AMD = "0x10de", "0x1002"
GENERATIONS = {2.5: 1, 5: 2, 8: 3, 16: 4, 32: 5, 64: 6}  # GT/s of a link
LSPCI = ("lspci", "-D", "-vvv")
IOMMU = ("/sys/kernel/iommu_groups", "/sys/class/iommu")
SAVING = ("l0s_aspm", "l1_aspm", "l1_1_aspm", "l1_2_aspm", "clkpm")


def probes(host: Host) -> Probes:
    """ASPM, IOMMU, bus errors of the kernel log, and the kernel modules of NVIDIA and AMD devices."""
    lspci = lru_cache(maxsize=None)(partial(host.run, *LSPCI, timeout=3.0))
    return {
        "aspm": lambda: _bracketed(host.text("/sys/module/pcie_aspm/parameters/policy")),
        "iommu": partial(iommu, host),
        "kernel.errors": partial(kernel_errors, host),
        "bus.acs": partial(redirecting, host, lspci),
        "bus.payload": partial(payloads, host, lspci),
        **_module(host, "nvidia"),
        **_module(host, "amdgpu"),
        "nvidia.module.build": partial(_of_loaded, host, "nvidia", "/proc/driver/nvidia/version"),
        "nvidia.module.parameters": partial(_of_loaded, host, "nvidia", "/proc/driver/nvidia/params"),
    }


def display_devices(host: Host, vendor: str) -> list[str]:
    """Addresses of a vendor's display controllers and accelerators on the bus, such as 0000:01:00.0."""
    found = []
    for folder in host.paths(f"{DEVICES}/*"):
        kind = host.maybe(f"{folder}/class")
        if host.maybe(f"{folder}/vendor") == vendor and kind[:4] in ("0x03", "0x12"):
            found.append(os.path.basename(folder))
    return found


def _gpus(host: Host) -> list[str]:
    return [*display_devices(host, NVIDIA), *display_devices(host, AMD)]


def device_fields(host: Host, bus: Reading) -> Readings:
    """The way over the bus and the memory node of one device. bus: its address, such as 00000000:01:00.0."""
    probes = {
        "pcie.path": path_to, "pcie.slowest": slowest, "pcie.errors": corrected, "pcie.aspm": saving,
        "pcie.generation.host": host_generation, "pcie.runtime_pm": suspending, "numa": node_of,
    }  # fmt: skip
    if bus.state != "value":
        return dict.fromkeys(probes, unknown(f"its place on the bus is not known: {bus.reason}"))
    address = re.sub(r"^0000(?=\w{4}:)", "", bus.value.lower())
    found = {name: guarded(partial(probe, host, address), host) for name, probe in probes.items()}
    return sourced(found, f"{DEVICES}/{address}")


def node_of(host: Host, address: str) -> int:
    """The memory node that a device is attached to; -1 where the machine has only one."""
    if not host.exists(f"{DEVICES}/{address}/numa_node"):
        raise NotReadError("sysfs tells no memory node of it")
    return int(host.text(f"{DEVICES}/{address}/numa_node"))


def path_to(host: Host, address: str) -> list[dict[str, str]]:
    """Every link from the device up to the root port: its address, and its speed and width at most."""
    names = ("max_link_speed", "max_link_width")
    told = {one: {name: host.maybe(f"{DEVICES}/{one}/{name}") for name in names} for one in _links(host, address)}
    return [{"device": one, **most} for one, most in told.items()]


def slowest(host: Host, address: str) -> float:
    """The least of speed x lanes over all links of the way, as they are now, in GT/s."""
    rates = []
    for one in _links(host, address):
        speed, width = (host.text(f"{DEVICES}/{one}/current_link_{what}") for what in ("speed", "width"))
        rates.append(_speed(speed) * int(width))
    return min(rates)


def corrected(host: Host, address: str) -> int:
    """Corrected errors of all devices of the way, since they were reset."""
    texts = [host.maybe(f"{DEVICES}/{one}/aer_dev_correctable") for one in _chain(host, address)]
    counts = [int(found[1]) for found in (re.search(r"TOTAL_ERR_COR (\d+)", text) for text in texts) if found]
    if not counts:
        raise NotReadError("no device of its way counts them (AER)")
    return sum(counts)


def host_generation(host: Host, address: str) -> int:
    """The generation that the bridge above the device can do."""
    above = _links(host, address)[1:2]
    if not above:
        raise NotReadError("sysfs tells no bridge above it, as in most virtual machines")
    return GENERATIONS[_speed(host.text(f"{DEVICES}/{above[0]}/max_link_speed"))]


def saving(host: Host, address: str) -> list[str]:
    """Which of the link's power-saving states (ASPM) are allowed."""
    files = {name: f"{DEVICES}/{address}/link/{name}" for name in SAVING}
    told = {name: host.text(path) for name, path in files.items() if host.exists(path)}
    if not told:
        raise NotReadError("the kernel tells no power saving of single links")
    return [name for name, text in told.items() if text == "1"]


def suspending(host: Host, address: str) -> str:
    """Whether the kernel may suspend the device while it is idle ("auto"), or not ("on")."""
    return host.text(f"{DEVICES}/{address}/power/control")


def _chain(host: Host, address: str) -> list[str]:
    """The device and all bridges above it, the root port last."""
    form = r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-9a-f]"
    return re.findall(form, host.real(f"{DEVICES}/{address}"))[::-1]


def _links(host: Host, address: str) -> list[str]:
    """Those of them that tell of a link."""
    found = [one for one in _chain(host, address) if host.maybe(f"{DEVICES}/{one}/current_link_speed")]
    if not found:
        raise NotReadError("sysfs tells no link of it, as in most virtual machines")
    return found


def _speed(text: str) -> float:
    found = re.match(r"[\d.]+", text)
    if not found:
        raise NotReadError(f"a link's speed is {text!r}")
    return float(found[0])


def iommu(host: Host) -> str:
    """How devices' memory accesses are translated: the kinds of the IOMMU groups."""
    if not any(map(host.exists, IOMMU)):
        raise NotReadError(f"neither {IOMMU[0]} nor {IOMMU[1]} is there")
    kinds = sorted({host.maybe(path) for path in host.paths(f"{IOMMU[0]}/*/type")} - {""})
    return ", ".join(kinds) or ("on" if host.paths(f"{IOMMU[1]}/*") else "off")


def kernel_errors(host: Host) -> Reading:
    """How many lines of the kernel log are about GPU faults (Xid), the bus (AER), machine checks or lack of memory."""
    log = host.run("dmesg", "--color=never", timeout=3.0)
    pattern = re.compile(r"NVRM: Xid|AER:|\bmce:.*error|Out of memory|amdgpu.*(?:ring .* timeout|GPU reset)", re.I)
    lines = [line for line in log.splitlines() if pattern.search(line)]
    return Reading("value", len(lines), raw="\n".join(lines[-40:]) or "none")


def redirecting(host: Host, lspci: Callable[[], str]) -> Reading:
    """Bridges that send what devices exchange up through the processor (ACS)."""
    found = _by_lspci(host, lspci, r"ACSCtl:.*ReqRedir([+-])")
    told = found.value or {}
    return replace(found, value=sorted(one for one, sign in told.items() if sign == "+")) if told else found


def payloads(host: Host, lspci: Callable[[], str]) -> Reading:
    """The largest packets, and requests for reading, of each GPU, in bytes."""
    found = _by_lspci(host, lspci, r"MaxPayload (\d+ bytes, MaxReadReq \d+) bytes")
    told, gpus = found.value or {}, _gpus(host)
    return replace(found, value={one: said for one, said in told.items() if one in gpus}) if told else found


def _by_lspci(host: Host, lspci: Callable[[], str], pattern: str) -> Reading:
    """What lspci says of each device in whose capabilities the pattern is found."""
    if not _gpus(host):
        return not_applicable("no GPU of NVIDIA or AMD on the bus")
    blocks = lspci().split("\n\n")
    found = {block.split(" ", 1)[0]: re.search(pattern, block) for block in blocks}
    if not any(found.values()):
        raise NotReadError("lspci shows no such capability; most are shown to root only")
    told = {address: match[1] for address, match in found.items() if match}
    return Reading("value", told, source=" ".join(LSPCI))


def _module(host: Host, name: str) -> Probes:
    return {
        f"{name}.module": partial(_of_loaded, host, name, f"/sys/module/{name}/version"),
        f"{name}.module.source": partial(_of_loaded, host, name, f"/sys/module/{name}/srcversion"),
        f"{name}.module.on_disk": partial(_on_disk, host, name),
        f"{name}.module.licence": partial(_on_disk, host, name, "license"),
        f"{name}.module.pending": partial(pending, host, name),
    }


def pending(host: Host, name: str) -> str | Reading:
    """Whether the next start of the machine would load another kernel module than the one that runs."""
    if not host.exists(f"/sys/module/{name}"):
        return not_applicable(f"the kernel module {name} is not loaded")
    known = []
    for field in ("version", "srcversion"):
        loaded, disk = host.maybe(f"/sys/module/{name}/{field}"), guarded(partial(_on_disk, host, name, field))
        known += [(loaded, disk.value)] if loaded and disk.value else []
    if not known:
        raise NotReadError("modinfo tells nothing of the module on disk, or sysfs nothing of the loaded one")
    other = [f"{loaded} runs, {disk} is on disk" for loaded, disk in known if loaded != disk]
    return f"{other[0]}: a reboot changes it" if other else "none"


def _of_loaded(host: Host, name: str, path: str) -> str | Reading:
    if not host.exists(f"/sys/module/{name}") and not host.exists(path):
        return not_applicable(f"the kernel module {name} is not loaded")
    return host.text(path)


def _on_disk(host: Host, name: str, field: str = "version") -> str | Reading:
    """What modinfo says: another version than the loaded one means an update without a reboot."""
    if not host.exists(f"/sys/module/{name}"):
        return not_applicable(f"the kernel module {name} is not loaded")
    return host.run("modinfo", "-F", field, name, timeout=3.0)


def _bracketed(text: str) -> str:
    found = re.search(r"\[(\S+)\]", text)
    return found[1] if found else text

"""The way from a processor to a device, and the kernel modules that drive it. Read from sysfs; nothing is written."""

from __future__ import annotations

import os
import re
from functools import partial

from wingbeat.probe.host import Host, NotReadError
from wingbeat.probe.reading import Probes, Reading, guarded, not_applicable

DEVICES = "/sys/bus/pci/devices"
NVIDIA, AMD = "0x10de", "0x1002"


def probes(host: Host) -> Probes:
    """ASPM, IOMMU, bus errors of the kernel log, and the kernel modules of NVIDIA and AMD devices."""
    return {
        "aspm": lambda: _bracketed(host.text("/sys/module/pcie_aspm/parameters/policy")),
        "iommu": partial(iommu, host),
        "kernel.errors": partial(kernel_errors, host),
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


def device_probes(host: Host, prefix: str, address: str) -> dict[str, Reading]:
    """The path over the bus and the memory node of one device; address such as 00000000:01:00.0."""
    address = re.sub(r"^0000(?=\w{4}:)", "", address.lower())
    return {
        f"{prefix}.pcie.path": guarded(partial(path_to, host, address), host),
        f"{prefix}.numa": guarded(partial(node_of, host, address), host),
    }


def node_of(host: Host, address: str) -> int:
    """The memory node that a device is attached to; -1 where the machine has only one."""
    if not host.exists(f"{DEVICES}/{address}/numa_node"):
        raise NotReadError("sysfs tells no memory node of it")
    return int(host.text(f"{DEVICES}/{address}/numa_node"))


def path_to(host: Host, address: str) -> list[dict[str, str]]:
    """Every link from the device up to the root port: address, speed and width now and at most, corrected errors."""
    chain = re.findall(r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-9a-f]", host.real(f"{DEVICES}/{address}"))
    links = []
    for device in reversed(chain):
        names = ("current_link_speed", "current_link_width", "max_link_speed", "max_link_width")
        link = {name: host.maybe(f"{DEVICES}/{device}/{name}") for name in names}
        errors = re.search(r"TOTAL_ERR_COR (\d+)", host.maybe(f"{DEVICES}/{device}/aer_dev_correctable"))
        if link["current_link_speed"]:
            links.append({"device": device, **link, **({"corrected_errors": errors[1]} if errors else {})})
    if not links:
        raise NotReadError("sysfs tells no link of it, as in most virtual machines")
    return links


def iommu(host: Host) -> str | Reading:
    """How devices' memory accesses are translated: the kinds of the IOMMU groups."""
    kinds = sorted({host.maybe(path) for path in host.paths("/sys/kernel/iommu_groups/*/type")} - {""})
    units = host.paths("/sys/class/iommu/*")
    return ", ".join(kinds) or ("on" if units else "off")


def kernel_errors(host: Host) -> list[str]:
    """Lines of the kernel log about GPU faults (Xid), bus errors (AER), machine checks and lack of memory."""
    log = host.run("dmesg", "--color=never", timeout=3.0)
    pattern = re.compile(r"NVRM: Xid|AER:|\bmce:.*error|Out of memory|amdgpu.*(?:ring .* timeout|GPU reset)", re.I)
    return [line for line in log.splitlines() if pattern.search(line)][-40:]


def _module(host: Host, name: str) -> Probes:
    return {
        f"{name}.module": partial(_of_loaded, host, name, f"/sys/module/{name}/version"),
        f"{name}.module.source": partial(_of_loaded, host, name, f"/sys/module/{name}/srcversion"),
        f"{name}.module.on_disk": partial(_on_disk, host, name),
        f"{name}.module.licence": partial(_on_disk, host, name, "license"),
    }


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

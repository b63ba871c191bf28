"""NVIDIA devices as `nvidia-smi -q -x` tells them: one document for every driver generation, where an element that a
driver does not know is absent instead of an error."""

from __future__ import annotations

import os
import re
import xml.etree.ElementTree as Xml
from functools import partial
from typing import Any, Callable, Collection

from wingbeat.probe import bus
from wingbeat.probe.host import Host, NotReadError
from wingbeat.probe.reading import Probes, Reading, Readings, guarded, not_applicable, sourced, unknown

QUERY = ("nvidia-smi", "-q", "-x")
BUSY = 50  # percent; below it, clocks and links are those of an idle device
UNDER_LOAD = ("clock.sm", "clock.memory", "pstate", "slowed", "pcie.generation", "pcie.width", "pcie.slowest")
LINK = ("pcie.generation", "pcie.width", "pcie.slowest")
GHOST_MEMORY = 1500  # MiB in use without a process that is shown


def number(text: str) -> int | float:
    """The number in a text such as "700.00 W"."""
    found = re.search(r"-?\d+(?:\.\d+)?", text)
    if not found:
        raise ValueError(f"no number in {text!r}")
    return float(found[0]) if "." in found[0] else int(found[0])


def _hex_free(text: str) -> str:
    return re.sub(r"^0{8}:", "0000:", text.lower())


# name: (where it is in the document of one GPU, newest driver first; how it is read)
FIELDS: dict[str, tuple[tuple[str, ...], Callable[[str], Any]]] = {
    "name": (("product_name",), str),
    "uuid": (("uuid",), str),
    "bus": (("pci/pci_bus_id",), _hex_free),
    "vbios": (("vbios_version",), str),
    "gsp": (("gsp_firmware_version",), str),
    "memory.total": (("fb_memory_usage/total",), number),
    "memory.used": (("fb_memory_usage/used",), number),
    "utilization": (("utilization/gpu_util",), number),
    "pstate": (("performance_state",), str),
    "persistence": (("persistence_mode",), str),
    "compute_mode": (("compute_mode",), str),
    "mig": (("mig_mode/current_mig",), str),
    "ecc": (("ecc_mode/current_ecc",), str),
    "virtualization": (("gpu_virtualization_mode/virtualization_mode",), str),
    "rows.remapped": (("remapped_rows/remapped_row_unc",), number),
    "rows.pending": (("remapped_rows/remapped_row_pending",), str),
    "recovery_action": (("gpu_recovery_action",), str),
    "fabric": (("fabric/state",), str),
    "clock.sm": (("clocks/sm_clock",), number),
    "clock.memory": (("clocks/mem_clock",), number),
    "clock.sm.max": (("max_clocks/sm_clock",), number),
    "clock.memory.max": (("max_clocks/mem_clock",), number),
    "clock.application.graphics": (("applications_clocks/graphics_clock",), number),
    "clock.application.memory": (("applications_clocks/mem_clock",), number),
    "power.draw": (
        (
            "gpu_power_readings/instant_power_draw", "gpu_power_readings/power_draw", "power_readings/power_draw",
            "gpu_power_readings/average_power_draw",
        ),
        number,
    ),
    "power.limit": (
        (
            "gpu_power_readings/current_power_limit", "power_readings/enforced_power_limit",
            "power_readings/power_limit",
        ),
        number,
    ),
    "power.limit.default": (
        ("gpu_power_readings/default_power_limit", "power_readings/default_power_limit"), number,
    ),
    "power.limit.max": (("gpu_power_readings/max_power_limit", "power_readings/max_power_limit"), number),
    "temperature": (("temperature/gpu_temp",), number),
    "temperature.memory": (("temperature/memory_temp",), number),
    "fan": (("fan_speed",), number),
    "pcie.generation": (
        ("pci/pci_gpu_link_info/pcie_gen/device_current_link_gen", "pci/pci_gpu_link_info/pcie_gen/current_link_gen"),
        number,
    ),
    "pcie.generation.max": (("pci/pci_gpu_link_info/pcie_gen/max_link_gen",), number),
    "pcie.generation.device": (("pci/pci_gpu_link_info/pcie_gen/max_device_link_gen",), number),
    "pcie.generation.host": (("pci/pci_gpu_link_info/pcie_gen/max_host_link_gen",), number),
    "pcie.width": (("pci/pci_gpu_link_info/link_widths/current_link_width",), number),
    "pcie.width.max": (("pci/pci_gpu_link_info/link_widths/max_link_width",), number),
    "pcie.replays": (("pci/replay_counter",), number),
    **{
        f"slowed.{name}": ((f"clocks_event_reasons_counters/clocks_event_reasons_counters_{tag}",), number)
        for name, tag in (
            ("power_cap", "sw_power_cap"), ("sync_boost", "sync_boost"), ("thermal", "sw_therm_slowdown"),
            ("hardware_thermal", "hw_therm_slowdown"), ("power_brake", "hw_power_brake"),
        )
    },
}
DERIVED = ("ecc.uncorrected", "ecc.corrected", "slowed", "mig.devices", "processes", "vgpu.licence")
NAMES = (*FIELDS, *DERIVED)  # what every reader of a device tells, or says that it does not
LICENCE = ("vgpu_software_licensed_product/license_status", "grid_licensed_product/license_status")
ABSENT = re.compile(r"^\[?(N/A|Not Supported|Not Available|None found)\]?$", re.I)
FAILED = re.compile(
    r"Unknown Error|^ERR!|Insufficient Permissions|GPU requires reset|GPU is lost|deprecated|Not Found|^Unknown$"
    r"|^\[.*\]$",
    re.I,
)


def devices(host: Host, own: Collection[int]) -> Readings:
    """The fields of every NVIDIA device. own: process ids that are not "others"."""
    try:
        document = host.run(*QUERY)
    except NotReadError as missing:
        if host.exists("/proc/driver/nvidia") or bus.display_devices(host, bus.NVIDIA):
            return {name: unknown(str(missing), host.heard()[1]) for name in ("nvidia.driver", "gpu.count")}
        return {"nvidia.driver": not_applicable(f"no NVIDIA device here ({missing})")}
    return read(host, document, own)


def read(host: Host, document: str, own: Collection[int]) -> Readings:
    """The fields of a document of `nvidia-smi -q -x`."""
    try:
        root = Xml.fromstring(document)
    except Xml.ParseError as error:
        broken = unknown(f"{' '.join(QUERY)} printed no XML ({error})", document[:600])
        return {"nvidia.driver": broken, "gpu.count": broken}
    gpus = root.findall("gpu")
    found: Readings = {
        "nvidia.driver": element(root, ("driver_version",), str),
        "nvidia.cuda": element(root, ("cuda_version",), str),
        "gpu.count": Reading("value", len(gpus)),
    }
    for index, gpu in enumerate(gpus):
        fields = complete(host, _device(gpu), own)
        found.update({f"gpu.{index}.{name}": reading for name, reading in fields.items()})
    return sourced(found, " ".join(QUERY))


def _device(gpu: Xml.Element) -> Readings:
    licence = element(gpu, LICENCE, lambda text: text.split("(Expiry")[0].strip())
    return {
        **{name: element(gpu, paths, parse) for name, (paths, parse) in FIELDS.items()},
        "ecc.uncorrected": _errors(gpu, "uncorrectable", "double_bit"),
        "ecc.corrected": _errors(gpu, "correctable", "single_bit"),
        "slowed": _events(gpu),
        "mig.devices": Reading("value", len(gpu.findall("mig_devices/mig_device"))),
        "processes": Reading("value", _processes(gpu)),
        "vgpu.licence": licence if any(map(gpu.findtext, LICENCE)) else not_applicable("it is no virtual GPU"),
    }


def element(parent: Xml.Element, paths: tuple[str, ...], parse: Callable[[str], Any]) -> Reading:
    """One element of the document: the first of the paths that has a value, with the state that its text stands for."""
    texts = [text.strip() for text in (_text(parent, path) for path in paths) if text is not None]
    if not texts:
        return unknown(f"this driver's nvidia-smi does not tell {paths[0].split('/')[-1]}")
    text = next((text for text in texts if not _without_value(text)), texts[0])
    reading = _without_value(text) or guarded(partial(parse, text))
    return Reading(reading.state, reading.value, reading.reason, raw="" if reading.value == text else text)


def _text(parent: Xml.Element, path: str) -> str | None:
    """The text at a path, or of the block around it where that is all there is, as in <remapped_rows>N/A<...>."""
    around = path.rpartition("/")[0]
    text = parent.findtext(path)
    return text if text is not None or not around else (parent.findtext(around) or "").strip() or None


def _without_value(text: str) -> Reading | None:
    """The state of a text that is no value."""
    if ABSENT.search(text):
        return not_applicable("the device does not have it", text)
    if FAILED.search(text) or not text:
        return unknown(f"nvidia-smi says {text!r}", text)
    return None


def complete(host: Host, fields: Readings, own: Collection[int]) -> Readings:
    """A device's fields however it was read, with what sysfs tells of its way to the processor. Idle links and clocks
    say nothing; an integrated device has no link."""
    by_sysfs = bus.device_fields(host, fields["bus"])
    unread = dict.fromkeys(NAMES, unknown("this reader does not ask for it"))
    known = {name: reading for name, reading in fields.items() if reading.state == "value" or name not in by_sysfs}
    found = {**unread, **by_sysfs, **known}
    if _says(found, "pcie.generation.max", 1) and (found["pcie.generation.device"].value or 1) > 1:
        found.update(dict.fromkeys(LINK, not_applicable("integrated with the processor: the link it shows is none")))
    load = found["utilization"]
    if not works(load):
        seen = f"{load.value} % busy" if load.state == "value" else "how busy it is, is not known"
        for name in UNDER_LOAD:
            if found[name].state == "value":
                shown = str(found[name].value)
                idle = f"read while idle ({seen}): {shown}; --under-load tells"
                found[name] = unknown(idle, found[name].raw or shown)
    return {**found, "others": _others(found, own)}


def works(utilization: Reading) -> bool:
    """Whether a device is busy enough for its clocks and links to mean something."""
    busy = utilization.value
    return utilization.state == "value" and isinstance(busy, (int, float)) and busy >= BUSY


def _says(fields: Readings, name: str, value: Any) -> bool:
    return fields[name].state == "value" and fields[name].value == value


def _others(fields: Readings, own: Collection[int]) -> Reading:
    """How many processes beside one's own compute on the device."""
    processes, used = fields["processes"], fields["memory.used"]
    if processes.state != "value":
        return processes
    computing = [entry for entry in processes.value if "C" in entry["type"]]
    if not computing and used.state == "value" and used.value > GHOST_MEMORY:
        return unknown(f"{used.value} MiB are in use, but no process is shown: another container, or no permission")
    return Reading("value", sum(entry["pid"] not in own for entry in computing))


def _events(gpu: Xml.Element) -> Reading:
    """What holds the clocks back at this moment, idleness and chosen clocks left out."""
    blocks = [*gpu.findall("clocks_event_reasons"), *gpu.findall("clocks_throttle_reasons")]
    if not blocks:
        return unknown("this driver's nvidia-smi does not tell what holds the clocks back")
    said = {re.sub(r"^clocks_\w+?_reason_", "", one.tag): (one.text or "").strip() for one in blocks[0]}
    if all(map(_without_value, said.values())):
        return _without_value(next(iter(said.values()), (blocks[0].text or "").strip())) or unknown("not told")
    names = [name for name, text in said.items() if text == "Active"]
    quiet = ("gpu_idle", "applications_clocks_setting", "display_clocks_setting", "display_clock_setting")
    return Reading("value", [name for name in names if name not in quiet], raw=", ".join(names))


def _errors(gpu: Xml.Element, kind: str, old: str) -> Reading:
    """Memory errors since the driver was loaded, of chips and caches together, as NVML counts them."""
    block = gpu.find("ecc_errors/volatile")
    tags = [one.tag for one in block if re.match(f"[ds]ram_{kind}", one.tag)] if block is not None else []
    parts = [element(gpu, (f"ecc_errors/volatile/{tag}",), number) for tag in tags or [f"{old}/total"]]
    counts = [part.value for part in parts if part.state == "value"]
    unread = [part for part in parts if part.state in ("unknown", "error")]
    if unread or not counts:
        return [*unread, *parts][0]
    return Reading("value", sum(counts), raw=", ".join(part.raw for part in parts))


def _processes(gpu: Xml.Element) -> list[dict[str, Any]]:
    found = []
    for entry in gpu.findall("processes/process_info"):
        text = {name: (entry.findtext(name) or "").strip() for name in ("pid", "process_name", "type", "used_memory")}
        name = os.path.basename(text["process_name"].split(" ")[0]) or "?"
        if text["pid"].isdigit():
            used = text["used_memory"]
            found.append({"pid": int(text["pid"]), "name": name, "type": text["type"] or "C", "memory": used})
    return found


def topology(host: Host) -> Probes:
    """How the devices reach one another."""
    if not host.exists("/proc/driver/nvidia"):
        return {}
    commands = {"gpu.topology": ("topo", "-m"), "gpu.p2p": ("topo", "-p2p", "r"), "gpu.nvlink": ("nvlink", "--status")}
    return {name: partial(_plain, host, arguments) for name, arguments in commands.items()}


def _plain(host: Host, arguments: tuple[str, ...]) -> list[str]:
    """The table without its colours and its legend."""
    text = re.sub(r"\x1b\[[\d;]*m", "", host.run("nvidia-smi", *arguments))
    table = text.split("Legend:")[0]
    return [" ".join(line.split()) for line in table.splitlines() if line.strip()]

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
from wingbeat.probe.reading import Probes, Reading, Readings, guarded, not_applicable, unknown

QUERY = ("nvidia-smi", "-q", "-x")
BUSY = 50  # percent; below it, clocks and links are those of an idle device
UNDER_LOAD = ("clock.sm", "clock.memory", "pstate", "pcie.generation", "pcie.width")
GHOST_MEMORY = 1500  # MiB in use without a process that is shown


def _number(text: str) -> int | float:
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
    "memory.total": (("fb_memory_usage/total",), _number),
    "memory.used": (("fb_memory_usage/used",), _number),
    "utilization": (("utilization/gpu_util",), _number),
    "pstate": (("performance_state",), str),
    "persistence": (("persistence_mode",), str),
    "compute_mode": (("compute_mode",), str),
    "mig": (("mig_mode/current_mig",), str),
    "ecc": (("ecc_mode/current_ecc",), str),
    "ecc.uncorrected": (
        ("ecc_errors/volatile/dram_uncorrectable", "ecc_errors/volatile/double_bit/total"), _number,
    ),
    "ecc.corrected": (("ecc_errors/volatile/dram_correctable", "ecc_errors/volatile/single_bit/total"), _number),
    "rows.remapped": (("remapped_rows/remapped_row_unc",), _number),
    "rows.pending": (("remapped_rows/remapped_row_pending",), str),
    "recovery_action": (("gpu_recovery_action",), str),
    "fabric": (("fabric/state",), str),
    "clock.sm": (("clocks/sm_clock",), _number),
    "clock.memory": (("clocks/mem_clock",), _number),
    "clock.sm.max": (("max_clocks/sm_clock",), _number),
    "clock.memory.max": (("max_clocks/mem_clock",), _number),
    "clock.application.graphics": (("applications_clocks/graphics_clock",), _number),
    "clock.application.memory": (("applications_clocks/mem_clock",), _number),
    "power.draw": (
        (
            "gpu_power_readings/instant_power_draw", "gpu_power_readings/power_draw", "power_readings/power_draw",
            "gpu_power_readings/average_power_draw",
        ),
        _number,
    ),
    "power.limit": (
        (
            "gpu_power_readings/current_power_limit", "power_readings/enforced_power_limit",
            "power_readings/power_limit",
        ),
        _number,
    ),
    "power.limit.default": (
        ("gpu_power_readings/default_power_limit", "power_readings/default_power_limit"), _number,
    ),
    "power.limit.max": (("gpu_power_readings/max_power_limit", "power_readings/max_power_limit"), _number),
    "temperature": (("temperature/gpu_temp",), _number),
    "temperature.memory": (("temperature/memory_temp",), _number),
    "fan": (("fan_speed",), _number),
    "pcie.generation": (
        ("pci/pci_gpu_link_info/pcie_gen/device_current_link_gen", "pci/pci_gpu_link_info/pcie_gen/current_link_gen"),
        _number,
    ),
    "pcie.generation.max": (("pci/pci_gpu_link_info/pcie_gen/max_link_gen",), _number),
    "pcie.generation.device": (("pci/pci_gpu_link_info/pcie_gen/max_device_link_gen",), _number),
    "pcie.generation.host": (("pci/pci_gpu_link_info/pcie_gen/max_host_link_gen",), _number),
    "pcie.width": (("pci/pci_gpu_link_info/link_widths/current_link_width",), _number),
    "pcie.width.max": (("pci/pci_gpu_link_info/link_widths/max_link_width",), _number),
    "pcie.replays": (("pci/replay_counter",), _number),
    **{
        f"slowed.{name}": ((f"clocks_event_reasons_counters/clocks_event_reasons_counters_{tag}",), _number)
        for name, tag in (
            ("power_cap", "sw_power_cap"), ("sync_boost", "sync_boost"), ("thermal", "sw_therm_slowdown"),
            ("hardware_thermal", "hw_therm_slowdown"), ("power_brake", "hw_power_brake"),
        )
    },
}
ABSENT = re.compile(r"\[?(N/A|Not Supported|Not Available|None found)\]?$", re.I)
FAILED = re.compile(r"Unknown Error|^\[?ERR!|Insufficient Permissions|GPU requires reset|GPU is lost|deprecated", re.I)


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
        fields = {name: element(gpu, paths, parse) for name, (paths, parse) in FIELDS.items()}
        fields["slowed"] = _events(gpu)
        fields["mig.devices"] = Reading("value", len(gpu.findall("mig_devices/mig_device")))
        fields["processes"] = Reading("value", _processes(gpu))
        finish(fields, own)
        found.update({f"gpu.{index}.{name}": reading for name, reading in fields.items()})
    named = " ".join(QUERY)
    found = {name: Reading(r.state, r.value, r.reason, r.source or named, r.raw) for name, r in found.items()}
    for index in range(len(gpus)):
        address = found[f"gpu.{index}.bus"]
        if address.state == "value":
            found.update(bus.device_probes(host, f"gpu.{index}", address.value))
    return found


def element(parent: Xml.Element, paths: tuple[str, ...], parse: Callable[[str], Any]) -> Reading:
    """One element of the document: the first of the paths that has a value, with the state that its text stands for."""
    texts = [text for text in (parent.findtext(path) for path in paths) if text is not None]
    if not texts:
        return unknown(f"this driver's nvidia-smi does not tell {paths[0].split('/')[-1]}")
    text = next((text for text in texts if not (ABSENT.search(text) or FAILED.search(text))), texts[0]).strip()
    if ABSENT.search(text):
        return not_applicable("the device does not have it", text)
    if FAILED.search(text) or not text:
        return unknown(f"nvidia-smi says {text!r}", text)
    reading = guarded(partial(parse, text))
    return Reading(reading.state, reading.value, reading.reason, raw="" if reading.value == text else text)


def finish(fields: Readings, own: Collection[int]) -> None:
    """What holds however a device was read: idle links and clocks say nothing; an integrated device has no link."""
    load = fields["utilization"]
    if load.state != "value" or load.value < BUSY:
        seen = f"{load.value} % busy" if load.state == "value" else "how busy it is, is not known"
        for name in UNDER_LOAD:
            if fields[name].state == "value":
                shown = str(fields[name].value)
                idle = f"read while idle ({seen}): {shown}; --under-load tells"
                fields[name] = unknown(idle, fields[name].raw or shown)
    if _says(fields, "pcie.generation.max", 1) and (fields["pcie.generation.device"].value or 1) > 1:
        integrated = not_applicable("integrated with the processor: the link it shows is none")
        fields.update(dict.fromkeys(("pcie.generation", "pcie.width"), integrated))
    fields["others"] = _others(fields, own)


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
    for block in ("clocks_event_reasons", "clocks_throttle_reasons"):
        parent = gpu.find(block)
        if parent is not None:
            names = [re.sub(r"^clocks_\w+?_reason_", "", entry.tag) for entry in parent if entry.text == "Active"]
            raw = ", ".join(names)
            quiet = ("gpu_idle", "applications_clocks_setting", "display_clocks_setting")
            return Reading("value", [name for name in names if name not in quiet], raw=raw)
    return unknown("this driver's nvidia-smi does not tell what holds the clocks back")


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
    commands = {"gpu.topology": ("topo", "-m"), "gpu.p2p": ("topo", "-p2p", "r")}
    return {name: partial(_plain, host, arguments) for name, arguments in commands.items()}


def _plain(host: Host, arguments: tuple[str, ...]) -> list[str]:
    """The table without its colours and its legend."""
    text = re.sub(r"\x1b\[[\d;]*m", "", host.run("nvidia-smi", *arguments))
    table = text.split("Legend:")[0]
    return [" ".join(line.split()) for line in table.splitlines() if line.strip()]

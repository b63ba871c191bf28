"""AMD devices as `amd-smi` tells them in JSON, under the names of `nvidia` where they mean the same."""

from __future__ import annotations

import json
from functools import partial
from typing import Any, Callable, Collection

from wingbeat.probe import bus, nvidia
from wingbeat.probe.host import Host, NotReadError
from wingbeat.probe.reading import Probes, Reading, Readings, guarded, not_applicable, sourced, unknown

STATIC, METRIC, PROCESS = (("amd-smi", part, "--json") for part in ("static", "metric", "process"))
TOPOLOGY = ("amd-smi", "topology", "--json")
OF_NVIDIA = {
    "gsp", "persistence", "compute_mode", "mig.devices", "fabric", "clock.application.graphics", "vgpu.licence",
    "clock.application.memory", "slowed.sync_boost", "slowed.power_brake",
}  # fmt: skip


def _plain(value: Any) -> Any:
    return value


def _number(value: Any) -> Any:
    """A number, also where the tool prints it with its unit."""
    return nvidia.number(value) if isinstance(value, str) else value


def _generation(speed: Any) -> int:
    return bus.GENERATIONS[_number(speed)]


# name: (where in `static` or `metric`, newest tool first; how it is read)
FIELDS: dict[str, tuple[tuple[str, ...], Callable[[Any], Any]]] = {
    "name": (("static/asic/market_name",), _plain),
    "uuid": (("static/asic/asic_serial",), _plain),
    "bus": (("static/bus/bdf",), str.lower),
    "vbios": (("static/ifwi/version", "static/vbios/version", "static/vbios/name"), _plain),
    "memory.total": (("metric/mem_usage/total_vram", "static/vram/size"), _number),
    "memory.used": (("metric/mem_usage/used_vram",), _number),
    "utilization": (("metric/usage/gfx_activity",), _number),
    "pstate": (("metric/perf_level",), _plain),
    "mig": (("static/partition/compute_partition", "static/partition/accelerator_partition"), _plain),
    "ecc.uncorrected": (("metric/ecc/total_uncorrectable_count",), _number),
    "ecc.corrected": (("metric/ecc/total_correctable_count",), _number),
    "clock.sm": (("metric/clock/gfx_0/clk",), _number),
    "clock.sm.max": (("metric/clock/gfx_0/max_clk",), _number),
    "clock.memory": (("metric/clock/mem_0/clk",), _number),
    "clock.memory.max": (("metric/clock/mem_0/max_clk",), _number),
    "power.draw": (("metric/power/socket_power",), _number),
    "power.limit": (("static/limit/socket_power", "static/limit/ppt0/socket_power_limit"), _number),
    "power.limit.max": (("static/limit/max_power", "static/limit/ppt0/max_power_limit"), _number),
    "temperature": (("metric/temperature/hotspot", "metric/temperature/edge"), _number),
    "temperature.memory": (("metric/temperature/mem",), _number),
    "fan": (("metric/fan/usage",), _number),
    "slowed": (("metric/power/throttle_status",), lambda text: [] if text == "UNTHROTTLED" else [text]),
    "slowed.power_cap": (("metric/throttle/ppt_accumulated",), _number),
    "slowed.thermal": (("metric/throttle/socket_thermal_accumulated",), _number),
    "slowed.checks": (("metric/throttle/accumulation_counter",), _number),
    "slowed.hardware_thermal": (("metric/throttle/prochot_accumulated",), _number),
    "pcie.generation": (("metric/pcie/speed",), _generation),
    "pcie.generation.max": (("static/bus/max_pcie_speed",), _generation),
    "pcie.width": (("metric/pcie/width",), _number),
    "pcie.width.max": (("static/bus/max_pcie_width",), _number),
    "pcie.replays": (("metric/pcie/replay_count",), _number),
}


def devices(host: Host, own: Collection[int]) -> Probes:
    """The fields of every AMD device; nothing where there is none. own: process ids that are not "others"."""
    if not bus.display_devices(host, bus.AMD) and not host.exists("/sys/class/kfd"):
        return {"amd.driver": not_applicable("no AMD device here")}
    try:
        static, metric = (_entries(host.run(*command)) for command in (STATIC, METRIC))
    except (NotReadError, ValueError) as missing:
        return {name: unknown(str(missing)) for name in ("amd.driver", "gpu.count")}
    found: Readings = {"amd.driver": field({"static": static[0]} if static else {}, ("static/driver/version",), _plain)}
    found["gpu.count"] = Reading("value", len(static))
    processes = guarded(partial(_processes, host), host)
    for index, fixed in enumerate(static):
        now = metric[index] if index < len(metric) else {}
        fields = _device({"static": fixed, "metric": now})
        fields["processes"] = processes
        if processes.state == "value":
            fields["processes"] = Reading("value", processes.value.get(index, []))
        complete = nvidia.complete(host, fields, own)
        found.update({f"gpu.{index}.{name}": reading for name, reading in complete.items()})
    named = "; ".join(" ".join(command) for command in (STATIC, METRIC))
    return {**sourced(found, named), "gpu.topology": partial(topology, host)}


def topology(host: Host) -> list[str]:
    """How each device reaches the others: the kind of the link, and over how many."""
    lines = []
    for device in _entries(host.run(*TOPOLOGY)):
        links = sorted(device["links"], key=lambda link: int(link["gpu"]))
        reached = [f"{link.get('link_type', '?')} {link.get('num_hops', '')}".strip() for link in links]
        lines.append(f"GPU{device['gpu']} {', '.join(reached)}")
    return lines


def _device(device: dict[str, Any]) -> Readings:
    return {
        **dict.fromkeys(OF_NVIDIA, not_applicable("only devices of NVIDIA have it")),
        **{name: field(device, paths, parse) for name, (paths, parse) in FIELDS.items()},
    }


def field(device: dict[str, Any], paths: tuple[str, ...], parse: Callable[[Any], Any]) -> Reading:
    """One field: the first of the paths that has a value, without its unit."""
    found = [value for value in (_at(device, path) for path in paths) if value is not None]
    if not found:
        return unknown(f"this amd-smi does not tell {paths[0].split('/', 1)[1]}")
    present = [value for value in found if value not in ("N/A", "")]
    if not present:
        return not_applicable("the device does not have it", "N/A")
    reading = guarded(lambda: parse(present[0]))
    return Reading(reading.state, reading.value, reading.reason, raw=str(present[0]))


def _at(device: dict[str, Any], path: str) -> Any:
    value: Any = device
    for part in path.split("/"):
        if not isinstance(value, dict) or part not in value:
            return None
        value = value[part]
    return value["value"] if isinstance(value, dict) and "value" in value else value


def _entries(text: str) -> list[Any]:
    """The list of devices: some versions wrap it, some print words before it."""
    starts = [at for at in (text.find("["), text.find("{")) if at >= 0]
    if not starts:
        raise ValueError(f"amd-smi printed no JSON: {text[:200]}")
    document = json.loads(text[min(starts) :])
    return document.get("gpu_data", [document]) if isinstance(document, dict) else document


def _processes(host: Host) -> dict[int, list[dict[str, Any]]]:
    found: dict[int, list[dict[str, Any]]] = {}
    for index, device in enumerate(_entries(host.run(*PROCESS))):
        entries = [entry.get("process_info") for entry in device.get("process_list", [])]
        found[index] = [
            {"pid": int(info["pid"]), "name": str(info["name"]), "type": "C", "memory": str(info.get("mem", ""))}
            for info in entries
            if isinstance(info, dict)
        ]
    return found

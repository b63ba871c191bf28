"""NVIDIA devices through the driver's own library (NVML, package nvidia-ml-py), under the names of `nvidia`.

Cheaper than nvidia-smi and the same over driver versions; used where the package is installed.
"""

from __future__ import annotations

from typing import Any, Callable, Collection

from wingbeat.probe import bus, nvidia
from wingbeat.probe.host import Host
from wingbeat.probe.reading import Reading, Readings, not_applicable, unknown

MIB = 1 << 20
REASONS = {
    0x4: "sw_power_cap", 0x8: "hw_slowdown", 0x10: "sync_boost", 0x20: "sw_thermal_slowdown",
    0x40: "hw_thermal_slowdown", 0x80: "hw_power_brake_slowdown",
}
COUNTERS = {"power_cap": 74, "sync_boost": 76, "thermal": 269, "hardware_thermal": 270, "power_brake": 271}


def library() -> Any | None:
    """The pynvml module with the driver's library open, or None where either is missing."""
    try:
        import pynvml

        pynvml.nvmlInit()
        pynvml.nvmlDeviceGetCount()
    except Exception:  # not installed, no driver, no permission: nvidia-smi then says why
        return None
    return pynvml


def devices(host: Host, nvml: Any, own: Collection[int]) -> Readings:
    """The fields of every NVIDIA device. nvml: the opened library; own: process ids that are not "others"."""
    count = nvml.nvmlDeviceGetCount()
    found: Readings = {
        "nvidia.driver": ask(nvml, lambda: _text(nvml.nvmlSystemGetDriverVersion())),
        "nvidia.cuda": ask(nvml, lambda: _cuda(nvml.nvmlSystemGetCudaDriverVersion_v2())),
        "gpu.count": Reading("value", count),
    }
    for index in range(count):
        fields = device(nvml, nvml.nvmlDeviceGetHandleByIndex(index))
        nvidia.finish(fields, own)
        found.update({f"gpu.{index}.{name}": reading for name, reading in fields.items()})
    found = {name: Reading(r.state, r.value, r.reason, "NVML", r.raw) for name, r in found.items()}
    for index in range(count):
        address = found[f"gpu.{index}.bus"]
        if address.state == "value":
            found.update(bus.device_probes(host, f"gpu.{index}", address.value))
    return found


def device(nvml: Any, handle: Any) -> Readings:
    """The fields of one device."""
    calls = {**_identity(nvml, handle), **_state(nvml, handle), **_link(nvml, handle)}
    return {**{name: ask(nvml, call) for name, call in calls.items()}, **counters(nvml, handle)}


def ask(nvml: Any, call: Callable[[], Any]) -> Reading:
    """What a call of the library returns; its three ways of saying no are three states."""
    try:
        return Reading("value", call())
    except nvml.NVMLError as error:
        code = getattr(error, "value", None)
        if code == nvml.NVML_ERROR_NOT_SUPPORTED:
            return not_applicable("the device does not have it", str(error))
        if code == nvml.NVML_ERROR_FUNCTION_NOT_FOUND:
            return unknown("the driver is too old to tell", str(error))
        return unknown(f"NVML says: {error}", str(error))
    except AttributeError as error:
        return unknown(f"this nvidia-ml-py is too old to tell ({error})")


def _identity(nvml: Any, handle: Any) -> dict[str, Callable[[], Any]]:
    return {
        "name": lambda: _text(nvml.nvmlDeviceGetName(handle)),
        "uuid": lambda: _text(nvml.nvmlDeviceGetUUID(handle)),
        "bus": lambda: nvidia.FIELDS["bus"][1](_text(nvml.nvmlDeviceGetPciInfo(handle).busId)),
        "vbios": lambda: _text(nvml.nvmlDeviceGetVbiosVersion(handle)),
        "gsp": lambda: _text(nvml.nvmlDeviceGetGspFirmwareVersion(handle)),
        "memory.total": lambda: nvml.nvmlDeviceGetMemoryInfo(handle).total // MIB,
        "mig": lambda: _on(nvml.nvmlDeviceGetMigMode(handle)[0]),
        "mig.devices": lambda: nvml.nvmlDeviceGetMaxMigDeviceCount(handle) if _mig(nvml, handle) else 0,
        "ecc": lambda: _on(nvml.nvmlDeviceGetEccMode(handle)[0]),
        "clock.sm.max": lambda: nvml.nvmlDeviceGetMaxClockInfo(handle, nvml.NVML_CLOCK_SM),
        "clock.memory.max": lambda: nvml.nvmlDeviceGetMaxClockInfo(handle, nvml.NVML_CLOCK_MEM),
        "power.limit.default": lambda: nvml.nvmlDeviceGetPowerManagementDefaultLimit(handle) / 1000,
        "power.limit.max": lambda: nvml.nvmlDeviceGetPowerManagementLimitConstraints(handle)[1] / 1000,
    }


def _state(nvml: Any, handle: Any) -> dict[str, Callable[[], Any]]:
    corrected, volatile = nvml.NVML_MEMORY_ERROR_TYPE_CORRECTED, nvml.NVML_VOLATILE_ECC
    uncorrected = nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED
    return {
        "memory.used": lambda: nvml.nvmlDeviceGetMemoryInfo(handle).used // MIB,
        "utilization": lambda: nvml.nvmlDeviceGetUtilizationRates(handle).gpu,
        "pstate": lambda: f"P{nvml.nvmlDeviceGetPerformanceState(handle)}",
        "persistence": lambda: _on(nvml.nvmlDeviceGetPersistenceMode(handle)),
        "compute_mode": lambda: _mode(nvml.nvmlDeviceGetComputeMode(handle)),
        "ecc.uncorrected": lambda: nvml.nvmlDeviceGetTotalEccErrors(handle, uncorrected, volatile),
        "ecc.corrected": lambda: nvml.nvmlDeviceGetTotalEccErrors(handle, corrected, volatile),
        "rows.remapped": lambda: nvml.nvmlDeviceGetRemappedRows(handle)[1],
        "rows.pending": lambda: "Yes" if nvml.nvmlDeviceGetRemappedRows(handle)[2] else "No",
        "clock.sm": lambda: nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM),
        "clock.memory": lambda: nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_MEM),
        "clock.application.graphics": lambda: nvml.nvmlDeviceGetApplicationsClock(handle, nvml.NVML_CLOCK_GRAPHICS),
        "clock.application.memory": lambda: nvml.nvmlDeviceGetApplicationsClock(handle, nvml.NVML_CLOCK_MEM),
        "power.draw": lambda: nvml.nvmlDeviceGetPowerUsage(handle) / 1000,
        "power.limit": lambda: nvml.nvmlDeviceGetEnforcedPowerLimit(handle) / 1000,
        "temperature": lambda: nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU),
        "fan": lambda: nvml.nvmlDeviceGetFanSpeed(handle),
        "slowed": lambda: reasons(nvml, handle),
        "processes": lambda: _processes(nvml, handle),
    }


def _link(nvml: Any, handle: Any) -> dict[str, Callable[[], Any]]:
    return {
        "pcie.generation": lambda: nvml.nvmlDeviceGetCurrPcieLinkGeneration(handle),
        "pcie.generation.max": lambda: nvml.nvmlDeviceGetMaxPcieLinkGeneration(handle),
        "pcie.generation.device": lambda: nvml.nvmlDeviceGetGpuMaxPcieLinkGeneration(handle),
        "pcie.width": lambda: nvml.nvmlDeviceGetCurrPcieLinkWidth(handle),
        "pcie.width.max": lambda: nvml.nvmlDeviceGetMaxPcieLinkWidth(handle),
        "pcie.replays": lambda: nvml.nvmlDeviceGetPcieReplayCounter(handle),
    }


def counters(nvml: Any, handle: Any) -> Readings:
    """Microseconds since the driver was loaded in which each cause held the clocks back."""
    try:
        values = nvml.nvmlDeviceGetFieldValues(handle, list(COUNTERS.values()))
    except nvml.NVMLError as error:
        return {f"slowed.{name}": unknown(f"NVML says: {error}") for name in COUNTERS}
    found = {}
    for name, value in zip(COUNTERS, values):
        if value.nvmlReturn == nvml.NVML_SUCCESS:
            found[f"slowed.{name}"] = Reading("value", value.value.ullVal // 1000, raw=f"{value.value.ullVal} ns")
        else:
            found[f"slowed.{name}"] = unknown(f"the driver does not count it (NVML code {value.nvmlReturn})")
    return found


def reasons(nvml: Any, handle: Any) -> list[str]:
    """What holds the clocks back at this moment, idleness and chosen clocks left out."""
    name = "nvmlDeviceGetCurrentClocksEventReasons"
    call = getattr(nvml, name, None) or nvml.nvmlDeviceGetCurrentClocksThrottleReasons
    mask = call(handle)
    return [reason for bit, reason in REASONS.items() if mask & bit]


def _processes(nvml: Any, handle: Any) -> list[dict[str, Any]]:
    found = []
    for entry in nvml.nvmlDeviceGetComputeRunningProcesses(handle):
        memory = f"{entry.usedGpuMemory // MIB} MiB" if entry.usedGpuMemory else "N/A"
        found.append({"pid": entry.pid, "name": _name(entry.pid), "type": "C", "memory": memory})
    return found


def _name(pid: int) -> str:
    try:
        return Host().text(f"/proc/{pid}/comm")
    except Exception:
        return "?"


def _mig(nvml: Any, handle: Any) -> bool:
    try:
        return bool(nvml.nvmlDeviceGetMigMode(handle)[0])
    except nvml.NVMLError:
        return False


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value


def _on(value: int) -> str:
    return "Enabled" if value else "Disabled"


def _mode(value: int) -> str:
    return {0: "Default", 1: "Exclusive_Thread", 2: "Prohibited", 3: "Exclusive_Process"}.get(value, str(value))


def _cuda(version: int) -> str:
    return f"{version // 1000}.{version % 1000 // 10}"

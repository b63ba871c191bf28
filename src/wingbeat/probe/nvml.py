"""NVIDIA devices through the driver's own library (NVML, package nvidia-ml-py), under the names of `nvidia`.

Cheaper than nvidia-smi and the same over driver versions; used where the package is installed.
"""

from __future__ import annotations

import ctypes
from typing import Any, Callable, Collection

from wingbeat.probe import nvidia
from wingbeat.probe.host import Host
from wingbeat.probe.reading import Reading, Readings, not_applicable, sourced, unknown

MIB = 1 << 20
REASONS = {
    0x4: "sw_power_cap", 0x8: "hw_slowdown", 0x10: "sync_boost", 0x20: "sw_thermal_slowdown",
    0x40: "hw_thermal_slowdown", 0x80: "hw_power_brake_slowdown",
}
MEMORY_TEMPERATURE, RECOVERY_FIELD = 82, 230  # numbers of values, as are those of the counters
RECOVERY = {0: "None", 1: "Reset", 2: "Reboot", 3: "Drain P2P", 4: "Drain and Reset"}
MODES = {0: "Default", 1: "Exclusive_Thread", 2: "Prohibited", 3: "Exclusive_Process"}
VIRTUAL = {0: "None", 1: "Pass-Through", 2: "VGPU", 3: "Host VGPU", 4: "Host VSGA"}
FABRIC = {1: "Not Started", 2: "In Progress", 3: "Completed"}
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
    count = ask(nvml, nvml.nvmlDeviceGetCount)
    found: Readings = {
        "nvidia.driver": ask(nvml, lambda: _text(nvml.nvmlSystemGetDriverVersion())),
        "nvidia.cuda": ask(nvml, lambda: _cuda(nvml.nvmlSystemGetCudaDriverVersion_v2())),
        "gpu.count": count,
    }
    for index in range(count.value or 0):
        fields = nvidia.complete(host, device(nvml, index), own)
        found.update({f"gpu.{index}.{name}": reading for name, reading in fields.items()})
    return sourced(found, "NVML")


def device(nvml: Any, index: int) -> Readings:
    """The fields of one device; all unknown where it does not answer, as when it fell off the bus."""
    found = ask(nvml, lambda: nvml.nvmlDeviceGetHandleByIndex(index))
    if found.state != "value":
        return dict.fromkeys(nvidia.NAMES, unknown(found.reason))
    handle = found.value
    calls = {**_identity(nvml, handle), **_state(nvml, handle), **_link(nvml, handle)}
    return {**{name: ask(nvml, call) for name, call in calls.items()}, **counters(nvml, handle)}


def ask(nvml: Any, call: Callable[[], Any]) -> Reading:
    """What a call of the library returns; its three ways of saying no are three states."""
    try:
        found = call()
        return found if isinstance(found, Reading) else Reading("value", found)
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
        "mig.devices": lambda: _mig_devices(nvml, handle) if _mig(nvml, handle) else 0,
        "virtualization": lambda: _named(VIRTUAL, nvml.nvmlDeviceGetVirtualizationMode(handle)),
        "vgpu.licence": lambda: _licence(nvml, handle),
        "fabric": lambda: _fabric(nvml, handle),
        "recovery_action": lambda: _named(RECOVERY, _field(nvml, handle, RECOVERY_FIELD)),
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
        "compute_mode": lambda: _named(MODES, nvml.nvmlDeviceGetComputeMode(handle)),
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
        "temperature.memory": lambda: _field(nvml, handle, MEMORY_TEMPERATURE),
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
    try:
        mask = nvml.nvmlDeviceGetCurrentClocksEventReasons(handle)
    except (AttributeError, nvml.NVMLError) as error:
        if getattr(error, "value", nvml.NVML_ERROR_FUNCTION_NOT_FOUND) != nvml.NVML_ERROR_FUNCTION_NOT_FOUND:
            raise
        mask = nvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle)  # its name in older packages and drivers
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


def _mig_devices(nvml: Any, handle: Any) -> int:
    """How many parts there are now, of the most that there can be."""
    count = 0
    for index in range(nvml.nvmlDeviceGetMaxMigDeviceCount(handle)):
        try:
            nvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, index)
            count += 1
        except nvml.NVMLError as error:
            if error.value not in (nvml.NVML_ERROR_NOT_FOUND, nvml.NVML_ERROR_INVALID_ARGUMENT):
                raise
    return count


def _field(nvml: Any, handle: Any, number: int) -> int | Reading:
    value = nvml.nvmlDeviceGetFieldValues(handle, [number])[0]
    if value.nvmlReturn == nvml.NVML_SUCCESS:
        return int(value.value.uiVal)
    if value.nvmlReturn == nvml.NVML_ERROR_NOT_SUPPORTED:
        return not_applicable("the device does not have it")
    return unknown(f"the driver does not tell it (NVML code {value.nvmlReturn})")


def _fabric(nvml: Any, handle: Any) -> str | Reading:
    """Whether the device has joined the NVLink fabric."""
    info = nvml.c_nvmlGpuFabricInfoV_t()
    nvml.nvmlDeviceGetGpuFabricInfoV(handle, ctypes.byref(info))
    return FABRIC.get(info.state) or not_applicable("the device does not have it")


def _licence(nvml: Any, handle: Any) -> Reading:
    if nvml.nvmlDeviceGetVirtualizationMode(handle) != 2:
        return not_applicable("it is no virtual GPU")
    return unknown("asked of nvidia-smi only: nvidia-smi -q")


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value


def _on(value: int) -> str:
    return "Enabled" if value else "Disabled"


def _named(names: dict[int, str], found: int | Reading) -> str | Reading:
    """A number as nvidia-smi words it."""
    return found if isinstance(found, Reading) else names.get(found, str(found))


def _cuda(version: int) -> str:
    return f"{version // 1000}.{version % 1000 // 10}"

"""Fields of the devices, at rest and under load."""

from __future__ import annotations

from wingbeat.probe.registry.field import Field, Kind, Type

TOOLS = "nvidia-smi -q -x, NVML or amd-smi"


def _gpu(name: str, unit: str, type_: Type, kind: Kind, importance: int, predicts: str) -> Field:
    return Field(f"gpu.*.{name}", unit, type_, kind, importance, predicts, TOOLS, "gpu.count")


def _sysfs(name: str, unit: str, type_: Type, kind: Kind, importance: int, predicts: str) -> Field:
    how = "/sys/bus/pci/devices, from the device through all bridges to the root port"
    return Field(f"gpu.*.{name}", unit, type_, kind, importance, predicts, how, "gpu.count")


def _load(name: str, unit: str, importance: int, predicts: str, within: float = 0.03) -> Field:
    how = "sampled under load, or counted before and after it"
    return Field(f"load.{name}", unit, "table", "state", importance, predicts, how, "load.samples", within)


FIELDS = (
    Field("gpu.count", "", "number", "identity", 3, "code", TOOLS),
    Field("nvidia.driver", "", "text", "identity", 3, "code", "nvidia-smi -q -x or NVML"),
    Field("nvidia.cuda", "", "text", "identity", 2, "code", "nvidia-smi -q -x or NVML: the driver's CUDA"),
    Field("amd.driver", "", "text", "identity", 3, "code", "amd-smi static"),
    _gpu("name", "", "text", "identity", 3, "clocks"),
    _gpu("uuid", "", "text", "identity", 1, "nothing"),
    _gpu("bus", "", "text", "identity", 2, "link"),
    _gpu("vbios", "", "text", "identity", 2, "clocks"),
    _gpu("gsp", "", "text", "identity", 2, "code"),
    _gpu("memory.total", "MiB", "number", "identity", 2, "memory"),
    _gpu("clock.sm", "MHz", "number", "state", 3, "clocks"),
    _gpu("clock.memory", "MHz", "number", "state", 3, "memory"),
    _gpu("clock.sm.max", "MHz", "number", "state", 3, "clocks"),
    _gpu("clock.memory.max", "MHz", "number", "state", 3, "memory"),
    _gpu("clock.application.graphics", "MHz", "number", "state", 3, "clocks"),
    _gpu("clock.application.memory", "MHz", "number", "state", 3, "memory"),
    _gpu("pstate", "", "text", "state", 3, "clocks"),
    _gpu("power.limit", "W", "number", "state", 3, "clocks"),
    _gpu("power.limit.default", "W", "number", "identity", 1, "nothing"),
    _gpu("power.limit.max", "W", "number", "identity", 1, "nothing"),
    _gpu("slowed", "", "list", "noise", 1, "clocks"),
    _gpu("slowed.checks", "", "counter", "noise", 0, "nothing"),
    _gpu("slowed.power_cap", "us", "counter", "noise", 2, "clocks"),
    _gpu("slowed.sync_boost", "us", "counter", "noise", 2, "clocks"),
    _gpu("slowed.thermal", "us", "counter", "noise", 3, "clocks"),
    _gpu("slowed.hardware_thermal", "us", "counter", "noise", 3, "clocks"),
    _gpu("slowed.power_brake", "us", "counter", "noise", 3, "clocks"),
    _gpu("pcie.generation", "", "number", "state", 3, "link"),
    _gpu("pcie.width", "lanes", "number", "state", 3, "link"),
    _gpu("pcie.generation.max", "", "number", "state", 2, "link"),
    _gpu("pcie.generation.device", "", "number", "identity", 1, "link"),
    _gpu("pcie.generation.host", "", "number", "identity", 2, "link"),
    _gpu("pcie.width.max", "lanes", "number", "identity", 2, "link"),
    _gpu("pcie.replays", "", "counter", "noise", 3, "link"),
    _sysfs("pcie.path", "", "list", "identity", 2, "link"),
    _sysfs("pcie.slowest", "GT/s", "number", "state", 3, "link"),
    _sysfs("pcie.errors", "", "counter", "noise", 3, "link"),
    _sysfs("pcie.aspm", "", "list", "state", 2, "link"),
    _sysfs("pcie.runtime_pm", "", "text", "state", 2, "link"),
    _sysfs("numa", "", "number", "identity", 2, "host"),
    _gpu("others", "processes", "number", "state", 3, "contention"),
    _gpu("processes", "", "list", "noise", 0, "contention"),
    _gpu("persistence", "", "text", "state", 2, "reset"),
    _gpu("compute_mode", "", "text", "state", 1, "nothing"),
    _gpu("mig", "", "text", "state", 3, "clocks"),
    _gpu("mig.devices", "", "number", "state", 3, "clocks"),
    _gpu("virtualization", "", "text", "identity", 3, "clocks"),
    _gpu("vgpu.licence", "", "text", "state", 3, "clocks"),
    _gpu("ecc", "", "text", "state", 2, "memory"),
    _gpu("ecc.uncorrected", "", "counter", "noise", 3, "memory"),
    _gpu("ecc.corrected", "", "counter", "noise", 1, "memory"),
    _gpu("rows.remapped", "", "number", "state", 1, "memory"),
    _gpu("rows.pending", "", "text", "state", 2, "reset"),
    _gpu("recovery_action", "", "text", "state", 3, "reset"),
    _gpu("fabric", "", "text", "state", 3, "all-reduce"),
    _gpu("memory.used", "MiB", "number", "noise", 0, "nothing"),
    _gpu("utilization", "%", "number", "noise", 0, "contention"),
    _gpu("power.draw", "W", "number", "noise", 0, "clocks"),
    _gpu("temperature", "C", "number", "noise", 1, "clocks"),
    _gpu("temperature.memory", "C", "number", "noise", 1, "memory"),
    _gpu("fan", "%", "number", "noise", 0, "nothing"),
    Field("gpu.topology", "", "list", "identity", 3, "all-reduce", "nvidia-smi topo -m, amd-smi topology"),
    Field("gpu.nvlink", "", "list", "state", 3, "all-reduce", "nvidia-smi nvlink --status"),
    Field("gpu.p2p", "", "list", "state", 3, "all-reduce", "nvidia-smi topo -p2p r"),
    Field("load.seconds", "s", "number", "noise", 0, "nothing", "how long the load ran"),
    Field("load.samples", "", "number", "noise", 0, "nothing", "readings while the load ran"),
    Field("load.kind", "", "text", "state", 1, "nothing", "what the load was"),
    Field("load.reading_ms", "ms", "number", "noise", 0, "nothing", "what one reading costs"),
    _load("gpu.*.clock.sm", "MHz", 3, "clocks"),
    _load("gpu.*.clock.memory", "MHz", 3, "memory"),
    _load("gpu.*.power.draw", "W", 2, "clocks", 0.1),
    _load("gpu.*.temperature", "C", 2, "clocks", 0.15),
    _load("gpu.*.utilization", "%", 1, "host", 0.1),
    _load("gpu.*.pcie.generation", "", 3, "link", 0.0),
    _load("gpu.*.pcie.width", "lanes", 3, "link", 0.0),
    _load("gpu.*.pcie.slowest", "GT/s", 3, "link", 0.0),
    _load("gpu.*.slowed", "", 3, "clocks", 0.5),
    _load("gpu.*.slowed.*", "%", 3, "clocks", 0.5),
    _load("cpu.frequency", "MHz", 3, "host"),
    _load("cpu.steal", "%", 3, "contention", 0.5),
    _load("cpu.throttled", "%", 3, "host", 0.5),
)

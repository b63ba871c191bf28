"""The library's side, against a library that answers as a device would; names are checked against the real package."""

import re
from pathlib import Path
from types import SimpleNamespace

import pytest
from smi import gpu, log

from wingbeat.probe import nvidia, nvml
from wingbeat.probe.host import CapturedHost


class FakeError(Exception):
    def __init__(self, value):
        super().__init__(f"code {value}")
        self.value = value


class Library:
    """Answers every call from a table; a call that the table does not have is not supported by the device."""

    NVMLError = FakeError
    NVML_SUCCESS, NVML_ERROR_NOT_SUPPORTED, NVML_ERROR_NO_PERMISSION, NVML_ERROR_FUNCTION_NOT_FOUND = 0, 3, 4, 13
    NVML_ERROR_INVALID_ARGUMENT, NVML_ERROR_NOT_FOUND, NVML_ERROR_GPU_IS_LOST = 2, 6, 15
    NVML_CLOCK_GRAPHICS, NVML_CLOCK_SM, NVML_CLOCK_MEM, NVML_TEMPERATURE_GPU = 0, 1, 2, 0
    NVML_MEMORY_ERROR_TYPE_CORRECTED, NVML_MEMORY_ERROR_TYPE_UNCORRECTED, NVML_VOLATILE_ECC = 0, 1, 0

    def __init__(self, **answers):
        clocks = {1: 1755, 2: 2619}
        self.answers = {
            "nvmlDeviceGetCount": lambda: 1,
            "nvmlDeviceGetHandleByIndex": lambda index: index,
            "nvmlSystemGetDriverVersion": lambda: b"590.48.01",
            "nvmlSystemGetCudaDriverVersion_v2": lambda: 13010,
            "nvmlDeviceGetName": lambda handle: "NVIDIA H100 80GB HBM3",
            "nvmlDeviceGetPciInfo": lambda handle: SimpleNamespace(busId=b"00000000:1B:00.0"),
            "nvmlDeviceGetMemoryInfo": lambda handle: SimpleNamespace(total=81559 << 20, used=70000 << 20),
            "nvmlDeviceGetUtilizationRates": lambda handle: SimpleNamespace(gpu=97),
            "nvmlDeviceGetPerformanceState": lambda handle: 0,
            "nvmlDeviceGetClockInfo": lambda handle, which: clocks[which],
            "nvmlDeviceGetEnforcedPowerLimit": lambda handle: 700000,
            "nvmlDeviceGetCurrPcieLinkGeneration": lambda handle: 5,
            "nvmlDeviceGetMaxPcieLinkGeneration": lambda handle: 5,
            "nvmlDeviceGetCurrPcieLinkWidth": lambda handle: 16,
            "nvmlDeviceGetCurrentClocksEventReasons": lambda handle: 0x4 | 0x1,
            "nvmlDeviceGetComputeRunningProcesses": lambda handle: [SimpleNamespace(pid=1, usedGpuMemory=1 << 30)],
            "nvmlDeviceGetFieldValues": lambda handle, fields: [
                SimpleNamespace(nvmlReturn=0 if one == 74 else 3, value=SimpleNamespace(ullVal=5_000_000))
                for one in fields
            ],
            **answers,
        }

    def __getattr__(self, name):
        def unsupported(*arguments):
            raise FakeError(self.NVML_ERROR_NOT_SUPPORTED)

        return self.answers.get(name, unsupported)


def refuse(code):
    def call(*arguments):
        raise FakeError(code)

    return call


def read(**answers):
    return nvml.devices(CapturedHost({}, {}), Library(**answers), set())


def test_a_device_has_the_same_names_as_by_nvidia_smi():
    found = read()
    expected = {
        "nvidia.driver": "590.48.01", "nvidia.cuda": "13.1", "gpu.count": 1, "gpu.0.clock.sm": 1755,
        "gpu.0.pstate": "P0", "gpu.0.bus": "0000:1b:00.0",
    }  # fmt: skip
    assert {name: found[name].value for name in expected} == expected
    assert (found["gpu.0.power.limit"].value, found["gpu.0.pcie.width"].value) == (700.0, 16)
    assert found["gpu.0.slowed"].value == ["sw_power_cap"]
    assert found["gpu.0.slowed.power_cap"].value == 5000
    assert found["gpu.0.slowed.thermal"].state == "unknown"
    assert found["gpu.0.others"].value == 1
    assert found["gpu.0.ecc"].state == "not applicable"
    by_tool = nvidia.devices(CapturedHost({}, {"nvidia-smi -q -x": log(gpu())}), set())
    assert found.keys() == by_tool.keys()
    assert found["gpu.0.rows.remapped"].state == "not applicable"


def test_three_ways_of_saying_no_are_told_apart():
    found = read(
        nvmlDeviceGetEnforcedPowerLimit=refuse(4), nvmlDeviceGetName=refuse(13), nvmlDeviceGetFieldValues=refuse(4)
    )
    assert found["gpu.0.power.limit"].state == "unknown"
    assert "code 4" in found["gpu.0.power.limit"].reason
    assert "too old" in found["gpu.0.name"].reason
    assert found["gpu.0.fan"].state == "not applicable"
    assert found["gpu.0.slowed.thermal"].state == "unknown"


def test_a_device_that_is_lost_takes_nothing_of_the_others_with_it():
    def handle(index):
        return refuse(15)() if index == 0 else index

    found = read(nvmlDeviceGetCount=lambda: 2, nvmlDeviceGetHandleByIndex=handle)
    assert (found["gpu.count"].value, found["gpu.1.clock.sm"].value) == (2, 1755)
    lost = {reading.state for name, reading in found.items() if name.startswith("gpu.0.")}
    assert lost == {"unknown"}
    assert "code 15" in found["gpu.0.clock.sm"].reason
    assert read(nvmlDeviceGetCount=refuse(15))["gpu.count"].state == "unknown"


def test_parts_are_counted_that_are_there():
    def part(handle, index):
        return index if index < 2 else refuse(6)()

    parts = {"nvmlDeviceGetMigMode": lambda handle: (1, 1), "nvmlDeviceGetMaxMigDeviceCount": lambda handle: 7}
    assert read(**parts, nvmlDeviceGetMigDeviceHandleByIndex=part)["gpu.0.mig.devices"].value == 2
    assert read(**parts, nvmlDeviceGetMigDeviceHandleByIndex=refuse(4))["gpu.0.mig.devices"].state == "unknown"


def test_reasons_have_another_name_in_older_drivers():
    older = {"nvmlDeviceGetCurrentClocksThrottleReasons": lambda handle: 0x40}
    name = "nvmlDeviceGetCurrentClocksEventReasons"
    assert read(**older, **{name: refuse(13)})["gpu.0.slowed"].value == ["hw_thermal_slowdown"]
    assert read(**older, **{name: refuse(4)})["gpu.0.slowed"].state == "unknown"


def test_values_by_number():
    def values(handle, numbers):
        told = [SimpleNamespace(ullVal=0, uiVal={230: 1}.get(one, 71)) for one in numbers]
        return [SimpleNamespace(nvmlReturn=0, value=value) for value in told]

    found = read(nvmlDeviceGetFieldValues=values, nvmlDeviceGetVirtualizationMode=lambda handle: 2)
    assert (found["gpu.0.temperature.memory"].value, found["gpu.0.recovery_action"].value) == (71, "Reset")
    assert (found["gpu.0.virtualization"].value, found["gpu.0.vgpu.licence"].state) == ("VGPU", "unknown")


def test_the_host_s_link_is_that_of_the_bridge_above():
    at = "/sys/bus/pci/devices"
    files = {f"{at}/{one}/current_link_speed": "32.0 GT/s PCIe" for one in ("0000:1b:00.0", "0000:1a:00.0")}
    files[f"{at}/0000:1a:00.0/max_link_speed"] = "16.0 GT/s PCIe"
    links = {f"{at}/0000:1b:00.0": "/sys/devices/pci0000:19/0000:1a:00.0/0000:1b:00.0"}
    found = nvml.devices(CapturedHost(files, {}, links), Library(), set())
    assert found["gpu.0.pcie.generation.host"].value == 4


def test_an_idle_device_is_not_trusted_here_either():
    found = read(nvmlDeviceGetUtilizationRates=lambda handle: SimpleNamespace(gpu=0))
    assert found["gpu.0.clock.sm"].state == "unknown"


def test_the_real_package_has_every_name_that_is_called():
    pynvml = pytest.importorskip("pynvml", reason="nvidia-ml-py is not installed")
    source = Path(nvml.__file__).read_text(encoding="utf-8")
    names = set(re.findall(r"\bnvml\.(nvml\w+|NVML\w+)", source)) | {"nvmlDeviceGetCurrentClocksEventReasons"}
    assert len(names) > 30
    assert not [name for name in names if not hasattr(pynvml, name)]
    numbers = {"SW_POWER_CAP": "power_cap", "SYNC_BOOST": "sync_boost", "SW_THERM_SLOWDOWN": "thermal",
               "HW_THERM_SLOWDOWN": "hardware_thermal", "HW_POWER_BRAKE_SLOWDOWN": "power_brake"}  # fmt: skip
    for theirs, ours in numbers.items():
        assert getattr(pynvml, f"NVML_FI_DEV_CLOCKS_EVENT_REASON_{theirs}") == nvml.COUNTERS[ours]


def test_without_a_driver_there_is_no_library():
    assert nvml.library() is None or Path("/proc/driver/nvidia").exists()

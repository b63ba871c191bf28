import json

import pytest

from wingbeat.probe import amd, nvidia
from wingbeat.probe.host import CapturedHost
from wingbeat.probe.reading import Reading

BUS = {
    "/sys/bus/pci/devices/0000:05:00.0/vendor": "0x1002",
    "/sys/bus/pci/devices/0000:05:00.0/class": "0x120000",
    "/sys/bus/pci/devices/0000:05:00.0/current_link_speed": "32.0 GT/s PCIe",
    "/sys/bus/pci/devices/0000:05:00.0/numa_node": "1",
}
STATIC = [
    {
        "gpu": 0,
        "asic": {"market_name": "AMD Instinct MI300X", "asic_serial": "0x1"},
        "bus": {"bdf": "0000:05:00.0", "max_pcie_width": 16, "max_pcie_speed": {"value": 32, "unit": "GT/s"}},
        "driver": {"name": "amdgpu", "version": "6.12.12"},
        "limit": {"max_power": {"value": 750, "unit": "W"}, "socket_power": {"value": 650, "unit": "W"}},
        "vram": {"size": {"value": 196592, "unit": "MB"}},
        "partition": {"compute_partition": "SPX", "memory_partition": "NPS1"},
    }
]
METRIC = [
    {
        "gpu": 0,
        "usage": {"gfx_activity": {"value": 98, "unit": "%"}},
        "power": {"socket_power": {"value": 612, "unit": "W"}, "throttle_status": "UNTHROTTLED"},
        "clock": {
            "gfx_0": {"clk": {"value": 2094, "unit": "MHz"}, "max_clk": {"value": 2100, "unit": "MHz"}},
            "mem_0": {"clk": {"value": 1300, "unit": "MHz"}, "max_clk": {"value": 1300, "unit": "MHz"}},
        },
        "temperature": {"edge": "N/A", "hotspot": {"value": 61, "unit": "C"}, "mem": {"value": 50, "unit": "C"}},
        "pcie": {"width": 16, "speed": {"value": 32, "unit": "GT/s"}, "replay_count": 0},
        "ecc": {"total_correctable_count": 0, "total_uncorrectable_count": 0},
        "fan": {"usage": "N/A"},
        "perf_level": "AMDSMI_DEV_PERF_LEVEL_AUTO",
        "throttle": {"accumulation_counter": 1000, "ppt_accumulated": 77, "socket_thermal_accumulated": "N/A"},
    }
]
PROCESSES = [{"gpu": 0, "process_list": [{"process_info": {"name": "python3", "pid": 9}}, {"process_info": "No data"}]}]


def read(static=STATIC, metric=METRIC, processes=PROCESSES, wrap=json.dumps, own=()):
    commands = {"amd-smi static --json": wrap(static), "amd-smi metric --json": wrap(metric)}
    host = CapturedHost(BUS, {**commands, "amd-smi process --json": wrap(processes)})
    return {name: one for name, one in amd.devices(host, set(own)).items() if isinstance(one, Reading)}


def test_a_busy_device():
    found = read()
    values = {name: reading.value for name, reading in found.items() if reading.state == "value"}
    assert (values["amd.driver"], values["gpu.0.name"]) == ("6.12.12", "AMD Instinct MI300X")
    assert (values["gpu.0.clock.sm"], values["gpu.0.power.limit"], values["gpu.0.temperature"]) == (2094, 650, 61)
    assert (values["gpu.0.pcie.generation"], values["gpu.0.pcie.width"], values["gpu.0.numa"]) == (5, 16, 1)
    assert (values["gpu.0.slowed"], values["gpu.0.slowed.power_cap"], values["gpu.0.others"]) == ([], 77, 1)
    assert found["gpu.0.slowed.thermal"].state == found["gpu.0.fan"].state == "not applicable"
    assert found["gpu.0.slowed.hardware_thermal"].state == "unknown"


def test_newer_tools_wrap_the_list_and_others_print_words_first():
    wrapped = read(wrap=lambda entries: "WARNING: no permission\n" + json.dumps({"gpu_data": entries}))
    assert wrapped == read()


def test_numbers_with_their_unit_in_one_text():
    metric = [{**METRIC[0], "usage": {"gfx_activity": "98 %"}, "pcie": {"width": "16", "speed": "32 GT/s"}}]
    found = read(metric=metric)
    assert (found["gpu.0.utilization"].value, found["gpu.0.clock.sm"].value) == (98, 2094)
    assert (found["gpu.0.pcie.generation"].value, found["gpu.0.pcie.width"].value) == (5, 16)


def test_every_field_of_a_device_is_told_of():
    found = read(metric=[])
    assert {name[len("gpu.0.") :] for name in found if name.startswith("gpu.0.")} >= {*nvidia.NAMES}
    assert found["gpu.0.fabric"].state == "not applicable"
    assert found["gpu.0.rows.remapped"].state == found["gpu.0.clock.sm"].state == "unknown"


def test_topology():
    link = {"bdf": "0000:05:00.0", "link_status": "ENABLED"}
    links = [
        {**link, "gpu": 1, "link_type": "XGMI", "num_hops": 1}, {**link, "gpu": 0, "link_type": "SELF", "num_hops": 0},
    ]  # fmt: skip
    told = json.dumps([{"gpu": 0, "bdf": "0000:05:00.0", "links": links}])
    assert amd.topology(CapturedHost(BUS, {"amd-smi topology --json": told})) == ["GPU0 SELF 0, XGMI 1"]


def test_an_idle_device_is_not_trusted():
    idle = [{**METRIC[0], "usage": {"gfx_activity": {"value": 0, "unit": "%"}}}]
    assert read(metric=idle)["gpu.0.clock.sm"].state == "unknown"


@pytest.mark.parametrize("commands", [{}, {"amd-smi static --json": (126, "")}, {"amd-smi static --json": "no driver"}])
def test_a_device_whose_tool_does_not_answer_is_unknown(commands):
    found = amd.devices(CapturedHost(BUS, commands), set())
    assert {reading.state for reading in found.values()} == {"unknown"}


def test_no_device_is_not_an_error():
    assert amd.devices(CapturedHost({}, {}), set())["amd.driver"].state == "not applicable"

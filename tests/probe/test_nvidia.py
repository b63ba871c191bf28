import generations
import pytest
from smi import DRIVER_470, gpu, log, process

from wingbeat.probe import nvidia
from wingbeat.probe.host import CapturedHost
from wingbeat.probe.reading import Reading

QUERY = "nvidia-smi -q -x"
PRESENT = {"/proc/driver/nvidia/version": "NVRM version: NVIDIA UNIX Open Kernel Module"}


def read(document, own=()):
    return nvidia.devices(CapturedHost(PRESENT, {QUERY: document}), set(own))


def device(document):
    return {name[len("gpu.0.") :]: one for name, one in read(document).items() if name.startswith("gpu.0.")}


def test_a_busy_device_of_a_new_driver():
    found = read(log(gpu(cap="Active", processes=process(11) + process(12)), gpu(bus="00000000:43:00.0")), own=[11])
    values = {name: reading.value for name, reading in found.items() if reading.state == "value"}
    assert values["nvidia.driver"] == "590.48.01"
    assert values["gpu.count"] == 2
    assert (values["gpu.0.clock.sm"], values["gpu.0.clock.sm.max"], values["gpu.0.pstate"]) == (1755, 1980, "P0")
    assert (values["gpu.0.pcie.generation"], values["gpu.0.pcie.width"], values["gpu.0.pcie.replays"]) == (5, 16, 0)
    assert (values["gpu.0.power.limit"], values["gpu.0.power.draw"]) == (700.0, 412.1)
    assert values["gpu.0.slowed"] == ["sw_power_cap"]
    assert values["gpu.0.slowed.power_cap"] == 12000
    assert values["gpu.0.others"] == 1
    assert values["gpu.1.bus"] == "0000:43:00.0"
    assert found["gpu.0.power.limit"].raw == "700.00 W"
    assert found["gpu.0.power.limit"].source == QUERY
    assert found["gpu.0.fan"].state == "not applicable"


def test_an_old_driver_has_other_names_and_less_to_tell():
    found = read(DRIVER_470)
    assert found["gpu.0.slowed"] == Reading("value", ["sw_power_cap"], source=QUERY, raw=found["gpu.0.slowed"].raw)
    assert "applications_clocks_setting" in found["gpu.0.slowed"].raw
    assert found["gpu.0.power.limit"].value == 150.0  # the enforced one, not the one that was asked for
    assert found["gpu.0.ecc.uncorrected"].value == 2
    assert found["gpu.0.pcie.width"].value == 8
    for name in ("slowed.thermal", "gsp", "fabric", "pcie.generation.host", "clock.application.graphics"):
        assert found[f"gpu.0.{name}"].state == "unknown", name
    for name in ("mig", "ecc", "ecc.corrected", "temperature.memory", "clock.application.memory"):
        assert found[f"gpu.0.{name}"].state == "not applicable", name


@pytest.mark.parametrize(
    ("text", "state"),
    [
        ("N/A", "not applicable"), ("[N/A]", "not applicable"), ("[Not Supported]", "not applicable"),
        ("Not Supported", "not applicable"), ("[Unknown Error]", "unknown"), ("Unknown Error", "unknown"),
        ("ERR!", "unknown"), ("Insufficient Permissions", "unknown"), ("[GPU requires reset]", "unknown"),
        ("Requested functionality has been deprecated", "unknown"), ("", "unknown"), ("fast", "error"),
        ("[Function Not Found]", "unknown"), ("Not Found", "unknown"), ("Unknown", "unknown"), ("[Odd]", "unknown"),
    ],
)  # fmt: skip
def test_what_is_no_value_is_a_state(text, state):
    found = read(log(gpu(limit=text, draw=text, name=text)))
    assert found["gpu.0.power.limit"].state == state
    assert found["gpu.0.power.limit"].raw == text
    assert found["gpu.0.power.limit"].value is None
    assert found["gpu.0.name"].state == ("value" if text == "fast" else state)


AT = "/sys/bus/pci/devices/0000:1b:00.0"
LINKED = {f"{AT}/current_link_speed": "2.5 GT/s PCIe", f"{AT}/current_link_width": "16"}


def test_clocks_and_links_of_an_idle_device_are_not_trusted():
    document = log(gpu(util="3 %", sm="345 MHz", pstate="P8", gen="1", cap="Active"))
    idle = nvidia.devices(CapturedHost({**PRESENT, **LINKED}, {QUERY: document}), set())
    for name in nvidia.UNDER_LOAD:
        reading = idle[f"gpu.0.{name}"]
        assert reading.state == "unknown", name
        assert "idle (3 % busy)" in reading.reason
    assert "345" in idle["gpu.0.clock.sm"].raw
    untold = read(log(gpu(util="N/A")))
    assert untold["gpu.0.clock.sm"].state == "unknown"


@pytest.mark.parametrize("name", ["DRIVER_515", "DRIVER_535", "DRIVER_550"])
def test_generations_of_drivers_tell_the_same(name):
    found = device(getattr(generations, name))
    expected = {
        "power.draw": 301.1, "power.limit": 350.0, "power.limit.max": 400.0, "slowed": ["sw_power_cap"],
        "ecc.corrected": 4, "ecc.uncorrected": 3, "clock.sm": 1410, "clock.application.graphics": 1275,
        "pcie.generation": 4, "pcie.generation.host": 5, "rows.remapped": 0, "virtualization": "None", "others": 0,
    }  # fmt: skip
    assert {field: found[field].value for field in expected} == expected
    assert found["vgpu.licence"].state == "not applicable"
    assert found["slowed.thermal"].state == "unknown"


def test_blocks_that_a_card_does_not_have_are_not_applicable():
    found = device(generations.DRIVER_530)
    for name in ("rows.remapped", "rows.pending", "ecc.corrected", "ecc.uncorrected", "fabric", "gsp"):
        assert found[name].state == "not applicable", name
    assert (found["slowed"].value, found["power.limit"].value) == ([], 350.0)
    assert read(generations.DRIVER_530)["nvidia.cuda"].state == "unknown"


def test_a_part_of_a_device_tells_nothing_of_the_whole():
    found = device(generations.MIG)
    assert (found["mig"].value, found["mig.devices"].value, found["others"].value) == ("Enabled", 3, 1)
    for name in ("clock.sm", "pstate", "slowed", "pcie.generation"):
        assert found[name].state == "unknown", name
    assert found["utilization"].state == "not applicable"


def test_a_virtual_device_has_a_licence_and_no_link_or_limits():
    found = device(generations.VGPU)
    assert (found["virtualization"].value, found["vgpu.licence"].value) == ("VGPU", "Unlicensed (Restricted)")
    for name in ("slowed", "pcie.generation", "power.limit", "temperature", "clock.sm.max", "ecc.uncorrected"):
        assert found[name].state == "not applicable", name
    licensed = generations.VGPU.replace("Unlicensed (Restricted)", "Licensed (Expiry: 2027-7-7 16:1:44 GMT)")
    assert device(licensed)["vgpu.licence"].value == "Licensed"


@pytest.mark.parametrize(
    ("text", "state"), [("N/A", "not applicable"), ("[Unknown Error]", "unknown"), ("", "unknown")]
)
def test_reasons_that_are_not_told_are_not_none(text, state):
    whole = generations.document("550.127.05", "12.4", {"clocks_event_reasons": text})
    each = generations.document("550.127.05", "12.4", generations.reasons("event", otherwise=text))
    assert device(whole)["slowed"].state == device(each)["slowed"].state == state


def test_an_integrated_device_has_no_link():
    found = read(log(gpu(name="NVIDIA GB10", gen="1", max_gen="1", device_gen="5", host_gen="5", width="1x")))
    assert found["gpu.0.pcie.generation"].state == found["gpu.0.pcie.width"].state == "not applicable"


def test_mig_devices_are_counted():
    parts = "<mig_device><index>0</index></mig_device><mig_device><index>1</index></mig_device>"
    found = read(log(gpu(mig="Enabled", mig_devices=parts, util="N/A")))
    assert (found["gpu.0.mig"].value, found["gpu.0.mig.devices"].value) == ("Enabled", 2)


def test_others_that_are_not_shown_are_not_none():
    hidden = read(log(gpu(used="70012 MiB")))["gpu.0.others"]
    assert hidden.state == "unknown"
    assert "70012 MiB" in hidden.reason
    assert read(log(gpu(used="4 MiB")))["gpu.0.others"].value == 0
    assert read(log(gpu(processes=process(5, kind="G"), used="400 MiB")))["gpu.0.others"].value == 0


@pytest.mark.parametrize(
    ("commands", "said"),
    [
        ({}, "nvidia-smi is not installed"),
        ({QUERY: (126, "")}, "no permission to run nvidia-smi"),
        ({QUERY: (9, "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.")}, "communicate"),
        ({QUERY: (255, "Failed to initialize NVML: Insufficient Permissions")}, "Insufficient Permissions"),
        ({QUERY: (18, "Failed to initialize NVML: Driver/library version mismatch")}, "version mismatch"),
        ({QUERY: "Unable to determine the device handle for GPU 0000:01:00.0: GPU is lost."}, "printed no XML"),
        ({QUERY: log(gpu())[:900]}, "printed no XML"),
    ],
)
def test_a_device_whose_tool_does_not_answer_is_unknown(commands, said):
    found = nvidia.devices(CapturedHost(PRESENT, commands), set())
    assert {reading.state for reading in found.values()} == {"unknown"}
    assert said in found["gpu.count"].reason
    assert "nvidia.driver" in found


def test_a_machine_without_a_device_is_not_an_error():
    bus = {"/sys/bus/pci/devices/0000:00:02.0/vendor": "0x8086", "/sys/bus/pci/devices/0000:00:02.0/class": "0x030000"}
    found = nvidia.devices(CapturedHost(bus, {}), set())
    assert found["nvidia.driver"].state == "not applicable"


def test_a_device_on_the_bus_without_a_driver_is_unknown():
    bus = {"/sys/bus/pci/devices/0000:01:00.0/vendor": "0x10de", "/sys/bus/pci/devices/0000:01:00.0/class": "0x030200"}
    found = nvidia.devices(CapturedHost(bus, {}), set())
    assert found["nvidia.driver"].state == "unknown"


def test_topology_is_kept_without_colours_and_legend():
    table = "\x1b[4m\tGPU0\tGPU1\tCPU Affinity\x1b[0m\nGPU0\t X \tPIX\t0-31\nGPU1\tPIX\t X \t0-31\n"
    table += "\nLegend:\n\n  X = Self\n"
    host = CapturedHost(PRESENT, {"nvidia-smi topo -m": table, "nvidia-smi topo -p2p r": (1, "not supported")})
    probes = nvidia.topology(host)
    assert probes["gpu.topology"]() == ["GPU0 GPU1 CPU Affinity", "GPU0 X PIX 0-31", "GPU1 PIX X 0-31"]
    assert set(probes) == {"gpu.topology", "gpu.p2p", "gpu.nvlink"}
    assert nvidia.topology(CapturedHost({}, {})) == {}

"""Readings under load, with a real child process and devices that answer from a list."""

import os

import pytest
from smi import gpu, log, process

from wingbeat.probe import load, nvidia
from wingbeat.probe.host import CapturedHost, Host
from wingbeat.probe.load import BusyError, Load, under_load
from wingbeat.probe.reading import Reading, not_applicable, unknown

PRESENT = {"/proc/driver/nvidia/version": "NVRM"}


@pytest.fixture(autouse=True)
def often(monkeypatch):
    monkeypatch.setattr(load, "INTERVAL", 0.05)


def devices(*documents, own=(), then=None):
    """The devices' answers one after the other, the last one again and again; `then` is made at the last one."""
    pending = list(documents)

    def answer():
        document = pending.pop(0) if len(pending) > 1 else pending[0]
        if then and len(pending) == 1:
            then.touch()
        return nvidia.devices(CapturedHost(PRESENT, {"nvidia-smi -q -x": document}), set(own))

    return answer


def until(path):
    """A load that works until a file is there."""
    return Load(("sh", "-c", f"while [ ! -e {path} ]; do sleep 0.05; done"), 300.0)


def test_only_readings_of_a_working_device_count(tmp_path):
    idle = log(gpu(util="0 %", sm="345 MHz", gen="1", used="4 MiB", cap_us="1000000 us", draw="70 W", temp="30 C"))
    busy = log(gpu(util="98 %", sm="1700 MHz", used="4 MiB", cap="Active", cap_us="1500000 us"))
    faster = log(gpu(util="98 %", sm="1800 MHz", used="4 MiB", cap_us="2000000 us"))
    answers = devices(idle, idle, busy, faster, faster, faster, then=tmp_path / "end")
    found = under_load(Host(), os.getpid(), until(tmp_path / "end"), answers)
    clock = found["load.gpu.0.clock.sm"].value
    assert (clock["min"], clock["max"]) == (1700, 1800)
    assert clock["n"] < found["load.samples"].value
    assert found["load.gpu.0.power.draw"].value["min"] == 412.1
    assert found["load.gpu.0.temperature"].value["min"] == 54
    assert found["load.gpu.0.utilization"].value["min"] == 0
    assert found["load.gpu.0.pcie.generation"].value["min"] == 5
    assert 0 < found["load.gpu.0.slowed"].value["sw_power_cap"] < 1
    seconds = found["load.seconds"].value
    assert found["load.gpu.0.slowed.power_cap"].value == pytest.approx(100 / seconds, rel=0.05)
    assert found["load.gpu.0.slowed.thermal"].value == 0.0
    assert found["load.kind"].value.startswith("sh -c while")


def test_a_load_that_leaves_the_device_idle_tells_no_clock(tmp_path):
    idle = log(gpu(util="0 %", sm="345 MHz", used="4 MiB"))
    answers = devices(*[idle] * 6, then=tmp_path / "end")
    found = under_load(Host(), os.getpid(), until(tmp_path / "end"), answers)
    for name in ("clock.sm", "power.draw", "temperature", "slowed"):
        assert found[f"load.gpu.0.{name}"].state == "unknown"
        assert "idle" in found[f"load.gpu.0.{name}"].reason


@pytest.mark.parametrize("shared", [gpu(processes=process(4)), gpu(used="60000 MiB")])
def test_devices_that_others_use_are_left_alone(tmp_path, shared):
    witness = tmp_path / "started"
    asked = Load(("sh", "-c", f"touch {witness}; sleep 9"), 1.0)
    with pytest.raises(BusyError, match=r"gpu\.0: .* a load would disturb them: wait, or use --force"):
        under_load(Host(), os.getpid(), asked, devices(log(shared)))
    assert not witness.exists()
    forced = Load(asked.command, 1.0, force=True)
    assert under_load(Host(), os.getpid(), forced, devices(log(shared)))["load.samples"].value >= 1
    assert witness.exists()


def test_ones_own_server_is_not_another():
    asked = Load(("sleep", "9"), 1.0)
    found = under_load(Host(), os.getpid(), asked, devices(log(gpu(processes=process(4))), own=[4]))
    assert found["load.samples"].value >= 1


def no_device():
    return {"gpu.count": not_applicable("none")}


def test_the_load_of_a_machine_without_devices_is_its_processors():
    found = under_load(Host(), os.getpid(), Load(seconds=1.0), no_device)
    assert found["load.kind"].value == "hashing on all cores"
    assert found["load.samples"].value >= 1
    assert found["load.cpu.steal"].state == "value"
    assert not [name for name in found if name.startswith("load.gpu")]


def test_a_device_that_torch_cannot_use():
    found = under_load(Host(), os.getpid(), Load(), devices(log(gpu(used="4 MiB"))))
    assert found == {"load.samples": found["load.samples"]}
    assert "torch cannot use a device here; give one with --command" in found["load.samples"].reason


def test_a_load_that_is_not_there():
    found = under_load(Host(), os.getpid(), Load(("no-such-load-x",), 1.0), no_device)
    assert found["load.samples"].reason == "the load could not be started: no-such-load-x: No such file or directory"


@pytest.mark.parametrize(
    ("command", "said"),
    [("exit 0", "the load ended before the first reading"), ("exit 3", "the load failed with exit code 3")],
)
def test_a_load_that_did_not_work_is_no_sample(command, said):
    found = under_load(Host(), os.getpid(), Load(("sh", "-c", command), 300.0), devices(log(gpu(used="4 MiB"))))
    assert set(found) == {"load.kind", "load.samples"}
    assert found["load.samples"].state == "unknown"
    assert found["load.samples"].reason.startswith(said)


def broken():
    raise ValueError("the driver is gone")


@pytest.mark.parametrize("read", [broken, lambda: {"gpu.count": unknown("the driver is gone")}])
def test_devices_that_cannot_be_counted_are_not_none(read):
    found = under_load(Host(), os.getpid(), Load(("sleep", "9"), 1.0), read)
    assert list(found) == ["load.samples"]
    assert "the driver is gone" in found["load.samples"].reason


def test_checks_are_counted_against_all_checks():
    def at(held, checks):
        return {"gpu.0.slowed.power_cap": Reading("value", held), "gpu.0.slowed.checks": checks}

    before, after = at(77, Reading("value", 1000)), at(177, Reading("value", 1400))
    assert load._slowed("gpu.0.slowed.", before, after, 8.0) == {"load.gpu.0.slowed.power_cap": Reading("value", 25.0)}
    untold = load._slowed("gpu.0.slowed.", at(77, unknown("x")), at(177, unknown("x")), 8.0)
    assert untold["load.gpu.0.slowed.power_cap"].state == "unknown"


def test_a_counter_that_ended_unread_is_no_share():
    assert load._share(Reading("value", 9), unknown("gone"), 100.0) == unknown("gone")


def test_spread():
    assert load.spread([3, 1, 2]) == {"min": 1, "median": 2, "max": 3, "n": 3}
    assert load._grown(Reading("value", 3), not_applicable("x")) is None

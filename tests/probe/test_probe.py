import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

from wingbeat import probe
from wingbeat.probe import collect, machine, process, registry
from wingbeat.probe.host import CapturedHost, Host
from wingbeat.probe.process import Target
from wingbeat.probe.reading import Reading, guarded, not_applicable, unknown

STATES = {"value", "not applicable", "unknown", "error"}


def test_a_fingerprint_reads_this_machine():
    found = probe.fingerprint()
    assert found["python"].value.startswith("CPython 3.")
    assert found["cpu.usable_cores"].value >= 1
    assert found["installed.torch"].state == "value"
    assert [reading for reading in found.values() if reading.state == "error"] == []
    again = json.loads(json.dumps(probe.to_json(found)))
    assert again["os"]["source"] == "uname -srm"
    assert probe.from_json(again) == found


def test_an_empty_value_is_kept():
    assert probe.to_json({"env.CUDA_VISIBLE_DEVICES": Reading("value", "")}) == {
        "env.CUDA_VISIBLE_DEVICES": {"state": "value", "value": ""}
    }


def test_what_must_not_be_looked_at_is_not_called_absent(tmp_path, monkeypatch):
    def refuse(path, **options):
        raise PermissionError(13, "Permission denied", path)

    host = Host(str(tmp_path))
    assert [host.exists("/x"), host.exists("/x\0")] == [False, False]
    monkeypatch.setattr("os.stat", refuse)
    found = guarded(lambda: process._lines(host, "/root/.nccl.conf"))
    monkeypatch.undo()
    assert found == unknown("no permission to look at /root/.nccl.conf")


def test_every_field_is_in_the_registry_and_most_of_the_registry_is_read():
    found = probe.fingerprint()
    assert [name for name in found if registry.spec(name) is None] == []
    assert {field.predicts for field in registry.FIELDS.values()} <= set(registry.EFFECTS)
    assert all(field.how and 0 <= field.importance <= 3 for field in registry.FIELDS.values())
    read = {registry.spec(name).name for name in found}
    elsewhere = ("gpu.", "load.", "workers.env", "model.", "head.", "nvidia.cuda", "installed.", "loaded.", "env.")
    left = {name for name in registry.FIELDS if name not in read and not name.startswith(elsewhere)}
    assert left <= {"probe.*", "nccl.conf.*", "editable.*", "process.files"}  # the last only of other processes


def test_registry_entries_by_pattern():
    assert registry.spec("gpu.3.clock.sm").unit == "MHz"
    assert registry.spec("env.NCCL_PROTO").importance == 3
    assert registry.spec("env.OMP_NUM_THREADS").name == "env.*"
    assert registry.spec("installed.torch").importance > registry.spec("installed.pillow").importance
    assert registry.spec("no.such.field") is None
    names = ["installed.pillow", "uptime", "gpu.0.clock.sm", "nothing"]
    assert sorted(names, key=registry.order) == ["gpu.0.clock.sm", "installed.pillow", "uptime", "nothing"]


def test_unknown_never_equals_unknown():
    value, other = Reading("value", 3), Reading("value", 4)
    assert value.same(value) is True
    assert value.same(other) is False
    assert value.same(not_applicable("x")) is False
    assert not_applicable("x").same(not_applicable("y")) is True
    for missing in (unknown("x"), Reading("error", reason="x")):
        assert missing.same(missing) is None
        assert value.same(missing) is None


def test_a_probe_that_fails_is_a_reading():
    assert guarded(lambda: 1 / 0) == Reading("error", reason="ZeroDivisionError: division by zero")
    assert guarded(lambda: 0) == Reading("value", 0)
    assert guarded(lambda: not_applicable("none")) == not_applicable("none")


def test_a_group_that_fails_is_a_field(monkeypatch):
    monkeypatch.setitem(collect.GROUPS, "bus", lambda host, target, request: 1 / 0)
    found = collect.group(Host(), "bus", Target(1), collect.Request())
    assert found == {"probe.bus": Reading("error", reason="ZeroDivisionError: division by zero")}


def test_what_was_read_is_kept_beside_the_value():
    host = CapturedHost({"/proc/meminfo": "MemTotal:   2048 kB\n"}, {"uname -srm": (1, "broken"), "a b": "x" * 2000})
    memory = guarded(lambda: machine.memory_bytes(host), host)
    assert memory == Reading("value", 2048 * 1024, source="/proc/meminfo", raw="MemTotal:   2048 kB")
    failed = guarded(lambda: host.run("uname", "-srm"), host)
    assert (failed.state, failed.source, failed.raw) == ("unknown", "uname -srm", "broken")
    long = guarded(lambda: len(host.run("a", "b")), host)
    assert long.raw.endswith("(1400 characters more)")


def test_commands_that_cannot_be_run(tmp_path):
    forbidden = tmp_path / "tool"
    forbidden.write_text("#!/bin/sh\n")
    host = Host()
    reasons = [guarded(lambda argv=argv: host.run(*argv)).reason for argv in (("no-such-tool-x",), (str(forbidden),))]
    assert reasons == ["no-such-tool-x is not installed", f"no permission to run {forbidden}"]
    slow = guarded(lambda: host.run("sleep", "5", timeout=0.05))
    assert slow.reason == "sleep 5 gave no answer within 0.05 s"


def test_without_proc_the_fields_are_unknown():
    host = CapturedHost({}, {})
    found = {name: guarded(read, host) for name, read in machine.probes(host).items()}
    assert {reading.state for reading in found.values()} <= {"unknown", "not applicable"}
    assert found["boot_id"] == unknown("/proc/sys/kernel/random/boot_id is not there")
    assert {found[name].state for name in ("cpu.governor", "cpu.boost")} == {"unknown"}


CPUFREQ = "/sys/devices/system/cpu/cpu{}/cpufreq/{}"


def test_another_kind_of_machine():
    files = {
        "/proc/cpuinfo": "processor : 0\nmodel name\t: Some: CPU\nprocessor : 1\n",
        CPUFREQ.format(0, "scaling_governor"): "performance",
        CPUFREQ.format(1, "scaling_governor"): "powersave",
        CPUFREQ.format(0, "scaling_cur_freq"): "2400000",
        CPUFREQ.format(1, "scaling_cur_freq"): "800000",
        "/sys/devices/system/cpu/intel_pstate/no_turbo": "1",
        "/sys/devices/system/node/node1/cpulist": "8-15",
        "/proc/pressure/cpu": "some avg10=1.50 avg60=0.10 avg300=0.00 total=1",
        "/proc/stat": "cpu  1 2 3 4 5 6 7 8 9 10\n",
        "/proc/self/status": "Cpus_allowed:\t0000,000000ff\n",
        "/sys/kernel/mm/transparent_hugepage/enabled": "always [madvise] never",
    }
    host = CapturedHost(files, {})
    found = {name: guarded(read, host).value for name, read in machine.probes(host).items()}
    assert (found["cpu.model"], found["cpu.cores"], found["cpu.usable_cores"]) == ("Some: CPU", 2, 8)
    assert found["cpu.governor"] == {"performance": 1, "powersave": 1}
    assert found["cpu.frequency"] == {"low": 800.0, "middle": 2400.0, "high": 2400.0}
    assert (found["cpu.boost"], found["numa.nodes"], found["pressure.cpu"]) == ("off", {"node1": "8-15"}, 1.5)
    assert (found["cpu.steal"], found["cpu.softirq"], found["memory.huge_pages"]) == (8, 7, "madvise")


def test_torch_is_not_imported_for_the_question():
    code = "import sys; from wingbeat import probe; f = probe.fingerprint(); assert 'torch' not in sys.modules; "
    code += "print(f['torch.threads'].state)"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "not applicable"


@pytest.mark.parametrize("path", sorted(Path(probe.__file__).parent.rglob("*.py")), ids=lambda path: path.stem)
def test_what_is_sent_to_other_machines_is_python_3_8(path):
    ast.parse(path.read_text(encoding="utf-8"), feature_version=(3, 8))

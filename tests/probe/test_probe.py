import json
import subprocess
import sys

import pytest

from wingbeat import probe
from wingbeat.probe import machine, software
from wingbeat.probe.reading import Reading, guarded, not_applicable, unknown


def test_a_fingerprint_reads_this_machine():
    found = probe.fingerprint()
    assert found["python"].value.startswith("CPython 3.")
    assert found["cpu.usable_cores"].value >= 1
    assert found["installed.torch"].state == "value"
    assert all(reading.state != "error" for reading in found.values()), found
    assert json.loads(json.dumps(probe.to_json(found)))["os"]["state"] == "value"


def test_a_probe_that_fails_is_a_reading():
    absent = not_applicable("no such thing")
    found = probe.fingerprint({"bad": lambda: 1 / 0, "good": lambda: 0, "none": lambda: absent})
    assert found["bad"] == Reading("error", reason="ZeroDivisionError: division by zero")
    assert found["good"] == Reading("value", 0)
    assert probe.to_json(found) == {
        "bad": {"state": "error", "reason": "ZeroDivisionError: division by zero"},
        "good": {"state": "value", "value": 0},
        "none": {"state": "not applicable", "reason": "no such thing"},
    }


def test_unknown_never_equals_unknown():
    value, other = Reading("value", 3), Reading("value", 4)
    assert value.same(value) is True
    assert value.same(other) is False
    assert value.same(not_applicable("x")) is False
    assert not_applicable("x").same(not_applicable("y")) is True
    for missing in (unknown("x"), Reading("error", reason="x")):
        assert missing.same(missing) is None
        assert value.same(missing) is None


def test_without_proc_the_fields_are_unknown(tmp_path):
    for read in (machine.boot_id, machine.cpu_model, machine.memory_bytes):
        assert guarded(lambda read=read: read(tmp_path)).state == "unknown"


def test_proc_files_of_another_kind_of_machine(tmp_path):
    (tmp_path / "cpuinfo").write_text("processor : 0\nBogoMIPS : 50\n")
    (tmp_path / "meminfo").write_text("MemFree: 3 kB\n")
    assert machine.cpu_model(tmp_path).state == "unknown"
    assert machine.memory_bytes(tmp_path).state == "unknown"
    (tmp_path / "cpuinfo").write_text("model name\t: Some: CPU\n")
    (tmp_path / "meminfo").write_text("MemTotal:   2048 kB\n")
    assert machine.cpu_model(tmp_path) == "Some: CPU"
    assert machine.memory_bytes(tmp_path) == 2048 * 1024


def test_torch_is_not_imported_for_the_question():
    code = "import sys; from wingbeat import probe; f = probe.fingerprint(); assert 'torch' not in sys.modules; "
    code += "print(f['torch.threads'].state)"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "not applicable"


def test_a_package_that_is_not_there_is_not_applicable():
    assert software.installed("no-such-distribution-here").state == "not applicable"


@pytest.fixture
def checkout(tmp_path):
    def git(*arguments):
        identity = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
        subprocess.run(["git", "-C", str(tmp_path), *identity, *arguments], check=True, capture_output=True)

    git("init")
    (tmp_path / "__init__.py").write_text("")
    git("add", "__init__.py")
    git("commit", "-m", "x")
    return tmp_path


def test_the_state_of_a_checkout(checkout):
    clean = software.git_commit(checkout)
    assert len(clean) == 40
    (checkout / "__init__.py").write_text("changed")
    assert software.git_commit(checkout) == f"{clean}+changes"


def test_a_package_outside_or_ignored_by_a_checkout_has_no_commit(checkout, tmp_path_factory):
    inside = checkout / "site-packages"
    inside.mkdir()
    assert "no part of it" in software.git_commit(inside).reason
    assert software.git_commit(tmp_path_factory.mktemp("elsewhere")).state == "not applicable"

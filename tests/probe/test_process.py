"""A real server process with children, read from outside."""

import os
import subprocess
import sys
import time

import pytest

from wingbeat.probe import collect, difference, libraries, model_files, process
from wingbeat.probe.host import CapturedHost, Host, NotReadError
from wingbeat.probe.process import Target
from wingbeat.probe.reading import guarded

CHILD = "import ctypes, sys; ctypes.CDLL('libgomp.so.1'); print(flush=True); sys.stdin.read()"
SERVER = f"""
import os, subprocess, sys
os.environ.pop("NCCL_PROTO")
workers = []
for rank in range(2):
    variables = dict(os.environ, NCCL_ALGO=("Ring", "Tree")[rank], VLLM_WORKER="yes")
    workers.append(subprocess.Popen([sys.executable, "-c", {CHILD!r}], env=variables, stdin=subprocess.PIPE))
print("ready", flush=True)
sys.stdin.read()
[worker.stdin.close() for worker in workers]
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    variables = {"PATH": os.environ["PATH"], "HOME": str(tmp_path_factory.mktemp("home")), "NCCL_PROTO": "LL"}
    variables |= {"NCCL_DEBUG": "WARN", "VLLM_API_KEY": "swordfish", "EDITOR": "vi"}
    argv = [sys.executable, "-c", SERVER, "--model", "some/model", "--api-key", "swordfish", "--max-tokens", "64"]
    child = subprocess.Popen(argv, env=variables, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    lines = {child.stdout.readline().strip() for _ in range(3)}
    assert "ready" in lines
    yield child
    child.stdin.close()
    child.wait(timeout=20)


@pytest.fixture(scope="module")
def found(server):
    return collect.take(collect.Request(pid=server.pid))


def test_its_arguments_and_limits(server, found):
    argv = found["process.argv"].value
    assert argv[3:] == ["--model", "some/model", "--api-key", "[redacted]", "--max-tokens", "64"]
    assert found["process.pid"].value == server.pid
    assert os.path.realpath(found["process.executable"].value) == os.path.realpath(sys.executable)
    assert found["process.uptime"].value < 600
    assert found["process.threads"].value == 1
    assert found["model.name"].value == "some/model"
    assert {found[f"model.{name}"].state for name in model_files.FIELDS} == {"unknown"}


def test_its_environment_without_secrets(found):
    assert found["env.NCCL_PROTO"].value == "LL"
    assert found["env.VLLM_API_KEY"].state == "unknown"
    assert "env.EDITOR" not in found
    assert "swordfish" not in str(found)


def test_its_children(found):
    assert found["workers.count"].value == 2
    assert found["workers.lost"].value == ["NCCL_PROTO"]
    assert found["workers.skew"].value == ["NCCL_ALGO"]
    assert found["workers.env.NCCL_ALGO"].value == ["Ring", "Tree"]
    assert found["workers.env.VLLM_WORKER"].value == "yes"
    assert "workers.env.NCCL_DEBUG" not in found
    assert found["workers.env.NCCL_PROTO"].state == "not applicable"
    assert found["workers.environ"].value == 2


def test_libraries_that_a_child_has_loaded(found):
    assert ", build " in found["loaded.gomp"].value
    assert "libgomp" in found["loaded.gomp"].raw


def test_a_process_that_is_not_there():
    gone = subprocess.Popen(["true"])
    gone.wait()
    found = collect.take(collect.Request(pid=gone.pid))
    assert found["process.pid"].reason == f"there is no process {gone.pid}; give the id of the server"
    assert found["process.maps"].state == "unknown"
    assert found["boot_id"].state == "value"


def test_children_of_all_generations():
    stat = "{} (a) b) S {} 0 0"
    files = {f"/proc/{pid}/stat": stat.format(pid, parent) for pid, parent in ((2, 1), (3, 2), (4, 3), (5, 1))}
    assert process.children(CapturedHost(files, {}), 2) == (3, 4)


def test_another_users_environment_is_unknown():
    class Forbidding(CapturedHost):
        def _read(self, path):
            if path.endswith("environ"):
                raise PermissionError(path)
            return super()._read(path)

    host = Forbidding({"/proc/9/cmdline": "serve\0", "/proc/9/status": "Threads: 1"}, {})
    found = process.probes(host, Target(9, (10,)))
    assert found["process.environ"].reason == "no permission to read /proc/9/environ"
    assert not [name for name in found if name.startswith("env.")]
    assert found["workers.skew"].state == found["workers.lost"].state == "unknown"
    assert difference.missing("workers.env.NCCL_PROTO", found).state == "unknown"
    alone = process.probes(host, Target(9))
    assert difference.missing("workers.env.NCCL_PROTO", alone).state == "not applicable"


def test_what_watches_a_process():
    host = CapturedHost({"/proc/9/status": "TracerPid:\t0\n", "/proc/8/status": "TracerPid:\t7\n"}, {})
    assert process.observers(host, Target(9)).state == "unknown"
    assert process.observers(host, Target(8)) == ["traced by 7"]
    assert process.observers(host, Target(9, here=True)) == []
    sys.setprofile(lambda *event: None)
    try:
        inside = Target.of(Host(), None)
    finally:
        sys.setprofile(None)
    assert "a profile function of Python" in inside.observers


def test_nccl_files_of_all_three_places(tmp_path):
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/nccl.conf").write_text("# note\nNCCL_PROTO=LL\n\n")
    (tmp_path / "named").write_text("NCCL_ALGO=Ring")
    (tmp_path / "proc/4").mkdir(parents=True)
    (tmp_path / "proc/4/environ").write_text("HOME=/home/x\0NCCL_CONF_FILE=/named\0")
    host = Host(str(tmp_path))
    found = {name: guarded(read, host) for name, read in process.nccl_files(host, Target(4)).items()}
    assert found["nccl.conf.system"].value == ["NCCL_PROTO=LL"]
    assert found["nccl.conf.named"].value == ["NCCL_ALGO=Ring"]
    assert found["nccl.conf.user"].state == "not applicable"


def test_versions_of_libraries(tmp_path):
    packages = tmp_path / "lib/python3.11/site-packages"
    (packages / "nvidia/nccl/lib").mkdir(parents=True)
    (packages / "nvidia_nccl_cu12-2.27.5.dist-info").mkdir()
    nccl = packages / "nvidia/nccl/lib/libnccl.so.2"
    nccl.write_bytes(b"\x7fELF" + b"\x04\0\0\0\x14\0\0\0\x03\0\0\0GNU\0" + bytes(range(20)))
    (tmp_path / "libcuda.so.590.48.01").write_bytes(b"no note")
    (tmp_path / "libcuda.so.1").symlink_to("libcuda.so.590.48.01")
    host = Host(str(tmp_path))
    inside = "/lib/python3.11/site-packages/nvidia/nccl/lib/libnccl.so.2"
    assert libraries.describe(host, inside) == "2.27.5, build 000102030405"
    assert libraries.describe(host, "/libcuda.so.1") == "590.48.01, 7 bytes"
    with pytest.raises(NotReadError, match=r"libnccl\.so\.2 was replaced on disk"):
        libraries.describe(host, f"{inside} (deleted)")
    (tmp_path / "proc/3").mkdir(parents=True)
    (tmp_path / "proc/3/maps").write_text(f"7f00-7f01 r-xp 0 0:0 1   {inside}\n7f02-7f03 r-xp 0 0:0 2   /x (deleted)\n")
    assert libraries.loaded(host, Target(3))["loaded.nccl"].value == "2.27.5, build 000102030405"
    nccl.unlink()
    assert libraries.loaded(host, Target(3))["loaded.nccl"].state == "unknown"


def test_what_a_hidden_child_has_loaded_is_unknown():
    files = {"/proc/3/maps": "7f00-7f01 r-xp 0 0:0 1   /x/libgomp.so.1\n", "/proc/4/stat": ""}
    found = libraries.loaded(CapturedHost(files, {}), Target(3, (4, 5)))  # 5 has ended
    assert found["process.maps"].reason == "/proc/4/maps is not there"
    assert difference.missing("loaded.nccl", found).state == "unknown"
    assert libraries.loaded(CapturedHost(files, {}), Target(3, (5,)))["process.maps"].value == 1


@pytest.fixture
def stranger(tmp_path):
    """A machine with another user's process: what it was started with can be read, its links cannot."""
    (tmp_path / "proc/9").mkdir(parents=True)
    (tmp_path / "proc/9/cmdline").write_text("serve\0--model\0/m\0--api-key\0swordfish\0--password=a swordfish\0")
    (tmp_path / "m").mkdir()
    (tmp_path / "m/config.json").write_text("{}")
    return Host(str(tmp_path))


def test_a_model_by_its_path_does_not_need_the_folder_of_the_process(stranger):
    found = collect.group(stranger, "models", Target(9), collect.Request())
    assert (found["model.config"].value, found["model.weights"].state) != (None, "unknown")
    assert "swordfish" not in str(found)
    assert collect.group(stranger, "checkout", Target(9), collect.Request())["probe.checkout"].state == "unknown"


def test_arguments_leave_no_raw_text_and_a_failed_group_no_secret(stranger, monkeypatch):
    monkeypatch.setitem(collect.GROUPS, "process", lambda host, *_: {"process.argv": lambda: process.argv(host, 9)})
    found = collect.group(stranger, "process", Target(9), collect.Request())["process.argv"]
    assert found.value[-2:] == ["[redacted]", "--password=[redacted]"]
    assert (found.source, found.raw) == ("/proc/9/cmdline", "")

    def fail(host, target, request):
        raise ValueError(" ".join(process.argv(host, 9)[:5]))

    monkeypatch.setitem(collect.GROUPS, "process", fail)
    made = collect.group(stranger, "process", Target(9), collect.Request())["probe.process"]
    assert made.reason.endswith("--api-key [redacted]")
    assert "swordfish" not in str(made)


def test_files_that_arguments_name_are_hashed(tmp_path):
    (tmp_path / "proc/9").mkdir(parents=True)
    (tmp_path / "proc/9/cwd").symlink_to("/app")
    (tmp_path / "proc/9/cmdline").write_text("python\0serve.py\0--chat-template=/t.jinja\0--port\01\0--key\0/secret\0")
    (tmp_path / "app").mkdir()
    for name in ("app/serve.py", "t.jinja", "secret"):
        (tmp_path / name).write_text("1")
    host = Host(str(tmp_path))
    before = process.named_files(host, 9)
    assert [line.split(" sha256:")[0] for line in before] == ["/app/serve.py", "/t.jinja"]
    (tmp_path / "t.jinja").write_text("2")
    after = process.named_files(host, 9)
    assert (before[0] == after[0], before[1] == after[1]) == (True, False)


def test_uptime_grows():
    first = process.uptime(Host(), os.getpid())
    time.sleep(0.05)
    assert process.uptime(Host(), os.getpid()) > first

"""A real server process with children, read from outside."""

import os
import subprocess
import sys
import time

import pytest

from wingbeat.probe import collect, libraries, process
from wingbeat.probe.host import CapturedHost, Host
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
    assert found["model.weights"].state == "not applicable"


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
    assert libraries.describe(host, f"{inside} (deleted)") == "libnccl.so.2, replaced on disk since it was loaded"
    (tmp_path / "proc/3").mkdir(parents=True)
    (tmp_path / "proc/3/maps").write_text(f"7f00-7f01 r-xp 0 0:0 1   {inside}\n7f02-7f03 r-xp 0 0:0 2   /x (deleted)\n")
    assert libraries.loaded(host, Target(3))["loaded.nccl"].value == "2.27.5, build 000102030405"


def test_uptime_grows():
    first = process.uptime(Host(), os.getpid())
    time.sleep(0.05)
    assert process.uptime(Host(), os.getpid()) > first

"""Processes in containers, asked from outside, and the limits of all control groups around them."""

import os
import subprocess
import sys

import pytest
from test_surroundings import V1, V2, read

from wingbeat.probe import collect, container
from wingbeat.probe.host import CapturedHost, Host, Inside, NotReadError, files_of
from wingbeat.probe.process import Target

POD = "/sys/fs/cgroup/kubepods/pod1"
ROOT = "22 1 0:30 / / rw - {} x rw"


def test_every_group_above_bounds_a_process():
    files = {
        **V2, f"{POD}/box/cpu.max": "max 100000", "/sys/fs/cgroup/kubepods/cpu.max": "400000 100000",
        f"{POD}/memory.max": "1000", "/sys/fs/cgroup/kubepods/memory.max": "2000",
        f"{POD}/cpu.stat": "nr_throttled 1\nthrottled_usec 500", "/sys/fs/cgroup/cpu.stat": "usage_usec 9",
    }  # fmt: skip
    found = read(container.probes(CapturedHost(files, {}), 7), CapturedHost({}, {}))
    assert (found["cgroup.cpu.quota"].value, found["cgroup.memory.limit"].value) == (1.5, 1000)
    assert found["cgroup.cpu.throttled"].value == {"times": 5, "us": 3000}
    above = {"/sys/fs/cgroup/cpu/cpu.cfs_quota_us": "50000", "/sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000"}
    assert container.cpu_quota(CapturedHost({**V1, **above}, {}), 7) == 0.5


def test_a_group_that_is_not_seen_from_here():
    with pytest.raises(NotReadError, match="lies outside"):
        container.cpu_quota(CapturedHost({**V2, "/proc/7/cgroup": "0::/../other"}, {}), 7)


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"/proc/7/cgroup": "0::/", "/proc/7/mountinfo": ROOT.format("overlay")}, "unnamed, by its overlay root"),
        ({"/proc/7/cgroup": "0::/", "/run/secrets/kubernetes.io/x": ""}, "kubepods"),
        ({"/proc/7/cgroup": "0::/system.slice/docker-0123456789abcdef.scope"}, "docker"),
        ({"/proc/7/cgroup": "0::/system.slice/docker.service", "/proc/7/mountinfo": ROOT.format("ext4")}, "none"),
        ({"/proc/7/cgroup": "0::/lxc.payload.x/init"}, "lxc"),
        ({"/proc/7/cgroup": "0::/x:cri-containerd:y"}, "containerd"),
    ],
)
def test_kinds_of_containers(files, expected):
    assert container.container(CapturedHost(files, {}), 7) == expected


def test_a_container_that_is_not_told():
    with pytest.raises(NotReadError):
        container.container(CapturedHost({"/proc/7/cgroup": "0::/"}, {}), 7)


CONFINED = "import os, sys; os.chroot(sys.argv[1]); os.chdir('/'); print('ready', flush=True); sys.stdin.read()"


@pytest.fixture
def confined(tmp_path):
    """A process in a root of its own, with other files than those outside."""
    for name, text in {"etc/nccl.conf": "NCCL_PROTO=LL", ".dockerenv": "", "real/config.json": "{}"}.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "model").symlink_to("/real")
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "up").symlink_to("../../etc/./nccl.conf")
    argv = [sys.executable, "-c", CONFINED, str(tmp_path), "--model", "/model"]
    child = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    ready = child.stdout.readline()
    yield child.pid if ready else pytest.skip("another root is not permitted here")
    child.stdin.close()
    child.wait(timeout=20)


def test_a_process_with_files_of_its_own_is_asked_about_those(confined):
    target = Target(confined)
    found = {}
    for name in ("process", "container", "models", "checkout"):
        found.update(collect.group(Host(), name, target, collect.Request()))
    assert found["nccl.conf.system"].value == ["NCCL_PROTO=LL"]
    assert found["container"].value == "docker"
    assert (found["model.config"].state, found["model.folder"].value) == ("value", "/real")
    assert found["git.commit"].reason == "git cannot be asked from outside about what a container holds"
    assert found["process.argv"].value[-1] == "/model"
    inside = files_of(Host(), confined)
    assert inside.text("/up") == "NCCL_PROTO=LL"
    assert inside.paths("/etc/*") == ["/etc/nccl.conf"]
    assert inside.paths(f"/proc/{confined}/stat") == [f"/proc/{confined}/stat"]
    with pytest.raises(NotReadError, match="a link to itself"):
        inside.text("/loop")


def test_a_process_that_sees_the_same_files_is_asked_about_them():
    host = Host()
    assert files_of(host, os.getpid()) is host
    gone = subprocess.Popen(["true"])
    gone.wait()
    assert files_of(host, gone.pid) is host


@pytest.mark.parametrize(("status", "kind"), [("NSpid:\t7\t1", Inside), ("NSpid:\t7", Host)])
def test_a_container_of_another_user_by_its_process_ids(tmp_path, monkeypatch, status, kind):
    (tmp_path / "proc/7").mkdir(parents=True)
    (tmp_path / "proc/7/status").write_text(status)

    def refuse(path):
        raise PermissionError(path)

    monkeypatch.setattr("os.readlink", refuse)
    assert type(files_of(Host(str(tmp_path)), 7)) is kind

"""Fingerprints over a real ssh server on this machine, with what goes wrong there; all keys are made for the test."""

import getpass
import json
import os
import shutil
import socket
import subprocess
import sys
import time
from glob import glob
from pathlib import Path

import pytest
from smi import gpu, log

from wingbeat.errors import ProbeError, UsageError
from wingbeat.probe import collect, document, remote
from wingbeat.probe.collect import GROUPS, Request
from wingbeat.probe.host import Host
from wingbeat.probe.load import Load
from wingbeat.probe.process import Target

SSHD = shutil.which("sshd", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")
TOOLS = [name for name in ("ssh", "ssh-keygen") if not shutil.which(name)] + ([] if SSHD else ["sshd"])
needs_sshd = pytest.mark.skipif(bool(TOOLS), reason=f"not installed: {', '.join(TOOLS)} (Debian: openssh-server)")


class Server:
    """An ssh server of this user on a free port of the loopback, and the ssh command that reaches it."""

    def __init__(self, folder, force=""):
        self.folder = folder
        folder.mkdir()
        for name in ("host", "user", "stranger"):
            keygen = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)]
            subprocess.run(keygen, check=True, stdin=subprocess.DEVNULL)
        with socket.socket() as one:
            one.bind(("127.0.0.1", 0))
            self.port = one.getsockname()[1]
        options = {
            "Port": self.port, "ListenAddress": "127.0.0.1", "HostKey": folder / "host", "PidFile": folder / "pid",
            "AuthorizedKeysFile": folder / "user.pub", "StrictModes": "no", "UsePAM": "no", "PermitRootLogin": "yes",
            "PasswordAuthentication": "no", "KbdInteractiveAuthentication": "no",
        }  # fmt: skip
        options |= {"ForceCommand": force} if force else {}
        (folder / "sshd_config").write_text("".join(f"{name} {value}\n" for name, value in options.items()))
        if os.geteuid() == 0:
            Path("/run/sshd").mkdir(exist_ok=True)
        log = (folder / "log").open("w")
        self.process = subprocess.Popen([SSHD, "-D", "-e", "-f", str(folder / "sshd_config")], stderr=log)
        for _ in range(1200):
            with socket.socket() as one:
                if one.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            time.sleep(0.05)
        raise AssertionError((folder / "log").read_text())

    def ssh(self, key="user", host_key="host", port=None):
        known = self.folder / f"known-{host_key}"
        public = (self.folder / f"{host_key}.pub").read_text()
        known.write_text(f"[127.0.0.1]:{port or self.port} {public}")
        options = {
            "IdentityFile": self.folder / key, "IdentitiesOnly": "yes", "UserKnownHostsFile": known,
            "Port": port or self.port, "StrictHostKeyChecking": "yes", "User": getpass.getuser(),
            "GlobalKnownHostsFile": "/dev/null",
            "ConnectTimeout": 60,
        }  # fmt: skip
        config = self.folder / f"config-{key}-{host_key}-{port}"
        config.write_text("".join(f"{name} {value}\n" for name, value in options.items()))
        return ("ssh", "-F", str(config), "-o", "BatchMode=yes")

    def stop(self):
        self.process.terminate()
        self.process.wait(timeout=20)


@pytest.fixture(scope="module")
def start(tmp_path_factory):
    running = []

    def begin(force=""):
        running.append(Server(tmp_path_factory.mktemp("ssh") / "server", force))
        return running[-1]

    yield begin
    [server.stop() for server in running]


@pytest.fixture(scope="module")
def server(start):
    return start()


def force(folder, text):
    """A forced command: a shell script that stands in for what the other machine would do."""
    script = folder / "forced"
    script.write_text(f"#!/bin/sh\n{text}\n")
    script.chmod(0o755)
    return str(script)


@needs_sshd
def test_another_machine_without_a_process(server):
    found, notes = remote.take("127.0.0.1", Request(), ssh=server.ssh())
    assert found["boot_id"].value == Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    assert found["gpu.count"].state in ("value", "not applicable")
    assert not [name for name in found if name.startswith(("process.", "installed.", "probe."))]
    assert notes == [remote.NO_PROCESS]


@needs_sshd
def test_a_process_there_and_its_model(server, tmp_path):
    (tmp_path / "config.json").write_text("{}")
    variables = {"PATH": os.environ["PATH"], "NCCL_PROTO": "LL", "HF_TOKEN": "swordfish"}
    there = subprocess.Popen(["sleep", "60"], env=variables)
    try:
        request = Request(pid=there.pid, models={"model": str(tmp_path)})
        found, notes = remote.take("127.0.0.1", request, ssh=server.ssh())
    finally:
        there.kill()
        there.wait()
    assert found["process.argv"].value == ["sleep", "60"]
    assert found["env.NCCL_PROTO"].value == "LL"
    assert found["env.HF_TOKEN"].state == "unknown"
    assert found["model.config"].state == "value"
    assert "swordfish" not in str(found)
    assert notes == []
    assert not [name for name in found if name.startswith("probe.")]


@needs_sshd
def test_under_load_there(server):
    load = Load((sys.executable, "-c", "import time; time.sleep(1.5)"), 3.0)
    found, _ = remote.take("127.0.0.1", Request(), load, ssh=server.ssh())
    assert found["load.samples"].value >= 1
    assert found["load.seconds"].value < 30


def failure(ssh, host="127.0.0.1", timeout=60.0):
    with pytest.raises(ProbeError) as caught:
        remote.take(host, Request(), timeout=timeout, ssh=ssh)
    return str(caught.value)


@needs_sshd
def test_what_cannot_be_reached_is_said_clearly(server):
    assert "no machine of this name is known" in failure(server.ssh(), "no-such-machine.invalid")
    assert "the key was refused; `ssh 127.0.0.1 true` must work" in failure(server.ssh(key="stranger"))
    assert "connect once by hand" in failure(server.ssh(host_key="stranger"))
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        assert "nothing listens there" in failure(server.ssh(port=unused.getsockname()[1]))


@needs_sshd
def test_a_machine_that_never_answers(start, tmp_path):
    slow = start(force(tmp_path, "exec sleep 60"))
    assert "no end within 2 s (--timeout)" in failure(slow.ssh(), timeout=2.0)


@needs_sshd
def test_a_machine_that_answers_something_else(start, tmp_path):
    odd = start(force(tmp_path, "echo This account is not available."))
    assert "'This account is not available.'" in failure(odd.ssh())


@pytest.fixture
def half(tmp_path):
    """What had come when two of the groups were there, the third cut in the middle."""
    request = Request(pid=os.getpid())
    sent = remote.script(request)
    done = subprocess.run([sys.executable, "-"], input=sent, capture_output=True, text=True, check=True)
    first, second, *_ = done.stdout.splitlines()
    (tmp_path / "half").write_text(f"Welcome\n{first}\n{second}\n{remote.MARK}{{cut")
    return tmp_path / "half"


def check_half(ssh, timeout, said):
    found, notes = remote.take("127.0.0.1", Request(pid=os.getpid()), timeout=timeout, ssh=ssh)
    missing = [name for name in GROUPS if f"probe.{name}" in found]
    assert len(missing) == len(GROUPS) - 2
    assert said in notes[0]
    assert all(name in notes[0] for name in missing)
    assert {found[f"probe.{name}"].state for name in missing} == {"unknown"}
    assert len(found) > len(missing)


@needs_sshd
def test_what_had_come_before_the_end_is_kept(start, tmp_path, half):
    check_half(start(force(tmp_path, f"cat {half}")).ssh(), 60.0, "stopped early")


def test_what_had_come_before_the_time_was_over_is_kept(tmp_path, half):
    check_half((force(tmp_path, f"cat {half}; exec sleep 60"),), 8.0, "no end within 8 s (--timeout)")


def bare(folder, *more):
    """A folder of tools without Python, and the forced command that finds nothing else."""
    tools = folder / "tools"
    tools.mkdir()
    for name in ("sh", "cat", "readlink", "uname", "echo", "printf", "sleep"):
        (tools / name).symlink_to(shutil.which(name))
    for path in more:
        (tools / path.name).symlink_to(path)
    return tools, force(folder, f'PATH={tools} exec sh -c "$SSH_ORIGINAL_COMMAND"')


@needs_sshd
def test_without_python_its_shell_tells_a_part(start, tmp_path):
    tools, command = bare(tmp_path)
    (tools / "nvidia-smi").write_text(f"#!/bin/sh\ncase \"$*\" in '-q -x') cat {tmp_path}/log;; *) exit 3;; esac\n")
    (tools / "nvidia-smi").chmod(0o755)
    (tmp_path / "log").write_text(log(gpu()))
    found, notes = remote.take("127.0.0.1", Request(), ssh=start(command).ssh())
    assert found["boot_id"].value == Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    assert found["cpu.cores"].value >= 1
    assert (found["gpu.count"].value, found["gpu.0.clock.sm"].value) == (1, 1755)
    assert found["kernel.errors"].reason == "dmesg is not installed"
    assert found["probe.packages"].reason == "no Python was found there"
    assert notes[0].startswith("Partial: no Python was found there.")


def everything(**files):
    """What the shell of a machine with many files but few tools prints."""
    texts = {"/proc/sys/kernel/random/boot_id": "b1", "/proc/version": "Linux", **files}
    parts = [f"@wingbeat file {path}\n{text}\n\n@wingbeat end 0\n" for path, text in texts.items()]
    return "".join(parts) + "@wingbeat command uname -srm\nLinux\n\n@wingbeat end 0\n"


def test_what_the_shell_did_not_come_to_is_unknown_and_not_absent():
    whole = remote.captured(everything() + "@wingbeat done\n")
    assert whole["gpu.count"].state == whole["nvidia.module"].state == whole["board"].state == "not applicable"
    cut = remote.captured(everything() + "@wingbeat command nvidia-smi -q -x\n<?xml")
    assert {cut[name].state for name in ("gpu.count", "nvidia.module", "board")} == {"unknown"}
    assert cut["boot_id"].value == "b1"
    governor = "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"
    early = everything(**{governor: "performance"}).partition("@wingbeat command")[0]
    assert remote.captured(early)["cpu.governor"].state == "unknown"
    late = remote.captured(everything(**{governor: "performance"}))
    assert (late["cpu.governor"].value, late["bus.acs"].state) == ("performance", "unknown")
    present = everything(**{"/sys/module/nvidia/version": "590.48.01"})
    assert remote.captured(present)["nvidia.module.on_disk"].reason.endswith(remote.CUT)


def test_the_shell_tells_what_python_would():
    done = subprocess.run(["sh", "-s"], input=remote.CAPTURE, capture_output=True, text=True, check=True)
    found, here = remote.captured(done.stdout), collect.group(Host(), "bus", Target(1), Request())
    for name in ("iommu", "aspm", "bus.acs", "nvidia.module.pending", "amdgpu.module.pending"):
        assert (found[name].state, found[name].value) == (here[name].state, here[name].value), name


def printing(folder, text):
    """Stands in for ssh: prints a text, whatever it is sent."""
    (folder / "answer").write_text(text)
    return (force(folder, f"cat >/dev/null; cat {folder / 'answer'}"),)


def test_without_python_nothing_is_read_under_load_and_that_is_said(tmp_path):
    ssh = printing(tmp_path, f"{remote.NO_PYTHON}\n{everything()}@wingbeat done\n")
    found, notes = remote.take("machine", Request(), Load(("true",)), ssh=ssh)
    assert found["load.samples"].reason == "no Python was found there"
    assert "Nothing was read under load: no Python was found there." in notes
    assert not any("under load" in note for note in remote.take("machine", Request(), ssh=ssh)[1])


def test_a_fingerprint_may_quote_what_is_said_where_there_is_no_python(tmp_path):
    fields = {"git.diff": {"state": "value", "value": "a", "raw": f"+{remote.NO_PYTHON}\n"}}
    lines = [{"group": "checkout", "fields": fields}, {"group": remote.END}]
    ssh = printing(tmp_path, "".join(f"{remote.MARK}{json.dumps(line)}\n" for line in lines))
    assert remote.take("machine", Request(), ssh=ssh)[0]["git.diff"].value == "a"


def test_where_others_compute_what_was_read_without_load_is_kept(tmp_path):
    fields = {"boot_id": {"state": "value", "value": "b1"}}
    lines = [{"group": "machine", "fields": fields}, {"busy": "gpu.0: 1 other"}, {"group": remote.END}]
    ssh = printing(tmp_path, "".join(f"{remote.MARK}{json.dumps(line)}\n" for line in lines))
    found, notes = remote.take("machine", Request(), Load(("true",)), ssh=ssh)
    assert found["boot_id"].value == "b1"
    assert found["load.samples"].reason == "gpu.0: 1 other"
    assert "Nothing was read under load: gpu.0: 1 other." in notes


PYENV = f"{Path.home()}/.pyenv/versions"
OLD = [path for version in ("2.7", "3.6", "3.7") for path in glob(f"{PYENV}/{version}*/bin/python")]
NEW = glob(f"{PYENV}/3.*/bin/python") + glob("/usr/bin/python3.[0-9]*[0-9]") + [sys.executable]
NEW = sorted({os.path.realpath(path): path for path in NEW if path not in OLD}.values())


@needs_sshd
@pytest.mark.skipif(not OLD, reason="no Python before 3.8 on this machine")
def test_a_python_that_is_too_old_says_so(start, tmp_path):
    tools, command = bare(tmp_path)
    (tools / "python3").symlink_to(OLD[-1])
    found, notes = remote.take("127.0.0.1", Request(), ssh=start(command).ssh())
    assert "and 3.8 or newer is needed" in notes[0]
    assert found["boot_id"].state == "value"


@pytest.mark.parametrize("python", OLD)
def test_the_script_tells_old_pythons_what_it_needs(python):
    done = subprocess.run([python, "-"], input=remote.script(Request()), capture_output=True, text=True, check=True)
    assert done.stdout.startswith(remote.TOO_OLD)
    assert done.stderr == ""


@pytest.mark.parametrize("python", NEW)
def test_the_script_runs_alone_on_this_python(python, tmp_path):
    sent = remote.script(Request(pid=os.getpid()))
    done = subprocess.run([python, "-I", "-"], input=sent, capture_output=True, text=True, check=True, cwd=tmp_path)
    lines = [json.loads(line[len(remote.MARK) :]) for line in done.stdout.splitlines()]
    assert {line["group"] for line in lines} == {*GROUPS, remote.END}
    states = {name: entry for line in lines for name, entry in line.get("fields", {}).items()}
    assert [name for name, entry in states.items() if entry["state"] == "error"] == []
    assert states["boot_id"]["state"] == "value"
    assert done.stderr == ""


@pytest.mark.parametrize("host", ["", "-oProxyCommand=touch x", "a b"])
def test_a_name_that_is_no_name(host):
    with pytest.raises(UsageError, match="is not a machine's name"):
        remote.take(host, Request())


def test_without_ssh_there_is_advice():
    with pytest.raises(ProbeError, match="ssh is not installed on this machine"):
        remote.take("machine", Request(), ssh=("no-such-ssh-here",))


@needs_sshd
def test_the_command_over_ssh(server, tmp_path):
    (tmp_path / "ssh").write_text(f'#!/bin/sh\nexec {shutil.which("ssh")} {" ".join(server.ssh()[1:3])} "$@"\n')
    (tmp_path / "ssh").chmod(0o755)
    variables = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    out = tmp_path / "there.json"
    argv = [sys.executable, "-m", "wingbeat", "fingerprint", "--ssh", "127.0.0.1", "--out", str(out)]
    if not (Path(document.__file__).parents[1] / "__main__.py").exists():
        argv[1:3] = ["-c", "from wingbeat.cli.main import main; main()"]
    done = subprocess.run(argv, env=variables, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "Fingerprint of 127.0.0.1, " in done.stdout
    assert "No process was named" in done.stdout
    assert document.load(out).readings["boot_id"].state == "value"

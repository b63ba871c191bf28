"""A fingerprint of another machine: this package's own source, sent over the system's ssh to a Python there.

Nothing is installed and nothing is written there. Where there is no Python of 3.8 or newer, a plain shell reads a few
files and asks the devices' tools, and the same parsers read the answers here.
"""

from __future__ import annotations

import base64
import json
import re
import subprocess
import tempfile
import zlib
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Sequence

from wingbeat.errors import ProbeError, UsageError
from wingbeat.probe import from_json
from wingbeat.probe.collect import GROUPS, Request, group, names
from wingbeat.probe.far_side import END, MARK
from wingbeat.probe.host import CapturedHost
from wingbeat.probe.load import Load
from wingbeat.probe.process import Target
from wingbeat.probe.reading import Reading, Readings, unknown

SSH = ("ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10")
NO_PYTHON, TOO_OLD = "wingbeat-no-python", "wingbeat-python-is"
FIND_PYTHON = (
    "exec sh -c 'for python in python3 python; do"
    f' command -v "$python" >/dev/null 2>&1 && exec "$python" -; done; echo {NO_PYTHON}\''
)
BOOT = '''
import sys
if sys.version_info < (3, 8):
    sys.stdout.write("%(old)s %%d.%%d\\n" %% sys.version_info[:2])
    sys.exit(0)
import base64, importlib.abc, importlib.util, json, zlib
FILES = json.loads(zlib.decompress(base64.b64decode("%(files)s")).decode())
class Sent(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name, path=None, target=None):
        return importlib.util.spec_from_loader(name, self, is_package=FILES[name][0]) if name in FILES else None
    def exec_module(self, module):
        exec(compile(FILES[module.__name__][1], module.__name__, "exec"), module.__dict__)
sys.meta_path.insert(0, Sent())
from wingbeat.probe.far_side import main
main(json.loads(base64.b64decode("%(request)s").decode()))
'''
NO_PROCESS = "No process was named (--pid): nothing of a server's process, packages, checkout and caches."
NO_LOAD = "Nothing was read under load: {why}."
FAILURES = {  # what ssh says: what to tell
    "Could not resolve hostname": "no machine of this name is known; check it",
    "Permission denied": "the key was refused; `ssh {host} true` must work without a password",
    "Connection refused": "nothing listens there; check the machine's name and port",
    "timed out": "no answer; check that the machine is on and can be reached",
    "No route to host": "there is no way to it; check the network",
    "Host key verification failed": "its key is new or another than before; connect once by hand with `ssh {host}`",
}


def script(request: Request, load: Load | None = None) -> str:
    """The Python program that is sent: all modules of this room, and the request."""
    root = Path(__file__).resolve().parents[1]
    files: dict[str, tuple[bool, str]] = {"wingbeat": (True, "")}
    for path in [root / "errors.py", *sorted((root / "probe").rglob("*.py"))]:
        name = ".".join(("wingbeat", *path.relative_to(root).with_suffix("").parts))
        package = name.endswith(".__init__")
        files[name[: -len(".__init__")] if package else name] = (package, path.read_text(encoding="utf-8"))
    packed = base64.b64encode(zlib.compress(json.dumps(files).encode())).decode()
    asked: dict[str, Any] = {**asdict(request), **({"load": asdict(load)} if load else {})}
    return BOOT % {"old": TOO_OLD, "files": packed, "request": base64.b64encode(json.dumps(asked).encode()).decode()}


def take(
    host: str, request: Request, load: Load | None = None, timeout: float = 60.0, ssh: Sequence[str] = SSH
) -> tuple[Readings, list[str]]:
    """The readings of another machine, and notes about what is missing.

    host: as ssh takes it (name, user@name, ssh://user@name:port); timeout: seconds for all of it. What had come when
    the connection broke or the time was over is kept. Raises ProbeError where nothing came, UsageError for a bad name.
    """
    if not host or host.startswith("-") or re.search(r"\s", host):
        raise UsageError(f"{host!r} is not a machine's name; give it as ssh takes it, such as user@machine")
    request = replace(request, machine_only=request.pid is None)
    output, trouble = _run(host, FIND_PYTHON, script(request, load), timeout, ssh)
    if re.search(rf"^{NO_PYTHON}$", output, re.M):
        return _by_shell(host, "no Python was found there", load, timeout, ssh)
    old = re.search(rf"^{TOO_OLD} (\S+)", output, re.M)
    if old:
        return _by_shell(host, f"the Python there is {old[1]}, and 3.8 or newer is needed", load, timeout, ssh)
    return _received(host, request, output, trouble)


def _received(host: str, request: Request, output: str, trouble: str) -> tuple[Readings, list[str]]:
    readings: Readings = {}
    there = set()
    busy = ""
    for line in output.splitlines():
        entry = _parsed(line)
        busy = entry.get("busy", busy)
        there.add(entry.get("group"))
        readings.update(from_json(entry.get("fields", {})))
    if not readings:
        said = trouble or f"it answered {output.strip()[:200]!r}"
        raise ProbeError(f"cannot take the fingerprint of {host}: {said}")
    notes = [NO_PROCESS] if request.machine_only else []
    if busy:
        notes.append(NO_LOAD.format(why=busy))
        readings["load.samples"] = unknown(busy)
    if END not in there:
        absent = [name for name in names(request) if name not in there]
        why = trouble or "the other side stopped early"
        notes.append(f"Partial: {why}. Not read: {', '.join(absent) or 'the load'}.")
        readings.update({f"probe.{name}": unknown(why) for name in absent})
    return readings, notes


def _parsed(line: str) -> dict[str, Any]:
    """One line of the other side; {} for what shells print when they start, and for a line that was cut."""
    try:
        found = json.loads(line[len(MARK) :]) if line.startswith(MARK) else {}
    except ValueError:
        found = {}
    return found if isinstance(found, dict) else {}


def _run(host: str, command: str, sent: str, timeout: float, ssh: Sequence[str]) -> tuple[str, str]:
    """Runs a command there. What it printed, and what went wrong ("" for nothing)."""
    trouble = ""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        try:
            argv = [*ssh, "--", host, command]
            done = subprocess.run(argv, input=sent.encode(), stdout=out, stderr=err, timeout=timeout, check=False)
            code = done.returncode
        except FileNotFoundError:
            raise ProbeError("ssh is not installed on this machine; install it, or copy the file of --out") from None
        except subprocess.TimeoutExpired:
            code, trouble = 0, f"no end within {timeout:g} s (--timeout)"
        out.seek(0)
        err.seek(0)
        output, errors = out.read().decode("utf-8", "replace"), err.read().decode("utf-8", "replace").strip()
    if code:
        known = next((advice for said, advice in FAILURES.items() if said in errors), "")
        last = errors.splitlines()[-1] if errors else f"exit code {code}"
        trouble = f"{known.format(host=host)} ({last})" if known else last
    return output, trouble


CAPTURE = r"""
file() { [ -r "$1" ] && { printf '@wingbeat file %s\n' "$1"; cat "$1" 2>/dev/null; printf '\n@wingbeat end 0\n'; }; }
ask() { printf '@wingbeat command %s\n' "$*"; "$@" 2>&1 </dev/null; printf '\n@wingbeat end %s\n' "$?"; }
link() { printf '@wingbeat link %s\n%s\n@wingbeat end 0\n' "$1" "$(readlink -f "$1")"; }
there() { [ -e "$1" ] && printf '@wingbeat file %s\n\n@wingbeat end 0\n' "$1"; }
for path in /proc/sys/kernel/random/boot_id /proc/version /proc/cmdline /proc/uptime /proc/cpuinfo /proc/loadavg \
  /proc/meminfo /proc/stat /proc/vmstat /proc/self/status /proc/pressure/* /proc/driver/nvidia/version \
  /proc/driver/nvidia/params /proc/sys/kernel/numa_balancing /sys/module/nvidia/version /sys/module/nvidia/srcversion \
  /sys/module/amdgpu/version /sys/module/amdgpu/srcversion /sys/module/pcie_aspm/parameters/policy \
  /sys/class/dmi/id/board_name /sys/class/dmi/id/bios_version /sys/class/dmi/id/bios_date \
  /sys/kernel/mm/transparent_hugepage/enabled /sys/kernel/iommu_groups/*/type /sys/devices/system/cpu/smt/active \
  /sys/devices/system/cpu/cpufreq/boost /sys/devices/system/cpu/intel_pstate/no_turbo \
  /sys/devices/system/cpu/cpu0/cpuidle/state*/name /sys/devices/system/cpu/cpu0/cpuidle/state*/disable \
  /sys/devices/system/cpu/vulnerabilities/* /sys/devices/system/node/node*/cpulist \
  /sys/devices/system/cpu/cpu*/cpufreq/scaling_governor /sys/devices/system/cpu/cpu*/cpufreq/scaling_cur_freq \
  /sys/devices/system/cpu/cpu*/cpufreq/scaling_max_freq /sys/devices/system/cpu/cpu*/cpufreq/scaling_driver \
  /sys/bus/pci/devices/*/vendor /sys/bus/pci/devices/*/class /sys/bus/pci/devices/*/numa_node \
  /sys/bus/pci/devices/*/current_link_speed /sys/bus/pci/devices/*/current_link_width \
  /sys/bus/pci/devices/*/max_link_speed /sys/bus/pci/devices/*/max_link_width \
  /sys/bus/pci/devices/*/aer_dev_correctable /sys/bus/pci/devices/*/link/* \
  /sys/bus/pci/devices/*/power/control; do file "$path"; done
for path in /sys/kernel/iommu_groups /sys/class/iommu /sys/class/iommu/*; do there "$path"; done
for path in /sys/bus/pci/devices/*; do link "$path"; done
ask uname -srm
ask dmesg --color=never
ask modinfo -F version nvidia
ask modinfo -F srcversion nvidia
ask modinfo -F license nvidia
ask modinfo -F version amdgpu
ask modinfo -F srcversion amdgpu
ask modinfo -F license amdgpu
ask lspci -D -vvv
ask nvidia-smi -q -x
ask nvidia-smi topo -m
ask nvidia-smi topo -p2p r
ask nvidia-smi nvlink --status
ask amd-smi static --json
ask amd-smi metric --json
ask amd-smi process --json
ask amd-smi topology --json
printf '@wingbeat done\n'
"""
CUT = "the answer of its shell ended early"
OF_MANY_FILES = ("cpu.", "numa.nodes", "iommu")
BY_SHELL = ("machine", "bus", "devices")


def _by_shell(host: str, why: str, load: Load | None, timeout: float, ssh: Sequence[str]) -> tuple[Readings, list[str]]:
    output, trouble = _run(host, "exec sh -s", CAPTURE, timeout, ssh)
    readings = captured(output)
    if not readings:
        raise ProbeError(f"cannot take the fingerprint of {host}: {why}, and its shell did not answer ({trouble})")
    notes = [
        f"Partial: {why}. Read by its shell: {', '.join(BY_SHELL)}; nothing of processes, packages, models, caches."
    ]
    if load:
        notes.append(NO_LOAD.format(why=why))
        readings["load.samples"] = unknown(why)
    absent = [name for name in GROUPS if name not in BY_SHELL]
    readings.update({f"probe.{name}": unknown(why) for name in absent})
    return readings, [*notes, *([f"Also, {trouble}."] if trouble else [])]


def captured(output: str) -> Readings:
    """The readings of what the shell script printed; what was cut off is unknown, not absent."""
    kinds: dict[str, dict[str, Any]] = {"file": {}, "command": {}, "link": {}}
    pattern = r"^@wingbeat (file|command|link) ([^\n]*)\n(.*?)\n?@wingbeat end (\d+)$"
    for kind, name, text, code in re.findall(pattern, output, re.M | re.S):
        kinds[kind][name] = text.strip() if code == "0" else (int(code), text.strip())
    if not kinds["file"] and not kinds["command"]:
        return {}
    cut = not re.search(r"^@wingbeat done$", output, re.M)
    early = cut and not kinds["command"]
    if cut:
        asked = re.findall(r"^ask (.*)$", CAPTURE, re.M)
        kinds["command"] = {**dict.fromkeys(asked, (1, CUT)), **kinds["command"]}
    host = CapturedHost(kinds["file"], kinds["command"], kinds["link"])
    found: Readings = {}
    for name in BY_SHELL:
        found.update(group(host, name, Target(0), Request()))
    return {name: unknown(CUT) if cut and _doubtful(name, one, early) else one for name, one in found.items()}


def _doubtful(name: str, reading: Reading, early: bool) -> bool:
    """Whether a reading may come from what was cut off: that something is not there, or the sum of many files."""
    return reading.state == "not applicable" or (early and name.startswith(OF_MANY_FILES))

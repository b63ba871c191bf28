"""The serving process: its arguments, environment, limits, and those of its children; and NCCL's configuration files.

A process's environment in /proc is the one that it was started with; what it sets later shows in children alone.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from functools import partial
from typing import Any

from wingbeat.probe.host import Host, NotReadError
from wingbeat.probe.reading import Probes, Reading, guarded, not_applicable, unknown
from wingbeat.probe.redact import is_secret

PREFIXES = (
    "NCCL_", "RCCL_", "CUDA_", "CUBLAS_", "CUDNN_", "NVIDIA_", "TORCH", "PYTORCH_", "TRITON_", "VLLM_", "SGLANG_",
    "SGL_",
    "FLASHINFER_", "FLASH_ATTENTION_", "LMCACHE_", "TRTLLM_", "DG_", "OMP_", "MKL_", "KMP_", "OPENBLAS_", "GOMP_",
    "LD_", "PYTHON", "VIRTUAL_ENV", "CONDA_PREFIX", "HF_", "HUGGING_FACE_", "TRANSFORMERS_", "TOKENIZERS_", "UCX_",
    "GLOO_", "RAY_", "HSA_", "HIP_", "ROCR_", "ROCM_", "GPU_", "AMD_", "MALLOC_", "JEMALLOC_", "WINGBEAT_",
    "XDG_CACHE_HOME",
)  # fmt: skip
CLOCK_TICKS = 100  # hundredths of a second, as Linux reports times


@dataclass(frozen=True)
class Target:
    """The process that is asked about. children: of all generations. here: whether it is the one that asks."""

    pid: int
    children: tuple[int, ...] = ()
    here: bool = False

    @property
    def pids(self) -> tuple[int, ...]:
        """The process and its children."""
        return (self.pid, *self.children)

    @classmethod
    def of(cls, host: Host, pid: int | None) -> Target:
        """The process `pid` with its children, or this one."""
        return cls(pid or os.getpid(), children(host, pid or os.getpid()), pid is None)


def children(host: Host, pid: int) -> tuple[int, ...]:
    """All processes below one, by their parents in /proc."""
    below: dict[int, list[int]] = {}
    for path in host.paths("/proc/[0-9]*/stat"):
        fields = host.maybe(path).rpartition(")")[2].split()
        if len(fields) > 1:
            below.setdefault(int(fields[1]), []).append(int(path.split("/")[2]))
    found: list[int] = []
    pending = [pid]
    while pending:
        inner = below.get(pending.pop(), [])
        found += inner
        pending += inner
    return tuple(sorted(found))


def probes(host: Host, target: Target) -> Probes:
    """The fields of a process and of its children."""
    place = f"/proc/{target.pid}"
    if not host.exists(place):
        return {"process.pid": unknown(f"there is no process {target.pid}; give the id of the server")}
    return {
        "process.pid": lambda: target.pid,
        "process.argv": partial(argv, host, target.pid),
        "process.executable": lambda: _link(host, f"{place}/exe"),
        "process.folder": lambda: _link(host, f"{place}/cwd"),
        "process.uptime": partial(uptime, host, target.pid),
        "process.affinity": partial(_status, host, target.pid, "Cpus_allowed_list"),
        "process.threads": lambda: int(_status(host, target.pid, "Threads")),
        "process.switches": lambda: int(_status(host, target.pid, "nonvoluntary_ctxt_switches")),
        "process.nice": lambda: int(host.text(f"{place}/stat").rpartition(")")[2].split()[16]),
        "process.locked_memory": partial(_limit, host, target.pid, "Max locked memory"),
        "process.open_files": partial(_limit, host, target.pid, "Max open files"),
        **environment(host, target),
        **workers(host, target),
        **nccl_files(host, target),
    }


def argv(host: Host, pid: int) -> list[str]:
    """The arguments of a process."""
    return host.text(f"/proc/{pid}/cmdline").rstrip("\0").split("\0")


def variables(host: Host, pid: int, here: bool = False) -> dict[str, str]:
    """A process's environment."""
    if here:
        return dict(os.environ)
    entries = host.text(f"/proc/{pid}/environ").split("\0")
    return dict(entry.split("=", 1) for entry in entries if "=" in entry)


def relevant(found: dict[str, str]) -> dict[str, str]:
    """Those that change what a server or its libraries do."""
    return {name: value for name, value in sorted(found.items()) if name.startswith(PREFIXES)}


def environment(host: Host, target: Target) -> Probes:
    """`env.NAME` for every relevant variable, and how many there are."""
    count = guarded(lambda: relevant(variables(host, target.pid, target.here)), host)
    if count.state != "value":
        return {"process.environ": count}
    source = "os.environ" if target.here else count.source
    found: Probes = {"process.environ": Reading("value", len(count.value), source=source)}
    for name, value in count.value.items():
        hidden = is_secret(name, value)
        reading = unknown("set; kept secret") if hidden else Reading("value", value, source=source)
        found[f"env.{name}"] = reading
    return found


def workers(host: Host, target: Target) -> Probes:
    """The children: how many, and where their variables differ from the process's or from one another's."""
    environments = {}
    for pid in target.children:
        read = guarded(partial(variables, host, pid), host)
        if read.state == "value" and read.value:
            environments[pid] = relevant(read.value)
    own = guarded(lambda: relevant(variables(host, target.pid, target.here)), host)
    found: Probes = {"workers.count": lambda: len(target.children)}
    if not target.children:
        none = not_applicable("the process has no children")
        return {**found, "workers.skew": none, "workers.lost": none, "workers.affinity": none, "workers.argv": none}
    found["workers.affinity"] = lambda: sorted({_status(host, pid, "Cpus_allowed_list") for pid in target.children})
    found["workers.argv"] = lambda: [argv(host, pid)[:12] for pid in target.children]
    if not environments or own.state != "value":
        hidden = unknown(own.reason or "the children's environments cannot be read")
        return {**found, "workers.skew": hidden, "workers.lost": hidden}
    names = sorted({name for one in environments.values() for name in one} | set(own.value))
    for name in names:
        values = [one.get(name) for one in environments.values()]
        if all(value == own.value.get(name) for value in values):
            continue
        secret = any(is_secret(name, value or "") for value in values)
        shown = values[0] if len(set(values)) == 1 else values
        found[f"workers.env.{name}"] = unknown("set; kept secret") if secret else Reading("value", shown)
    found["workers.skew"] = lambda: [
        name for name in names if len({one.get(name) for one in environments.values()}) > 1
    ]
    found["workers.lost"] = lambda: [
        name for name in own.value if all(name not in one for one in environments.values())
    ]
    return found


def nccl_files(host: Host, target: Target) -> Probes:
    """NCCL's configuration files, which set what no variable shows."""
    own = guarded(lambda: variables(host, target.pid, target.here))
    places = {"system": "/etc/nccl.conf"}
    if own.state == "value":
        home = own.value.get("HOME")
        places.update({"user": f"{home}/.nccl.conf"} if home else {})
        named = own.value.get("NCCL_CONF_FILE")
        places.update({"named": named} if named else {})
    return {f"nccl.conf.{name}": partial(_lines, host, path) for name, path in places.items()}


def uptime(host: Host, pid: int) -> float:
    """Seconds since the process was started."""
    started = int(host.text(f"/proc/{pid}/stat").rpartition(")")[2].split()[19]) / CLOCK_TICKS
    return round(float(host.text("/proc/uptime").split()[0]) - started, 2)


def _lines(host: Host, path: str) -> Any:
    if not host.exists(path):
        return not_applicable(f"{path} is not there")
    return [line for line in map(str.strip, host.text(path).splitlines()) if line and not line.startswith("#")]


def _status(host: Host, pid: int, name: str) -> str:
    found = re.search(rf"^{name}:\s*(\S+)", host.text(f"/proc/{pid}/status"), re.M)
    if not found:
        raise NotReadError(f"/proc/{pid}/status has no {name}")
    return found[1]


def _limit(host: Host, pid: int, name: str) -> str:
    found = re.search(rf"^{name}\s+(\S+)", host.text(f"/proc/{pid}/limits"), re.M)
    if not found:
        raise NotReadError(f"/proc/{pid}/limits has no {name!r}")
    return found[1]


def _link(host: Host, path: str) -> str:
    try:
        return os.readlink(host.root + path)
    except PermissionError:
        raise NotReadError(f"no permission to read {path}") from None
    except OSError as error:
        raise NotReadError(f"{path}: {error.strerror}") from None

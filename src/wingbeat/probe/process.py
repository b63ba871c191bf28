"""The serving process: its arguments, environment, limits, and those of its children; and NCCL's configuration files.

A process's environment in /proc is the one that it was started with; what it sets later shows in children alone.
"""

from __future__ import annotations

import os
import re
import sys
import threading
from dataclasses import dataclass
from functools import partial
from typing import Any

from wingbeat.probe.host import Host, NotReadError, digest
from wingbeat.probe.reading import Probes, Reading, guarded, not_applicable, unknown
from wingbeat.probe.redact import clean, is_secret

PREFIXES = (
    "NCCL_", "RCCL_", "CUDA_", "CUBLAS_", "CUDNN_", "NVIDIA_", "TORCH", "PYTORCH_", "TRITON_", "VLLM_", "SGLANG_",
    "SGL_",
    "FLASHINFER_", "FLASH_ATTENTION_", "LMCACHE_", "TRTLLM_", "DG_", "OMP_", "MKL_", "KMP_", "OPENBLAS_", "GOMP_",
    "LD_", "PYTHON", "VIRTUAL_ENV", "CONDA_PREFIX", "HF_", "HUGGING_FACE_", "TRANSFORMERS_", "TOKENIZERS_", "UCX_",
    "GLOO_", "RAY_", "HSA_", "HIP_", "ROCR_", "ROCM_", "GPU_", "AMD_", "MALLOC_", "JEMALLOC_", "WINGBEAT_",
    "XDG_CACHE_HOME",
)  # fmt: skip
LARGE = 1 << 24  # bytes from which a file that an argument names is told by its size
CLOCK_TICKS = 100  # hundredths of a second, as Linux reports times


@dataclass(frozen=True)
class Target:
    """The process that is asked about. children: of all generations. here: whether it is the one that asks; observers:
    what watches it from within, which only it can tell, and only in the thread that asks."""

    pid: int
    children: tuple[int, ...] = ()
    here: bool = False
    observers: tuple[str, ...] = ()

    @property
    def pids(self) -> tuple[int, ...]:
        """The process and its children."""
        return (self.pid, *self.children)

    @classmethod
    def of(cls, host: Host, pid: int | None) -> Target:
        """The process `pid` with its children, or this one."""
        inside = _profilers() if pid is None else ()
        return cls(pid or os.getpid(), children(host, pid or os.getpid()), pid is None, inside)


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
        **({} if target.here else {"process.files": partial(named_files, host, target.pid)}),
        "process.observers": partial(observers, host, target),
        "process.executable": lambda: link(host, f"{place}/exe"),
        "process.folder": lambda: link(host, f"{place}/cwd"),
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


def observers(host: Host, target: Target) -> list[str] | Reading:
    """Profilers, tracers and debuggers of a process."""
    tracer = _status(host, target.pid, "TracerPid")
    found = [] if tracer == "0" else [f"traced by {host.maybe(f'/proc/{tracer}/comm') or tracer}"]
    if not target.here and not found:
        return unknown("whether a profiler runs inside it is told only by the process itself")
    return [*found, *target.observers]


def _profilers() -> tuple[str, ...]:
    """What watches this process, as this thread sees it."""
    torch = sys.modules.get("torch")
    watching = {
        "a profile function of Python": sys.getprofile() or getattr(threading, "getprofile", lambda: None)(),
        "a trace function of Python": sys.gettrace() or getattr(threading, "gettrace", lambda: None)(),
        "the profiler of torch": torch and torch.autograd._profiler_enabled(),
    }
    return tuple(name for name, active in watching.items() if active)


def argv(host: Host, pid: int) -> list[str]:
    """The arguments of a process."""
    return host.text(f"/proc/{pid}/cmdline").rstrip("\0").split("\0")


def named_files(host: Host, pid: int) -> list[str]:
    """Files that a process's arguments name, such as templates and scripts, by content: "path sha256:..."."""
    folder = link(host, f"/proc/{pid}/cwd")
    found = []
    for argument in clean(argv(host, pid)[1:]):
        named = argument.partition("=")[2] if argument.startswith("-") else argument
        path = os.path.join(folder, named)
        if named and host.exists(path) and os.path.isfile(host.place(path)):
            size = os.path.getsize(host.place(path))
            found.append(f"{path} {size} bytes" if size > LARGE else f"{path} sha256:{digest(host.content(path))}")
    return found


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
    named = ("affinity", "argv", "environ", "skew", "lost")
    if not target.children:
        none = not_applicable("the process has no children")
        return {"workers.count": lambda: 0, **{f"workers.{name}": none for name in named}}
    found: Probes = {
        "workers.count": lambda: len(target.children),
        "workers.affinity": lambda: sorted({_status(host, pid, "Cpus_allowed_list") for pid in target.children}),
        "workers.argv": lambda: [argv(host, pid)[:12] for pid in target.children],
    }
    own = guarded(lambda: relevant(variables(host, target.pid, target.here)), host)
    read = [guarded(partial(variables, host, pid), host) for pid in target.children]
    theirs = [relevant(one.value) for one in read if one.state == "value" and one.value]
    if not theirs or own.state != "value":
        hidden = unknown(own.reason or "the children's environments cannot be read")
        return {**found, **{f"workers.{name}": hidden for name in ("environ", "skew", "lost")}}
    return {**found, "workers.environ": lambda: len(theirs), **_against(own.value, theirs)}


def _against(own: dict[str, str], theirs: list[dict[str, str]]) -> Probes:
    """What the children's variables have that the process's have not, or the other way round."""
    found: Probes = {}
    skew = []
    for name in sorted({*own, *(name for one in theirs for name in one)}):
        values = [one.get(name) for one in theirs]
        alike = len(set(values)) == 1
        skew += [] if alike else [name]
        if alike and values[0] == own.get(name):
            continue
        reading = not_applicable("no child has it") if values == [None] * len(values) else Reading("value", values)
        if alike and values[0] is not None:
            reading = Reading("value", values[0])
        secret = any(is_secret(name, value or "") for value in values)
        found[f"workers.env.{name}"] = unknown("set; kept secret") if secret else reading
    lost = [name for name in own if all(name not in one for one in theirs)]
    return {**found, "workers.skew": Reading("value", skew), "workers.lost": Reading("value", lost)}


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


def link(host: Host, path: str) -> str:
    """Where a link of /proc leads. Raises NotReadError."""
    try:
        return os.readlink(host.place(path))
    except PermissionError:
        raise NotReadError(f"no permission to read {path}") from None
    except OSError as error:
        raise NotReadError(f"{path}: {error.strerror}") from None

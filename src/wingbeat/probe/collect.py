"""Taking a fingerprint: all groups of fields at once, each guarded, each given back as soon as it is there."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Callable, Iterator

from wingbeat.probe import amd, bus, caches, checkout, container, libraries, machine, model_files, nvidia, nvml, process
from wingbeat.probe import software as packages
from wingbeat.probe.host import Host, files_of
from wingbeat.probe.load import Load, under_load
from wingbeat.probe.process import Target
from wingbeat.probe.reading import Probes, Reading, Readings, guarded, not_applicable
from wingbeat.probe.redact import clean, clean_code


@dataclass(frozen=True)
class Request:
    """What is asked for. pid: the process (None: this one); models: paths or hub ids by "model" and "head"; hashing:
    seconds for verifying packages; machine_only: nothing of the process, where it is only the one that asks."""

    pid: int | None = None
    models: dict[str, str] = field(default_factory=dict)
    hashing: float = 0.1
    machine_only: bool = False


Group = Callable[[Host, Target, Request], Probes]


def _devices(host: Host, target: Target, request: Request) -> Probes:
    own = set(target.pids)
    others = amd.devices(host, own)
    library = nvml.library() if host.live else None
    ours = nvml.devices(host, library, own) if library else nvidia.devices(host, own)
    found: Probes = {**others, **ours, **nvidia.topology(host)}
    if "gpu.count" not in found:
        found["gpu.count"] = not_applicable("no device of NVIDIA or AMD here")
    return found


def _packages(host: Host, target: Target, request: Request) -> Probes:
    return {**packages.python_probes(host, target), **packages.packages(host, target)}


def _patched(host: Host, target: Target, request: Request) -> Probes:
    return {
        "packages.patched": partial(packages.patched, host, target, request.hashing),
        "packages.startup": partial(packages.startup, host, target),
    }


def _checkout(host: Host, target: Target, request: Request) -> Probes:
    here = target.here
    folder = os.path.dirname(os.path.dirname(__file__)) if here else process.link(host, f"/proc/{target.pid}/cwd")
    own = {"wingbeat.source": partial(packages.source, host, folder)} if here else {}
    return {**checkout.probes(host, folder), **own}


def _models(host: Host, target: Target, request: Request) -> Probes:
    arguments = [] if target.here else guarded(lambda: process.argv(host, target.pid)).value or []
    folder = guarded(lambda: process.link(host, f"/proc/{target.pid}/cwd")).value or ""
    found: Probes = {}
    for role, name in {**model_files.named_in(arguments), **request.models}.items():
        found.update(model_files.probes(host, role, name, _variables(host, target), folder))
    return found


def _caches(host: Host, target: Target, request: Request) -> Probes:
    return caches.probes(host, _variables(host, target))


def _variables(host: Host, target: Target) -> dict[str, str]:
    found = guarded(lambda: process.variables(host, target.pid, target.here))
    return found.value or {}


GROUPS: dict[str, Group] = {
    "devices": _devices,
    "machine": lambda host, target, request: machine.probes(host),
    "bus": lambda host, target, request: bus.probes(host),
    "container": lambda host, target, request: container.probes(host, target.pid),
    "process": lambda host, target, request: process.probes(host, target),
    "libraries": lambda host, target, request: dict(libraries.loaded(host, target)),
    "packages": _packages,
    "patched": _patched,
    "checkout": _checkout,
    "models": _models,
    "caches": _caches,
}


HARDWARE = ("devices", "machine", "bus")
OF_MACHINE = (*HARDWARE, "models")


def names(request: Request) -> tuple[str, ...]:
    """The groups that a request is about."""
    return OF_MACHINE if request.machine_only else tuple(GROUPS)


def groups(request: Request) -> Iterator[tuple[str, Readings]]:
    """Every group with its readings, in the order in which they are ready. Raises nothing."""
    target = Target.of(Host(), request.pid)
    with ThreadPoolExecutor(len(GROUPS)) as pool:
        jobs = {pool.submit(group, Host(), name, target, request): name for name in names(request)}
        for job in as_completed(jobs):
            yield jobs[job], job.result()


def group(host: Host, name: str, target: Target, request: Request) -> Readings:
    """The readings of one group, without secrets."""
    if host.live and not target.here and name not in HARDWARE:
        host = files_of(host, target.pid)
    made = guarded(lambda: GROUPS[name](host, target, request), host)
    probes = made.value if made.state == "value" else {f"probe.{name}": made}
    return {
        label: _cleaned(label, probe if isinstance(probe, Reading) else guarded(probe, host))
        for label, probe in probes.items()
    }


def _cleaned(label: str, reading: Reading) -> Reading:
    """The reading without secrets."""
    code = label == "git.diff" or label.startswith("editable.")
    raw = clean_code(reading.raw) if code else clean(reading.raw)
    return replace(reading, value=clean(reading.value), reason=clean(reading.reason), raw=raw)


def take(request: Request) -> Readings:
    """All readings."""
    return {name: reading for _, found in groups(request) for name, reading in found.items()}


def loaded(request: Request, load: Load) -> Readings:
    """The readings under load, without secrets. Raises BusyError where others would be disturbed."""
    host = Host()
    target = Target.of(host, request.pid)

    def devices() -> Readings:
        return {name: r for name, r in _devices(host, target, request).items() if isinstance(r, Reading)}

    found = under_load(host, target.pid, load, devices)
    return {name: _cleaned(name, reading) for name, reading in found.items()}

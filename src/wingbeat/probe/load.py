"""Readings under load: clocks, links and power of an idle device say nothing, so they are sampled while it works.

Passive: nothing is set, and readings are a second apart. The load is a command of the user's, or a bounded one of ours.
"""

from __future__ import annotations

import os
import select
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass
from typing import Any, Callable

from wingbeat.probe import container, machine, nvidia
from wingbeat.probe.host import Host, NotReadError
from wingbeat.probe.reading import Reading, Readings, guarded, unknown

INTERVAL = 1.0  # seconds between readings
SAMPLED = (
    "clock.sm", "clock.memory", "power.draw", "temperature", "utilization", "pcie.generation", "pcie.width",
    "pcie.slowest",
)  # fmt: skip
START = 120.0  # seconds in which a load of our own must start: torch and the devices take their time
NO_TORCH = 4
DEVICE_LOAD = f"""
import sys, threading, time
try:
    import torch
except ImportError:
    sys.exit({NO_TORCH})
if not torch.cuda.is_available():
    sys.exit({NO_TORCH})
count = torch.cuda.device_count()
[torch.zeros(1, device=torch.device("cuda", index)) for index in range(count)]
print("ready", flush=True)
end = time.monotonic() + float(sys.argv[1])
def work(index):
    device = torch.device("cuda", index)
    a = torch.randn(4096, 4096, device=device, dtype=torch.bfloat16)
    host = torch.empty(1 << 26, dtype=torch.uint8, pin_memory=True)
    while time.monotonic() < end:
        for _ in range(20):
            b = a @ a
        host.to(device, non_blocking=True)
        torch.cuda.synchronize(device)
threads = [threading.Thread(target=work, args=(i,)) for i in range(count)]
[t.start() for t in threads]
[t.join() for t in threads]
"""
CPU_LOAD = """
import hashlib, os, sys, threading, time
print("ready", flush=True)
end = time.monotonic() + float(sys.argv[1])
block = bytes(1 << 22)
def work():
    while time.monotonic() < end:
        hashlib.sha256(block).digest()
threads = [threading.Thread(target=work) for _ in os.sched_getaffinity(0)]
[t.start() for t in threads]
[t.join() for t in threads]
"""


@dataclass(frozen=True)
class Load:
    """command: what to run (empty: a load of our own); seconds: how long at most; force: although others compute."""

    command: tuple[str, ...] = ()
    seconds: float = 8.0
    force: bool = False


class BusyError(Exception):
    """Others compute on a device, and would be disturbed."""


def under_load(host: Host, pid: int, load: Load, devices: Callable[[], Readings]) -> Readings:
    """The `load.*` fields. devices: reads all devices. Raises BusyError before anything is started."""
    before = _read(devices)
    counted = before.get("gpu.count", unknown("no reader of devices told it"))
    if counted.state in ("unknown", "error"):
        return {"load.samples": unknown(f"how many devices there are is not known: {counted.reason}")}
    if not load.force:
        _refuse_if_shared(before)
    count = counted.value or 0
    kind = " ".join(load.command) or ("products and copies on every device" if count else "hashing on all cores")
    try:
        child = _start(load, DEVICE_LOAD if count else CPU_LOAD)
    except NotReadError as error:
        return {"load.samples": unknown(str(error))}
    counters = _cpu_counters(host, pid)
    started = time.monotonic()
    try:
        samples, costs = _sample(host, child, load.seconds, devices)
        code = child.poll()
    finally:
        _end(child)
    seconds = time.monotonic() - started
    if code or not samples:
        why = f"the load failed with exit code {code}" if code else "the load ended before the first reading"
        return {"load.kind": Reading("value", kind), "load.samples": unknown(f"{why}, after {seconds:.1f} s")}
    facts = {"load.kind": kind, "load.seconds": round(seconds, 2), "load.samples": len(samples)}
    found = {name: Reading("value", value) for name, value in facts.items()}
    found["load.reading_ms"] = Reading("value", round(1000 * statistics.median(costs), 1))
    after = _read(devices)
    for index in range(count):
        found.update(_device(index, samples, before, after, seconds))
    return {**found, **_cpu(samples, counters, _cpu_counters(host, pid), seconds)}


def _read(devices: Callable[[], Readings]) -> Readings:
    """All devices; where reading fails, that their number is not known."""
    found = guarded(devices)
    return found.value if found.state == "value" else {"gpu.count": unknown(found.reason)}


def _start(load: Load, own: str) -> subprocess.Popen[bytes]:
    """The load, at work. Raises NotReadError where there is none."""
    command = load.command or (sys.executable, "-c", own, str(load.seconds))
    nowhere = subprocess.DEVNULL
    out = nowhere if load.command else subprocess.PIPE
    try:
        child = subprocess.Popen(command, stdin=nowhere, stdout=out, stderr=nowhere)
    except OSError as error:
        raise NotReadError(f"the load could not be started: {command[0]}: {error.strerror}") from None
    if child.stdout is None:
        return child
    if not select.select([child.stdout], [], [], START)[0]:
        _end(child)
        raise NotReadError(f"the load did not start within {START:g} s; give one with --command")
    if not child.stdout.readline():
        code = child.wait()
        why = "torch cannot use a device here" if code == NO_TORCH else f"it ended with code {code}"
        raise NotReadError(f"no load: {why}; give one with --command")
    return child


def spread(values: list[float]) -> dict[str, float]:
    """Least, middle and most of some readings, and how many there were."""
    return {"min": min(values), "median": statistics.median(values), "max": max(values), "n": len(values)}


def _sample(
    host: Host, child: subprocess.Popen[bytes], seconds: float, devices: Callable[[], Readings]
) -> tuple[list[Readings], list[float]]:
    samples: list[Readings] = []
    costs: list[float] = []
    end = time.monotonic() + seconds
    while time.monotonic() < end and child.poll() is None:
        time.sleep(min(INTERVAL, max(0.0, end - time.monotonic())))
        started = time.monotonic()
        sample = _read(devices)
        sample["cpu.frequency"] = guarded(lambda: machine.frequency(host), host)
        if child.poll() is None:
            samples.append(sample)
            costs.append(time.monotonic() - started)
    return samples, costs


def _end(child: subprocess.Popen[bytes]) -> None:
    try:
        child.wait(timeout=2.0)
    except subprocess.TimeoutExpired:
        child.terminate()
        try:
            child.wait(timeout=5.0)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()


def _refuse_if_shared(readings: Readings) -> None:
    for name, reading in readings.items():
        if name.endswith(".others") and (reading.state != "value" or reading.value):
            device = name.rsplit(".", 1)[0]
            shown = f"{reading.value} other processes compute on it" if reading.state == "value" else reading.reason
            raise BusyError(f"{device}: {shown}; a load would disturb them: wait, or use --force")


def _device(index: int, samples: list[Readings], before: Readings, after: Readings, seconds: float) -> Readings:
    found: Readings = {}
    working = [sample for sample in samples if nvidia.works(sample.get(f"gpu.{index}.utilization", unknown("")))]
    idle = unknown(f"the device was idle, or how busy it was is not known, in all of {len(samples)} readings")
    for name in SAMPLED:
        among = samples if name == "utilization" else working
        readings = [sample.get(f"gpu.{index}.{name}", unknown("not read")) for sample in among]
        values = [reading.value for reading in readings if reading.state == "value"]
        found[f"load.gpu.{index}.{name}"] = Reading("value", spread(values)) if values else [idle, *readings][-1]
    causes = [sample.get(f"gpu.{index}.slowed", unknown("not read")) for sample in working]
    lists = [reading.value for reading in causes if reading.state == "value"]
    names = sorted({cause for causes_now in lists for cause in causes_now})
    share = {name: round(sum(name in one for one in lists) / len(lists), 3) for name in names}
    found[f"load.gpu.{index}.slowed"] = Reading("value", share) if lists else [idle, *causes][-1]
    return {**found, **_slowed(f"gpu.{index}.slowed.", before, after, seconds)}


def _slowed(start: str, before: Readings, after: Readings, seconds: float) -> Readings:
    """The share of the time in which each cause held the clocks back; of the checks, where the device counts those."""
    end = {name: after.get(name, unknown("not read")) for name in before if name.startswith(start)}
    checks = f"{start}checks"
    whole: float | None = 1e6 * seconds
    if checks in before and before[checks].state != "not applicable":
        whole = _grown(before[checks], end[checks])
    return {f"load.{name}": _share(before[name], now, whole) for name, now in end.items() if name != checks}


def _share(before: Reading, after: Reading, whole: float | None) -> Reading:
    """By how much a counter grew, in percent of the whole; where that is not known, why."""
    grown = _grown(before, after)
    if grown is None:
        return before if before.state != "value" else after
    return Reading("value", round(100 * grown / whole, 2)) if whole else unknown("the device did not count its checks")


def _grown(before: Reading, after: Reading) -> float | None:
    known = before.state == after.state == "value"
    return after.value - before.value if known else None


def _cpu_counters(host: Host, pid: int) -> dict[str, Any]:
    steal = guarded(lambda: int(host.text("/proc/stat").splitlines()[0].split()[8]))
    return {"steal": steal, "throttled": guarded(lambda: container.throttled(host, pid)["us"])}


def _cpu(samples: list[Readings], before: dict[str, Any], after: dict[str, Any], seconds: float) -> Readings:
    tables = [sample["cpu.frequency"].value for sample in samples if sample["cpu.frequency"].state == "value"]
    found: Readings = {}
    found["load.cpu.frequency"] = (
        Reading("value", spread([table["middle"] for table in tables])) if tables else unknown("no frequency is told")
    )
    cores = os.cpu_count() or 1
    for name, per_second in (("steal", 100 * cores), ("throttled", 1e6)):
        found[f"load.cpu.{name}"] = _share(before[name], after[name], per_second * seconds)
    return found

"""The environment: what the machine, the process and the code are.

Every field has one of four states (see `reading`); a probe that fails is a field that says so, never an exception.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import partial
from typing import Any

from wingbeat.probe import machine, software
from wingbeat.probe.reading import Reading, guarded

PACKAGES = ("wingbeat", "torch", "transformers", "tokenizers", "safetensors", "gguf", "numpy")

FIELDS: dict[str, Callable[[], Any]] = {
    "os": machine.operating_system,
    "boot_id": machine.boot_id,
    "cpu.model": machine.cpu_model,
    "cpu.cores": machine.cores,
    "cpu.usable_cores": machine.usable_cores,
    "cpu.load_average": machine.load_average,
    "memory.bytes": machine.memory_bytes,
    "python": software.python_version,
    "torch.loaded": software.torch_loaded,
    "torch.threads": software.torch_threads,
    "git.commit": software.git_commit,
    **{f"installed.{name}": partial(software.installed, name) for name in PACKAGES},
}


def fingerprint(fields: Mapping[str, Callable[[], Any]] = FIELDS) -> dict[str, Reading]:
    """Reads every field, in this process; takes well under a second and raises nothing."""
    return {name: guarded(probe) for name, probe in fields.items()}


def to_json(readings: Mapping[str, Reading]) -> dict[str, dict[str, Any]]:
    """The readings as a record keeps them: state, and the value or the reason."""
    return {name: {key: v for key, v in asdict(r).items() if v not in (None, "")} for name, r in readings.items()}

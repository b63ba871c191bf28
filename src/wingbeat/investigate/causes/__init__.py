"""Every cause that is considered, one file each. A new one is a file with a CAUSE, and a name in this list."""

from __future__ import annotations

from importlib import import_module

from wingbeat.investigate.hypothesis import Cause

NAMES = (
    "context", "prompts", "sampling", "output_length", "concurrency", "warmup", "observer", "definition", "averaging",
    "client", "captured", "width", "attention", "all_reduce", "clocks", "thermal", "link", "hardware", "driver",
    "reboot", "torch", "library", "tokenizer", "environment", "code", "patches", "precision", "speculation",
    "server", "nccl", "nccl_settings", "topology", "cpu",
    "cores", "numa", "shared_memory", "tenants", "platform", "head", "undertrained", "target", "draft_cache", "launch",
    "compilation", "leak", "degenerate",
)  # fmt: skip
ALL: tuple[Cause, ...] = tuple(import_module(f"{__name__}.{name}").CAUSE for name in NAMES)

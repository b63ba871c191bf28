"""Writes good.jsonl and bad.jsonl: two days of one machine, as far as anybody noted them down.

An 8-GPU machine, tensor parallel, an MLA target, EAGLE-3 with 2 steps. Nobody kept contexts, prompts, or the path that
verify took; everything that was checked is the same on both days.

    python examples/dead_end/make.py
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from wingbeat.measure.record import Figure, Launch, RunRecord, save
from wingbeat.probe import to_json
from wingbeat.probe.reading import Reading, not_applicable

GPUS = 8
TARGET = {  # of the target's config.json
    "num_hidden_layers": 61, "num_attention_heads": 128, "kv_lora_rank": 512, "qk_rope_head_dim": 64,
    "qk_nope_head_dim": 128, "v_head_dim": 128,
}  # fmt: skip
DEVICE = {"name": "NVIDIA RTX PRO 6000 Blackwell Server Edition", "pstate": "P0", "clock.sm.max": 2430}
CHECKED = {
    "gpu.count": GPUS,
    "nvidia.driver": "590.48.01",
    "nvidia.module": "590.48.01",
    "boot_id": "6f0c4b7e-5d0a-4d62-9a55-0a4f6f1c2b11",
    "loaded.nccl": "libnccl.so.2.27.5",
    "torch.loaded": "2.10.0+cu128",
    "packages.patched": [],
    "process.environ": 2,
    "env.NCCL_PROTO": "LL",
    "env.NCCL_ALGO": "Ring",
}


def fingerprint(uptime: float) -> dict[str, Any]:
    """What was checked, as a fingerprint has it. uptime: seconds."""
    values: dict[str, Any] = {**CHECKED, "uptime": uptime}
    for index in range(GPUS):
        values |= {f"gpu.{index}.{name}": value for name, value in DEVICE.items()}
        load = {"clock.sm": _seen(2290, 2320, 2340), "pcie.generation": _seen(5, 5, 5), "pcie.width": _seen(16, 16, 16)}
        values |= {f"load.gpu.{index}.{name}": value for name, value in load.items()}
    readings = {name: Reading("value", value) for name, value in values.items()}
    readings["model.config"] = Reading("value", "3b1f0c7a9e2d4415", raw=json.dumps(TARGET))
    absent = {"system": "/etc/nccl.conf", "user": "/root/.nccl.conf"}
    readings |= {f"nccl.conf.{name}": not_applicable(f"{path} is not there") for name, path in absent.items()}
    return to_json(readings)


def _seen(low: float, middle: float, high: float) -> dict[str, float]:
    return {"min": low, "median": middle, "max": high, "n": 8}


def run(name: str, day: str, uptime: float, figures: dict[str, dict[str, Figure]]) -> RunRecord:
    """A noted run with its fingerprint."""
    launch = Launch(started=day, fingerprint=fingerprint(uptime), figures=figures, finished=True)
    settings = {"speculative_num_steps": 2, "tp_size": 8}
    return RunRecord("bench", day, settings, {}, list(figures), [launch], name=name, source="noted")


def records() -> tuple[RunRecord, RunRecord]:
    """The good day and the bad day."""
    good = {
        "plain": {"tokens_per_second": Figure(89)},
        "eagle3": {"tokens_per_second": Figure(94, 84, 118), "verify_ms": Figure(19, 17.47, 19.10)},
    }
    bad = {
        "plain": {"tokens_per_second": Figure(82.5, 82, 83)},
        "eagle3": {"tokens_per_second": Figure(60, 59, 61), "verify_ms": Figure(29)},
    }
    return (
        run("good", "2026-01-20T10:00:00+00:00", 31000.0, good),
        run("bad", "2026-01-21T15:00:00+00:00", 135000.0, bad),
    )


if __name__ == "__main__":
    for record in records():
        save(record, Path(__file__).with_name(f"{record.name}.jsonl"))

"""SGLang's `bench_serving --output-file`: one JSON object a benchmark, appended line by line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wingbeat.measure.importers import evidence as ev
from wingbeat.measure.importers import serving_bench as bench

NAME, TITLE = "sglang-bench", "SGLang bench_serving (JSONL)"

_KEYS = ("total_output_tokens_retokenized", "median_e2e_latency_ms", "accept_length")


def looks_like(text: str) -> bool:
    """Whether fields that only bench_serving writes are there."""
    return bench.is_json_with(text, *_KEYS) and '"output_throughput"' in text


def read(text: str) -> ev.Reading:
    """One launch (nothing says whether the server was restarted in between), an arm for each set of settings."""
    objects, damaged = bench.documents(text)
    rows = [entry for entry in objects if "output_throughput" in entry]
    skipped = damaged + len(objects) - len(rows)
    return ev.Reading([bench.arms(rows, _fill)] if rows else [], len(rows), skipped)


def _fill(made: ev.Evidence, row: Mapping[str, Any]) -> None:
    length = ev.number(row.get("accept_length"))
    over = "since the server started: warm-up and all earlier benchmarks included"
    if length:
        made.put("tokens_per_cycle", ev.single("tokens_per_cycle", length), ev.WITH_OWN, over)

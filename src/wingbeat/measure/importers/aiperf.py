"""AIPerf's exports: the summary as JSON or CSV, and the records of requests as JSONL."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping
from typing import Any

from wingbeat.measure.importers import evidence as ev
from wingbeat.measure.importers.serving_bench import documents, is_json_with

NAME, TITLE = "aiperf", "AIPerf export (profile_export_aiperf.json or .csv, profile_export.jsonl)"

_METRICS = {  # their tag: their heading in the CSV, our name, scale, what it counts
    "output_token_throughput": ("Output Token Throughput", "tokens_per_second", 1.0, ev.WALL_TOK_S),
    "time_to_first_token": ("Time to First Token", "ttft_ms", 1.0, "time to the first token"),
    "inter_token_latency": ("Inter Token Latency", "tpot_ms", 1.0, "time a token after the first, of a request"),
    "inter_chunk_latency": ("Inter Chunk Latency", "itl_ms", 1.0,
                            "gap between two streamed pieces; with speculation a piece may hold several tokens"),
    "request_latency": ("Request Latency", "latency_ms", 1.0, "time from a request to its last token"),
    "input_sequence_length": ("Input Sequence Length", "prompt_tokens", 1.0, ev.OF_REQUEST),
    "output_sequence_length": ("Output Sequence Length", "new_tokens", 1.0, ev.OF_REQUEST),
    "request_count": ("Request Count", "finished", 1.0, "finished requests"),
    "benchmark_duration": ("Benchmark Duration", "seconds", 1.0, ev.LASTED),
    "spec_decode_acceptance_length": ("Acceptance Length", "tokens_per_cycle", 1.0, ev.WITH_OWN),
    "spec_decode_token_weighted_acceptance_length": ("Token-Weighted Acceptance Length", "tokens_per_cycle", 1.0,
                                                     ev.WITH_OWN),
    "spec_decode_draft_acceptance_rate": ("Draft Acceptance Rate", "acceptance", 0.01, ev.OF_DRAFTED),
    "spec_decode_overall_draft_acceptance_rate": ("Overall Draft Acceptance Rate", "acceptance", 0.01,
                                                  ev.OF_DRAFTED),
    "total_spec_decode_steps": ("Total Spec Decode Steps", "cycles", 1.0, ev.VERIFIES),
}  # fmt: skip
_TO_MS = {"ns": 1e-6, "us": 1e-3, "ms": 1.0, "s": 1000.0, "sec": 1000.0}


def looks_like(text: str) -> bool:
    """Whether it is one of the three exports."""
    summary = is_json_with(text, "output_token_throughput", "time_to_first_token", "request_latency")
    return summary or re.match(r"\s*Metric,(?:avg|Value)", text) is not None


def read(text: str) -> ev.Reading:
    """One launch with one arm."""
    if text.lstrip().startswith("Metric,"):
        return _summary(*_table(text))
    objects, damaged = documents(text)
    if any("metadata" in entry and "metrics" in entry for entry in objects):
        return _records(objects, damaged)
    found = [entry for entry in objects if any(isinstance(entry.get(tag), dict) for tag in _METRICS)]
    return _summary(found[0], damaged + len(objects) - 1) if found else ev.Reading(skipped=damaged + len(objects))


def _table(text: str) -> tuple[dict[str, Any], int]:
    """The CSV as the JSON would say it; a heading reads "Time to First Token (ms)". Sections have headers of their
    own."""
    tags = {heading: tag for tag, (heading, *_) in _METRICS.items()}
    header: list[str] = []
    summary: dict[str, Any] = {}
    skipped = 0
    for row in csv.reader(io.StringIO(text)):
        if row[:1] == ["Metric"]:
            header = ["avg" if name == "Value" else name for name in row[1:]]
            continue
        match = re.fullmatch(r"(.+?)(?: \((.+)\))?", row[0]) if row else None
        tag = tags.get(match[1]) if match else None
        if match is None or tag is None:
            continue
        numbers = [_cell(cell) for cell in row[1:]]
        if len(numbers) != len(header):
            skipped += 1
            continue
        summary[tag] = {"unit": match[2] or "", **dict(zip(header, numbers, strict=True))}
    return summary, skipped


def _cell(cell: str) -> float | None:
    try:
        return ev.number(float(cell.replace(",", "")))
    except ValueError:
        return None


def _summary(summary: Mapping[str, Any], skipped: int) -> ev.Reading:
    made = ev.Evidence(started=str(summary.get("start_time") or ""), workload=_workload(summary.get("input_config")))
    used = 0
    for tag, (_, name, scale, what) in _METRICS.items():
        entry = summary.get(tag)
        if not isinstance(entry, dict):
            continue
        used += 1
        factor = scale * (_TO_MS.get(str(entry.get("unit")), 1.0) if name.endswith("_ms") else 1.0)
        statistic = "p50" if ev.number(entry.get("p50")) is not None else "avg"
        value, low, high = (ev.number(entry.get(key)) for key in (statistic, "p25", "p75"))
        figure = ev.single(name, None if value is None else value * factor)
        if figure and low is not None and high is not None:
            figure.low, figure.high = low * factor, high * factor
        over = "median of requests" if statistic == "p50" else "the whole benchmark"
        made.put(name, figure, what, over)
    return ev.Reading([[made]] if made.figures else [], used, skipped)


def _workload(config: object) -> dict[str, Any]:
    """What the request load was, as far as the export repeats the command's settings."""
    if not isinstance(config, dict):
        return {}
    found = {
        (section, name): config.get(section, {}).get(name)
        for section, names in {"endpoint": ("model_names", "type", "streaming"),
                               "loadgen": ("concurrency", "request_rate", "request_count", "warmup_request_count"),
                               "input": ("random_seed", "public_dataset")}.items()
        if isinstance(config.get(section), dict)
        for name in names
    }  # fmt: skip
    return {name: value for (_, name), value in found.items() if value is not None}


def _records(objects: list[dict[str, Any]], damaged: int) -> ev.Reading:
    """One row a request; failed ones and those of the warm-up are left out."""
    rows: list[ev.Row] = []
    begin: float | None = None
    for entry in objects:
        meta, metrics = entry.get("metadata") or {}, entry.get("metrics") or {}
        if entry.get("error") or meta.get("benchmark_phase", "profiling") != "profiling":
            continue
        start = ev.number(meta.get("request_start_ns"))
        begin = start if begin is None else begin
        row: ev.Row = {"time_s": None if start is None or begin is None else (start - begin) * 1e-9}
        for tag, (_, name, scale, _what) in _METRICS.items():
            entry_value = metrics.get(tag)
            value = ev.number(entry_value.get("value")) if isinstance(entry_value, dict) else None
            if value is not None:
                unit = str(metrics[tag].get("unit"))
                row[name] = value * scale * (_TO_MS.get(unit, 1.0) if name.endswith("_ms") else 1.0)
        rows.append(row)
    made = ev.Evidence(samples=ev.columns(rows))
    whats = {name: what for _, name, _, what in _METRICS.values()}
    for name in made.samples:
        if name in whats:
            made.put(name, ev.median(name, made.samples[name]), whats[name], "median of requests")
    left_out = len(objects) - len(rows)
    notes = [f"{left_out} requests failed or belong to the warm-up, and are left out"] if left_out else []
    return ev.Reading([[made]] if rows else [], len(rows), damaged, notes)

"""vLLM's `bench serve`, `bench throughput` and `bench latency` (JSON; also the older benchmark_*.py scripts)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wingbeat.measure.importers import evidence as ev
from wingbeat.measure.importers import serving_bench as bench

NAME, TITLE = "vllm-bench", "vLLM bench serve, throughput or latency (JSON)"

_SPECULATION = {
    "tokens_per_cycle": ("acceptance_length", 1.0, ev.WITH_OWN),
    "acceptance": ("acceptance_rate", 0.01, ev.OF_DRAFTED),
    "cycles": ("num_drafts", 1.0, ev.VERIFIES),
}


def looks_like(text: str) -> bool:
    """Whether fields of one of the three benchmarks are there."""
    return bench.is_json_with(text, "mean_ttft_ms", "avg_latency", "total_num_tokens")


def read(text: str) -> ev.Reading:
    """One launch (nothing says whether the server was restarted in between), an arm for each set of settings."""
    objects, damaged = bench.documents(text)
    serve = [entry for entry in objects if "output_throughput" in entry]
    arms = bench.arms(serve, _fill)
    rest = [entry for entry in objects if "output_throughput" not in entry]
    offline = [_offline(entry) for entry in rest if "avg_latency" in entry or "total_num_tokens" in entry]
    arms += offline
    used = len(serve) + len(offline)
    return ev.Reading([arms] if arms else [], used, damaged + len(objects) - used)


def _fill(made: ev.Evidence, row: Mapping[str, Any]) -> None:
    over = "the whole benchmark (growth of the server's counters)"
    for name, (theirs, scale, what) in _SPECULATION.items():
        value = ev.number(row.get(f"spec_decode_{theirs}"))
        made.put(name, None if value is None else ev.single(name, value * scale), what, over)
    drafts, drafted = (ev.number(row.get(f"spec_decode_{name}")) for name in ("num_drafts", "draft_tokens"))
    made.put("drafted_per_cycle", ev.ratio("drafted_per_cycle", drafted, drafts), "tokens drafted in a cycle", over)
    for place, share in enumerate(row.get("spec_decode_per_position_acceptance_rates") or [], 1):
        made.put(f"acceptance_{place}", ev.single(f"acceptance_{place}", share), ev.UNCONDITIONAL, over)
    time, length = made.figures.get("tpot_ms"), made.figures.get("tokens_per_cycle")
    if time and length:
        cycle = ev.single("cycle_ms", time.value * length.value)
        made.put("cycle_ms", cycle, ev.CYCLE, made.definitions["tpot_ms"]["over"])


def _offline(row: Mapping[str, Any]) -> ev.Evidence:
    """`latency`: whole batches, prefill included. `throughput`: its tokens/s count prompt tokens too, so only what is
    of output tokens is taken."""
    made = ev.Evidence()
    latencies = row.get("latencies")
    if isinstance(latencies, list) and latencies:
        seconds = [ev.number(value) for value in latencies]
        made.samples = {"latency_ms": [None if value is None else 1000.0 * value for value in seconds]}
        figure = ev.median("latency_ms", made.samples["latency_ms"])
        made.put("latency_ms", figure, "time of a whole batch, prefill included", "iterations after warm-up")
    whats = {
        "finished": ("num_requests", "finished requests"),
        "seconds": ("elapsed_time", ev.LASTED),
    }
    for name, (theirs, what) in whats.items():
        made.put(name, ev.single(name, row.get(theirs)), what, "the whole benchmark")
    total = {name: row[name] for name in ("total_num_tokens", "tokens_per_second") if name in row}
    made.workload = {f"{name}_with_prompts": value for name, value in total.items()}
    output, seconds_taken = ev.number(row.get("total_output_tokens")), ev.number(row.get("elapsed_time"))
    made.put(
        "tokens_per_second", ev.ratio("tokens_per_second", output, seconds_taken), ev.WALL_TOK_S, "the whole benchmark"
    )
    return made

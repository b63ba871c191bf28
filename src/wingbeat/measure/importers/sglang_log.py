"""SGLang's server log: its "Decode batch" lines, of every version since 0.3.

A line covers the decode steps since the one before it (40 by default). Its throughput is the tokens over the time in
between, so that a prefill or an idle spell in between lowers it.
"""

from __future__ import annotations

import ast
import re
import statistics
from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import pairwise
from typing import Any

from wingbeat.measure.importers import evidence as ev

NAME, TITLE = "sglang-log", "SGLang server log (decode lines)"

_MARK = "Decode batch"
_ARGUMENTS = "server_args="
_STAMP = re.compile(r"\[(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)(?:\.\d+)?((?: \w+)*)\]")
_RANK = re.compile(r"DP(\d+)")
_FIELDS = {
    "running": re.compile(r"#running-req: (\d+),"),
    "context": re.compile(r"#(?:full )?token: (\d+),"),
    "tokens_per_cycle": re.compile(r"accept len: (\d+\.\d+),"),
    "acceptance": re.compile(r"accept rate: (\d+\.\d+),"),
    "tokens_per_second": re.compile(r"gen throughput \(token/s\): (\d+\.\d\d)(?!\d)"),
}
_GRAPH = re.compile(r"\w+ graph: (True|False)")
_SETTINGS = (
    "model_path", "tp_size", "dp_size", "ep_size", "dtype", "quantization", "kv_cache_dtype", "attention_backend",
    "disable_cuda_graph", "cuda_graph_max_bs", "disable_custom_all_reduce", "disable_radix_cache",
    "mem_fraction_static", "max_running_requests", "decode_log_interval", "speculative_algorithm",
    "speculative_draft_model_path", "speculative_num_steps", "speculative_eagle_topk", "speculative_num_draft_tokens",
)  # fmt: skip
_EITHER = "as printed; the version is unknown: accepted of the drafted tokens, or with the target's own of the verified"


def looks_like(text: str) -> bool:
    """Whether there are decode lines in the text."""
    return re.search(r"Decode batch.{0,200}#running-req", text) is not None


def read(text: str) -> ev.Reading:
    """Every start of a server in the log becomes a launch."""
    reading = ev.Reading()
    for part in re.split(f"(?={_ARGUMENTS}(?:ServerArgs|{{))", text):
        rows, started, skipped = _rows(part)
        reading.skipped += skipped
        if rows:
            reading.used += len(rows)
            reading.launches.append([_evidence(rows, started, _settings(part))])
    return reading


def _settings(part: str) -> dict[str, Any]:
    line = part.partition("\n")[0] if part.startswith(_ARGUMENTS) else ""
    found = {name: re.search(rf"\b{name}'?[=:] ?('[^']*'|[^,)}}]+)", line) for name in _SETTINGS}
    return {name: _literal(match[1]) for name, match in found.items() if match}


def _literal(text: str) -> Any:
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


def _rows(part: str) -> tuple[list[ev.Row], str, int]:
    """The decode lines as rows, when the first was written, and how many were damaged."""
    rows: list[ev.Row] = []
    first: datetime | None = None
    skipped = prefills = 0
    for line in ev.lines(part):
        prefills += line.count("Prefill batch")
        for before, piece in _pieces(line):
            row = _row(piece)
            if row is None:
                skipped += 1
                continue
            stamp, rank = _head(before)
            first = first or stamp
            row["time_s"] = (stamp - first).total_seconds() if stamp and first else None
            row["rank"] = rank
            rows.append({**row, "prefills": float(prefills)})
            prefills = 0
    return rows, first.isoformat(sep=" ") if first else "", skipped


def _pieces(line: str) -> Iterator[tuple[str, str]]:
    """Each decode entry of a line (two can share one, where output of two processes ran together) and its head."""
    return pairwise(line.split(_MARK))


def _row(piece: str) -> ev.Row | None:
    found = {name: pattern.search(piece) for name, pattern in _FIELDS.items()}
    if found["running"] is None or found["tokens_per_second"] is None:
        return None
    row: ev.Row = {name: float(match[1]) if match else None for name, match in found.items()}
    if row["context"] and row["running"]:
        row["context"] /= row["running"]  # the line counts the tokens of all requests
    graph = _GRAPH.search(piece)
    row["captured"] = float(graph[1] == "True") if graph else None
    return row


def _head(text: str) -> tuple[datetime | None, float]:
    """Time and data-parallel rank of an entry (0 where it names none)."""
    stamps = list(_STAMP.finditer(text))
    if not stamps:
        return None, 0.0
    rank = _RANK.search(stamps[-1][2])
    return datetime.fromisoformat(stamps[-1][1]), float(rank[1]) if rank else 0.0


def _evidence(rows: list[ev.Row], started: str, settings: dict[str, Any]) -> ev.Evidence:
    ranks = {row["rank"] for row in rows}
    plain = settings.get("speculative_algorithm", "unknown") is None
    for row in rows:
        tokens = 1.0 if plain else row["tokens_per_cycle"]
        row["cycle_ms"] = None if row["prefills"] else ev.cycle_ms(row["running"], tokens, row["tokens_per_second"])
        if len(ranks) == 1:
            del row["rank"]
    steady = [row for row in rows if row["running"] and not row["prefills"]] or rows
    over = "log lines without a prefill" if steady is not rows else "log lines"
    made = ev.Evidence(started=started, settings=settings, samples=ev.columns(rows))

    def column(name: str, chosen: Sequence[ev.Row] = steady) -> list[float | None]:
        return [row.get(name) for row in chosen]

    rate = ev.DECODE_TOK_S + (f", of one of {len(ranks)} data-parallel ranks" if len(ranks) > 1 else "")
    made.put("tokens_per_second", ev.median("tokens_per_second", column("tokens_per_second")), rate, over)
    made.put("cycle_ms", ev.median("cycle_ms", column("cycle_ms")), ev.CYCLE, over)
    made.put("tokens_per_cycle", ev.mean("tokens_per_cycle", column("tokens_per_cycle", rows), column("running", rows)),
             ev.WITH_OWN, "log lines, weighted by running requests")  # fmt: skip
    made.put("acceptance", ev.mean("acceptance", column("acceptance", rows)), _rate(rows, settings),
             "log lines")  # fmt: skip
    made.put(
        "captured", ev.mean("captured", column("captured", rows)), "log lines that ran a captured graph", "log lines"
    )
    made.put("running", ev.median("running", column("running")), ev.AT_ONCE, over)
    return made


def _rate(rows: Sequence[ev.Row], settings: dict[str, Any]) -> str:
    """What the printed rate counts: versions before 2026 divide accept length by all verified tokens.

    With D verified tokens, every line has length / rate = D by that rule, (length - 1) / rate = D - 1 by the newer one.
    """
    pairs = [(row["tokens_per_cycle"], row["acceptance"]) for row in rows]
    known = [(length, rate) for length, rate in pairs if length and rate]
    if not known:
        return _EITHER
    older = [length / rate for length, rate in known]
    newer = [(length - 1) / rate + 1 for length, rate in known]
    off_older, off_newer = (_off(widths, settings.get("speculative_num_draft_tokens")) for widths in (older, newer))
    if min(off_older, off_newer) > 0.1 or max(off_older, off_newer) < 0.15:
        return _EITHER
    return ev.OF_VERIFIED if off_older < off_newer else ev.OF_DRAFTED


def _off(widths: Sequence[float], width: int | None) -> float:
    """How far the widths lie, on average, from the one that was set, or from the next whole number."""
    middle = width or round(statistics.median(widths))
    return statistics.fmean(abs(one - middle) for one in widths)

"""What the benchmark clients of SGLang and vLLM write: JSON, or one JSON object a line where they appended.

Both measure from the client: throughput over the whole benchmark, and times of requests.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

from wingbeat.errors import CorruptError
from wingbeat.measure.importers import evidence as ev

_TIMES = {  # our name: theirs, and what it is
    "ttft_ms": (("ttft",), "time to the first token"),
    "tpot_ms": (("tpot",), "time a token after the first, of a request"),
    "itl_ms": (("itl",), "gap between two streamed pieces; with speculation a piece may hold several tokens"),
    "latency_ms": (("e2el", "e2e_latency"), "time from a request to its last token"),
}
_SETTINGS = (
    "backend", "model_id", "endpoint_type", "label", "tag", "dataset_name", "dataset_path", "random_input_len",
    "random_output_len", "random_range_ratio", "sharegpt_output_len", "num_prompts", "request_rate", "burstiness",
    "max_concurrency", "temperature",
)  # fmt: skip
_SERVER = ("attention_backend", "dtype", "quantization", "tp_size", "dp_size", "version", "disable_cuda_graph",
           "speculative_algorithm", "speculative_num_steps", "speculative_eagle_topk",
           "speculative_num_draft_tokens")  # fmt: skip


def documents(text: str) -> tuple[list[dict[str, Any]], int]:
    """The JSON objects of a text (an object, a list of them, or one a line), and how many lines were damaged."""
    try:
        whole = json.loads(text)
    except ValueError:
        parsed = [_parsed(line) for line in ev.lines(text)]
        objects = [entry for entry in parsed if isinstance(entry, dict)]
        return objects, len(parsed) - len(objects)
    entries = whole if isinstance(whole, list) else [whole]
    return [entry for entry in entries if isinstance(entry, dict)], 0


def _parsed(line: str) -> object:
    try:
        return json.loads(line)
    except ValueError:
        return None


def arms(
    rows: Sequence[Mapping[str, Any]], fill: Callable[[ev.Evidence, Mapping[str, Any]], None]
) -> list[ev.Evidence]:
    """An arm for each set of settings. Several rows of one become a column each, with median and quartiles of them."""
    made = []
    for group in ev.grouped(rows, _SETTINGS):
        singles = [_one(row, fill) for row in group]
        if len(singles) > 1:
            _join(singles[0], singles)
        made.append(singles[0])
    return made


def _one(row: Mapping[str, Any], fill: Callable[[ev.Evidence, Mapping[str, Any]], None]) -> ev.Evidence:
    evidence = ev.Evidence(started=_started(row.get("date")), workload=_workload(row))
    evidence.settings = {name: _plain(row[name]) for name in _SETTINGS if row.get(name) is not None}
    server = row.get("server_info")
    if isinstance(server, dict):
        evidence.settings |= {name: server[name] for name in _SERVER if name in server}
    _put_client(evidence, row)
    fill(evidence, row)
    return evidence


def _workload(row: Mapping[str, Any]) -> dict[str, Any]:
    """In the names of records. With a request rate, the most at once is not how many ran."""
    known = {"name": row.get("dataset_name"), "temperature": row.get("temperature")}
    if row.get("request_rate") in ("inf", math.inf):
        known["concurrency"] = row.get("max_concurrency")
    return {name: value for name, value in known.items() if value is not None}


def _started(date: object) -> str:
    try:
        return datetime.strptime(str(date), "%Y%m%d-%H%M%S").isoformat(sep=" ")
    except ValueError:
        return ""


def _plain(value: object) -> object:
    """JSON has no infinity: it is kept as text."""
    return str(value) if isinstance(value, float) and ev.number(value) is None else value


def _join(arm: ev.Evidence, singles: Sequence[ev.Evidence]) -> None:
    """Repeats of one benchmark against, for all that is known, one server: rows of a column, not launches."""
    names = dict.fromkeys(name for single in singles for name in single.figures)
    rows: list[ev.Row] = [{name: figure.value for name, figure in single.figures.items()} for single in singles]
    arm.samples = ev.columns(rows)
    for name in names:
        whole = next(single for single in singles if name in single.definitions).definitions[name]
        figure = ev.median(name, [row.get(name) for row in rows])
        arm.put(name, figure, whole["what"], f"median of benchmarks, each over {whole['over']}")


def _put_client(made: ev.Evidence, row: Mapping[str, Any]) -> None:
    count = row.get("completed")
    over = "requests of the benchmark"
    made.put(
        "tokens_per_second",
        ev.single("tokens_per_second", row.get("output_throughput")),
        ev.WALL_TOK_S,
        "the whole benchmark",
    )
    for name, (theirs, what) in _TIMES.items():
        for key in theirs:
            _put_time(made, name, row, key, (what, over))
    single_values = {"finished": count, "seconds": row.get("duration"), "running": row.get("concurrency")}
    whats = {"finished": "finished requests", "seconds": ev.LASTED, "running": ev.AT_ONCE}
    for name, value in single_values.items():
        made.put(name, ev.single(name, value), whats[name], "the whole benchmark")
    if made.figures.get("finished"):
        for name, total in (("prompt_tokens", "total_input_tokens"), ("new_tokens", "total_output_tokens")):
            figure = ev.ratio(name, ev.number(row.get(total)), made.figures["finished"].value)
            made.put(name, figure, ev.OF_REQUEST, f"mean of {over}")
    made.samples = ev.columns(_request_rows(row))


def _put_time(made: ev.Evidence, name: str, row: Mapping[str, Any], key: str, definition: tuple[str, str]) -> None:
    what, over = definition
    for statistic in ("median", "mean"):
        value = ev.number(row.get(f"{statistic}_{key}_ms"))
        if value:  # a client that measured no such time writes 0
            made.put(name, ev.single(name, value, row.get("completed")), what, f"{statistic} of {over}")
            return


def _request_rows(row: Mapping[str, Any]) -> list[ev.Row]:
    """One row a request, where the client saved them; a request that failed has no times."""
    found = {"prompt_tokens": (row.get("input_lens"), 1.0), "new_tokens": (row.get("output_lens"), 1.0),
             "ttft_ms": (row.get("ttfts"), 1000.0)}  # fmt: skip
    lists = {name: (values, scale) for name, (values, scale) in found.items() if isinstance(values, list) and values}
    errors = row.get("errors")
    count = len(next(iter(lists.values()))[0]) if lists else 0
    if any(len(values) != count for values, _ in lists.values()):
        raise CorruptError("the lists of the benchmark's requests are not equally long; was the file edited?")
    failed = [bool(error) for error in errors] if isinstance(errors, list) and len(errors) == count else [False] * count
    return [
        {name: None if failed[at] else _scaled(values[at], scale) for name, (values, scale) in lists.items()}
        for at in range(count)
    ]


def _scaled(value: object, scale: float) -> float | None:
    known = ev.number(value)
    return None if known is None else known * scale


def is_json_with(text: str, *keys: str) -> bool:
    """Whether the text is JSON, or lines of it, in which one of the keys occurs."""
    return text.lstrip()[:1] in ("{", "[") and any(f'"{key}"' in text for key in keys)

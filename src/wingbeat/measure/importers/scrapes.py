"""A pair of scrapes of `/metrics`, of vLLM or SGLang: what the counters grew by between before and after.

A scrape does not say when it was taken. Without the seconds in between, rates a second stay unknown; ratios of
counters (tokens per cycle, times a token, verify time) do not need them.
"""

from __future__ import annotations

import re
from collections import defaultdict

from wingbeat.errors import UsageError
from wingbeat.measure.importers import evidence as ev

NAME, TITLE = "metrics", "two scrapes of /metrics, before and after (vLLM or SGLang)"

_SAMPLE = re.compile(r'^([A-Za-z_:][\w:]*)(\{(?:[^"}]|"(?:\\.|[^"\\])*")*\})? +(\S+)(?: +-?\d+)?$')
_LABEL = re.compile(r'(\w+)="((?:\\.|[^"\\])*)"')
_KEPT = ("position", "category", "mode")  # labels that tell series apart; over all others is summed
_OVER = "all requests between the two scrapes"
_TIMES = {  # our name, histograms of either server (the first that is there), and what it is
    "ttft_ms": (("time_to_first_token_seconds",), "time to the first token"),
    "itl_ms": (("inter_token_latency_seconds", "time_per_output_token_seconds"), "time between output tokens"),
    "tpot_ms": (("request_time_per_output_token_seconds",), "time a token after the first, of a request"),
    "latency_ms": (("e2e_request_latency_seconds",), "time from a request to its last token"),
}
_PHASES = {"verify_ms": "target_verify", "draft_ms": "eagle_draft", "extend_ms": "eagle_draft_extend"}

Series = dict[str, float]


def looks_like(text: str) -> bool:
    """Whether there are counters of vLLM or SGLang in the text, as Prometheus reads them."""
    return re.search(r"^(?:vllm|sglang)[:_]\w+(?:\{.*\})? +[\d.+-]", text, re.MULTILINE) is not None


def read(before: str, after: str, seconds: float | None) -> ev.Reading:
    """One launch with one arm. Raises UsageError where the pair does not belong together."""
    first, first_skipped = _parsed(before)
    last, last_skipped = _parsed(after)
    if not first or not last:
        raise UsageError(f"no counter of vLLM or SGLang in the {'second' if first else 'first'} scrape")
    grown = {name: value - first.get(name, 0.0) for name, value in last.items() if _is_counter(name)}
    shrunk = [name for name, value in grown.items() if value < 0]
    if shrunk:
        raise UsageError(
            f"{shrunk[0]} is smaller in the second scrape: give the earlier one first; if the server was restarted in "
            "between, the pair says nothing"
        )
    if not any(grown.values()):
        raise UsageError("no counter grew between the two scrapes: take the second one after the requests")
    made = ev.Evidence(settings={"server": "SGLang" if any(name.startswith("sglang") for name in last) else "vLLM"})
    growth = {name.partition(":")[2]: value for name, value in grown.items()}
    _put_shared(made, growth, seconds)
    _put_vllm(made, growth)
    _put_sglang(made, growth, {name.partition(":")[2]: value for name, value in last.items()})
    return ev.Reading([[made]], len(first) + len(last), first_skipped + last_skipped)


def _parsed(text: str) -> tuple[Series, int]:
    """Sums over label sets by name and kept labels ("vllm:x_total", "sglang:y_total category=decode"), and how many
    lines of a server's could not be read."""
    series: Series = defaultdict(float)
    whole, _, rest = text.rpartition("\n")  # a last line without an end may be cut in its number
    skipped = int(bool(rest.strip()))
    for line in ev.lines(whole):
        if not re.match(r"(?:vllm|sglang)[:_]", line):
            continue
        match = _SAMPLE.match(line.rstrip())
        value = _float(match[3]) if match else None
        if match is None or value is None:
            skipped += 1
            continue
        labels = dict(_LABEL.findall(match[2] or ""))
        name = re.sub(r"^(vllm|sglang)_", r"\1:", match[1])
        kept = "".join(f" {label}={labels[label]}" for label in _KEPT if label in labels)
        if "_bucket" not in name:
            series[name + kept] += value
    return dict(series), skipped


def _float(text: str) -> float | None:
    try:
        return ev.number(float(text))
    except ValueError:
        return None


def _is_counter(name: str) -> bool:
    return name.split(" ")[0].endswith(("_total", "_sum", "_count"))


def _put_shared(made: ev.Evidence, growth: Series, seconds: float | None) -> None:
    generated = growth.get("generation_tokens_total")
    if seconds:
        made.put("seconds", ev.single("seconds", seconds), ev.LASTED, "as given")
        made.put(
            "tokens_per_second",
            ev.ratio("tokens_per_second", generated, seconds),
            ev.WALL_TOK_S,
            "the time between the two scrapes",
        )
    for name, (histograms, what) in _TIMES.items():
        for histogram in histograms:
            total, count = growth.get(f"{histogram}_sum"), growth.get(f"{histogram}_count")
            figure = ev.ratio(name, total, count, 1000.0)
            if figure and name not in made.figures:
                figure.count = int(count or 0)
                made.put(name, figure, what, f"mean of {_OVER}")
    requests = _total(growth, "request_success_total") or growth.get("num_requests_total")
    made.put("finished", ev.single("finished", requests), "finished requests", _OVER)
    for name, counter in (("prompt_tokens", "prompt_tokens_total"), ("new_tokens", "generation_tokens_total")):
        made.put(name, ev.ratio(name, growth.get(counter), requests), ev.OF_REQUEST, f"mean of {_OVER}")


def _total(growth: Series, name: str) -> float | None:
    found = [value for key, value in growth.items() if key.split(" ")[0] == name]
    return sum(found) if found else None


def _put_vllm(made: ev.Evidence, growth: Series) -> None:
    drafts = growth.get("spec_decode_num_drafts_total")
    drafted = growth.get("spec_decode_num_draft_tokens_total")
    accepted = growth.get("spec_decode_num_accepted_tokens_total")
    length = None if accepted is None or drafts is None else accepted + drafts
    made.put("tokens_per_cycle", ev.ratio("tokens_per_cycle", length, drafts), ev.WITH_OWN, _OVER)
    made.put("acceptance", ev.ratio("acceptance", accepted, drafted), ev.OF_DRAFTED, _OVER)
    made.put("drafted_per_cycle", ev.ratio("drafted_per_cycle", drafted, drafts), "tokens drafted in a cycle", _OVER)
    made.put("cycles", ev.single("cycles", drafts or None), ev.VERIFIES, _OVER)
    for key, value in growth.items():
        place = re.fullmatch(r"spec_decode_num_accepted_tokens_per_pos_total position=(\d+)", key)
        if place:
            name = f"acceptance_{int(place[1]) + 1}"
            made.put(name, ev.ratio(name, value, drafts), ev.UNCONDITIONAL, _OVER)
    hits, queries = growth.get("prefix_cache_hits_total"), growth.get("prefix_cache_queries_total")
    made.put("prefix_hits", ev.ratio("prefix_hits", hits, queries), "prompt tokens found in the prefix cache", _OVER)


def _put_sglang(made: ev.Evidence, growth: Series, last: Series) -> None:
    """SGLang counts output tokens and verifies when a request finishes; a request's first token is prefill's."""
    verifies, generated = growth.get("spec_verify_calls_total"), growth.get("generation_tokens_total")
    requests = growth.get("num_requests_total", 0.0)
    if verifies:
        first = "the first token of a request left out" if requests else "the first token of a request counted too"
        figure = ev.ratio("tokens_per_cycle", (generated or 0.0) - requests, verifies)
        made.put("tokens_per_cycle", figure, ev.WITH_OWN, f"{_OVER}, {first}")
        made.put("cycles", ev.single("cycles", verifies), ev.VERIFIES, _OVER)
    elif last.get("spec_accept_length"):
        made.put("tokens_per_cycle", ev.single("tokens_per_cycle", last["spec_accept_length"]), ev.WITH_OWN,
                 "the last log interval before the second scrape")  # fmt: skip
    captured, eager = (growth.get(f"cuda_graph_passes_total mode=decode_{mode}") for mode in ("cuda_graph", "none"))
    forwards = None if captured is None and eager is None else (captured or 0.0) + (eager or 0.0)
    made.put("captured", ev.ratio("captured", captured, forwards), "decode forwards that ran a captured graph", _OVER)
    for name, category in _PHASES.items():
        seconds = growth.get(f"forward_execution_seconds_total category={category}")
        made.put(name, ev.ratio(name, seconds or None, forwards, 1000.0), "GPU time of the phase, a decode forward",
                 _OVER)  # fmt: skip

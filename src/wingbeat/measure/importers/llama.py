"""llama.cpp's timings: of llama-server and llama-cli (text), llama-speculative (text), llama-bench (table or JSON)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from wingbeat.measure.importers import evidence as ev
from wingbeat.measure.importers.serving_bench import documents

NAME, TITLE = "llama.cpp", "llama.cpp timings (llama-server, llama-cli, llama-speculative, llama-bench)"

_TIME = re.compile(r"(?P<prompt>prompt )?eval time *= *(?P<ms>\d+\.\d+) ms */ *(?P<tokens>\d+) (?:tokens|runs)\b")
_DRAFT = re.compile(
    r"draft acceptance(?: rate)? *= *\d\.\d+ *\( *(\d+) accepted */ *(\d+) generated\)"
    r"(?:, mean (?:acceptance length|len) *= *(\d+\.\d\d))?(?:, acceptance rate per position *= *\(([\d., ]+)\))?"
)
_SPECULATIVE = re.compile(r"\b(n_predict|n_drafted|n_accept) *= *(\d+)")
_SPEED = re.compile(r"(?:decoded|generated) +(\d+) tokens in +(\d+\.\d+) seconds, speed: +(\d+\.\d+) t/s")
_ROW = re.compile(r"^\|(.+)\|\s*$")
_TEST = re.compile(r"(pp|tg)(\d+)(?: *@ *d(\d+))?")
_COUNTED = re.compile(r"eval time *=|draft acceptance|tokens in +\d+\.\d+ seconds|n_drafted *=|(?:pp|tg)\d+ ")


def looks_like(text: str) -> bool:
    """Whether there are timings of one of the programs in the text."""
    timings = re.search(r"eval time *= *\d+\.\d+ ms */|tokens in +\d+\.\d+ seconds, speed:|\| *(?:pp|tg)\d+", text)
    return timings is not None or (text.lstrip()[:1] in ("{", "[") and '"avg_ts"' in text)


def read(text: str) -> ev.Reading:
    """One launch: nothing in these files says where a process ended."""
    if text.lstrip()[:1] in ("{", "[") and '"avg_ts"' in text:
        return _bench_json(text)
    table = [match for match in map(_ROW.match, ev.lines(text)) if match]
    if any(_TEST.search(match[1]) for match in table):
        return _bench_table([match[1] for match in table])
    if _SPEED.search(text) and _SPECULATIVE.search(text):
        return _speculative(text)
    return _timings(text)


def _timings(text: str) -> ev.Reading:
    """One row a request: its prompt, its decoding, and, with speculation, what was accepted."""
    rows: list[ev.Row] = []
    used = skipped = 0
    for line in ev.lines(text):
        time, draft = _TIME.search(line), _DRAFT.search(line)
        if time:
            name = "prompt" if time["prompt"] else "new"
            if name == "prompt" or not rows or "new_tokens" in rows[-1]:
                rows.append({})
            rows[-1] |= {f"{name}_tokens": float(time["tokens"]), f"{name}_ms": float(time["ms"])}
        elif draft and rows:
            rows[-1] |= _drafted(draft)
        used += bool(time or (draft and rows))
        skipped += not (time or draft) and _COUNTED.search(line) is not None
    return ev.Reading([[_of_requests([_finished(row) for row in rows])]] if rows else [], used, skipped)


def _drafted(draft: re.Match[str]) -> ev.Row:
    accepted, drafted = float(draft[1]), float(draft[2])
    row: ev.Row = {"accepted": accepted, "drafted": drafted, "tokens_per_cycle": float(draft[3]) if draft[3] else None}
    shares = re.findall(r"\d\.\d+", draft[4] or "")
    return row | {f"acceptance_{place}": float(share) for place, share in enumerate(shares, 1)}


def _finished(row: ev.Row) -> ev.Row:
    """Speeds from milliseconds and tokens (one token or none: nothing was decoded), acceptance from its counts.

    Where no mean length is printed: of `tokens` output tokens all but the accepted ones came from a cycle each.
    """
    tokens, spent = row.get("new_tokens") or 0.0, row.pop("new_ms", None)
    row["tokens_per_second"] = 1000.0 * tokens / spent if spent and tokens > 1 else None
    spent = row.pop("prompt_ms", None)
    row["prompt_tokens_per_second"] = 1000.0 * (row.get("prompt_tokens") or 0.0) / spent if spent else None
    drafted, accepted = row.get("drafted"), row.get("accepted")
    if drafted and accepted is not None:
        row["acceptance"] = accepted / drafted
        if row.get("tokens_per_cycle") is None and tokens > accepted:
            row["tokens_per_cycle"] = tokens / (tokens - accepted)
            row["derived"] = 1.0
    length, speed = row.get("tokens_per_cycle"), row["tokens_per_second"]
    row["cycle_ms"] = ev.cycle_ms(1.0, length, speed)
    return row


def _of_requests(rows: list[ev.Row]) -> ev.Evidence:
    derived = any("derived" in row for row in rows)
    hidden = ("accepted", "drafted", "derived")
    made = ev.Evidence(samples=ev.columns([{key: row[key] for key in row if key not in hidden} for row in rows]))
    over = "median of requests"
    whats = {"tokens_per_second": ev.REQUEST_TOK_S, "prompt_tokens_per_second": "prompt tokens a second of one request",
             "cycle_ms": ev.CYCLE, "prompt_tokens": "evaluated tokens of a prompt",
             "new_tokens": ev.OF_REQUEST}  # fmt: skip
    for name, what in whats.items():
        made.put(name, ev.median(name, made.samples.get(name, [])), what, over)
    sums = {name: sum(row.get(name) or 0.0 for row in rows) for name in ("accepted", "drafted")}
    pooled = "all drafts of the requests"
    made.put("acceptance", ev.ratio("acceptance", sums["accepted"], sums["drafted"]), ev.OF_DRAFTED, pooled)
    weights = [row.get("drafted") for row in rows]
    for name in made.samples:
        if name == "tokens_per_cycle" or name.startswith("acceptance_"):
            what = ev.WITH_OWN if name == "tokens_per_cycle" else ev.UNCONDITIONAL
            how = ", derived: tokens / (tokens - accepted)" if derived and name == "tokens_per_cycle" else ""
            made.put(name, ev.mean(name, made.samples[name], weights), what, f"requests, weighted by drafts{how}")
    return made


def _speculative(text: str) -> ev.Reading:
    """llama-speculative: its last summary; the timings of the two models below it are of parts of the work."""
    counts = {name: float(value) for name, value in _SPECULATIVE.findall(text)}
    tokens, seconds, _ = list(_SPEED.finditer(text))[-1].groups()
    row: ev.Row = {"new_tokens": counts.get("n_predict", float(tokens)), "new_ms": 1000.0 * float(seconds)}
    row |= {"drafted": counts.get("n_drafted"), "accepted": counts.get("n_accept")}
    return ev.Reading([[_of_requests([_finished(row)])]], 1 + len(counts))


def _bench_json(text: str) -> ev.Reading:
    objects, damaged = documents(text)
    rows = [entry for entry in objects if ev.number(entry.get("avg_ts")) is not None]
    keys = ("model_filename", "model_type", "build_commit", "backends", "gpu_info", "cpu_info", "n_batch", "n_ubatch",
            "n_threads", "n_gpu_layers", "type_k", "type_v", "flash_attn")  # fmt: skip
    found = []
    for row in rows:
        settings = {key: row[key] for key in keys if key in row}
        prompt, output, depth = (int(row.get(key) or 0) for key in ("n_prompt", "n_gen", "n_depth"))
        test = "" if prompt and output else f"pp{prompt}" if prompt else f"tg{output}"
        found.append(({**settings, "test": test + (f" @ d{depth}" if depth else "")}, row.get("samples_ts")))
    return _of_tests([(one, speeds or [row["avg_ts"]]) for (one, speeds), row in zip(found, rows, strict=True)],
                     damaged + len(objects) - len(rows))  # fmt: skip


def _bench_table(bodies: Sequence[str]) -> ev.Reading:
    """A row reads "| qwen3 0.6B F16 | ... | tg128 @ d4096 | 46.83 ± 2.28 |"; columns before the speed are settings."""
    tests: list[tuple[dict[str, Any], Sequence[object]]] = []
    header: list[str] = []
    skipped = 0
    for body in bodies:
        cells = [cell.strip() for cell in body.split("|")]
        if "t/s" in cells:
            header = cells
            continue
        speed = re.match(r"\d+\.\d+", cells[-1])
        if speed and len(cells) == len(header):
            tests.append((dict(zip(header[:-1], cells, strict=False)), [float(speed[0])]))
        else:
            skipped += _TEST.search(body) is not None
    return _of_tests(tests, skipped)


def _of_tests(tests: Sequence[tuple[dict[str, Any], Sequence[object]]], skipped: int) -> ev.Reading:
    """An arm for each test; those that mix prompt and output tokens ("pp512+tg128") are left out."""
    arms: dict[str, ev.Evidence] = {}
    speeds: dict[str, list[float | None]] = {}
    for settings, values in tests:
        if _TEST.fullmatch(settings["test"]):
            arms.setdefault(repr(settings), ev.Evidence(settings=settings))
            speeds.setdefault(repr(settings), []).extend(map(ev.number, values))
    for key, made in arms.items():
        prompt = made.settings["test"].startswith("pp")
        name = "prompt_tokens_per_second" if prompt else "tokens_per_second"
        what = "prompt tokens a second of one request" if prompt else ev.REQUEST_TOK_S
        made.samples[name] = speeds[key]
        made.put(name, ev.median(name, speeds[key]), what, "repetitions")
    mixed = sum(not _TEST.fullmatch(settings["test"]) for settings, _ in tests)
    notes = [f"{mixed} tests mix prompt and output tokens, and are left out"] if mixed else []
    return ev.Reading([list(arms.values())] if arms else [], len(tests) - mixed, skipped, notes)

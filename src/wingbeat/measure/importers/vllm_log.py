"""vLLM's server log: its lines about throughput and about speculation, of the old engine (V0) and the new one.

Each line is a mean over the interval since the one before it (5 or 10 s), prefill and idle time included. V0's line
about speculation is instead a total since the server started.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from wingbeat.measure.importers import evidence as ev

NAME, TITLE = "vllm-log", "vLLM server log (throughput and speculation lines)"

_START = re.compile(r"(?=non-default args: |Initializing an LLM engine)")
_ENGINE = re.compile(
    r"Avg prompt throughput: (?P<prompt_tokens_per_second>\d+\.\d+) tokens/s, "
    r"Avg generation throughput: (?P<tokens_per_second>\d+\.\d+) tokens/s, Running: (?P<running>\d+) reqs"
)
_NUMBER = re.compile(r"Engine (\d+): ")
_STAMP = re.compile(r"(?:INFO|\[) ?((?:\d{4}-)?\d\d-\d\d \d\d:\d\d:\d\d)")
_LENGTH = re.compile(r"Mean acceptance length: (\d+\.\d\d)(?!\d)")
_COUNTS = re.compile(r"\bAccepted: (\d+) tokens, Drafted: (\d+) tokens")
_POSITIONS = re.compile(r"Per-position acceptance rate: (\d\.\d{3}(?:, \d\.\d{3})*)(?!\d)")
_TOTALS = re.compile(
    r"Number of speculative tokens: (\d+), Number of accepted tokens: (\d+), "
    r"Number of draft tokens(?: tokens)?: (\d+), Number of emitted tokens(?: tokens)?: (\d+)(?=\.)"
)
_SETTINGS = {
    "model": r"'?model(?:_tag)?'?[:=] ?'([^']+)'",
    "dtype": r"'?dtype'?[:=] ?'?([\w.]+)",
    "tensor_parallel_size": r"tensor_parallel_size'?[:=] ?(\d+)",
    "max_num_seqs": r"max_num_seqs'?[:=] ?(\d+)",
    "enforce_eager": r"enforce_eager'?[:=] ?(\w+)",
    "speculative_config": r"speculative_config'?[:=] ?(\{[^}]*\}|None|SpeculativeConfig\([^)]*\))",
}
_MARKS = ("Avg generation throughput", "SpecDecoding metrics", "Speculative metrics")


def looks_like(text: str) -> bool:
    """Whether there are vLLM's throughput or speculation lines in the text."""
    return re.search(r"Avg generation throughput: \d|SpecDecoding metrics: |Speculative metrics: ", text) is not None


def read(text: str) -> ev.Reading:
    """Every start of a server in the log becomes a launch."""
    reading = ev.Reading()
    for part in _START.split(text):
        found = _Lines()
        for line in ev.lines(part):
            if any(mark in line for mark in _MARKS):
                found.take(line)
        reading.skipped += found.skipped
        if found.used:
            reading.used += found.used
            reading.launches.append([_evidence(found, _settings(part))])
    return reading


class _Lines:
    """The lines of one process: one row for each throughput line, the speculation line that follows joined to it."""

    def __init__(self) -> None:
        self.rows: list[ev.Row] = []
        self.totals: list[tuple[int, ...]] = []
        self.used = self.skipped = 0
        self.first: datetime | None = None

    def take(self, line: str) -> None:
        engine, totals, speculation = _ENGINE.search(line), _TOTALS.search(line), _speculation(line)
        if engine:
            self.rows.append(
                {**self._place(line), **{name: float(value) for name, value in engine.groupdict().items()}}
            )
        elif totals:
            self.totals.append(tuple(map(int, totals.groups())))
        elif speculation:
            if not self.rows or "accepted" in self.rows[-1]:
                self.rows.append(self._place(line))
            self.rows[-1].update(speculation)
        known = bool(engine or totals or speculation)
        self.used += known
        self.skipped += not known

    def _place(self, line: str) -> ev.Row:
        stamp, number = _STAMP.search(line), _NUMBER.search(line)
        when = _when(stamp[1]) if stamp else None
        self.first = self.first or when
        seconds = (when - self.first).total_seconds() if when and self.first else None
        return {"time_s": seconds, "rank": float(number[1]) if number else 0.0}


def _when(stamp: str) -> datetime | None:
    """Most versions print no year: any leap year does, for only differences are used."""
    try:
        return datetime.fromisoformat(stamp if len(stamp) > 14 else f"2000-{stamp}")
    except ValueError:
        return None


def _speculation(line: str) -> ev.Row | None:
    counts = _COUNTS.search(line)
    if counts is None:
        return None
    accepted, drafted = map(float, counts.groups())
    length, positions = _LENGTH.search(line), _POSITIONS.search(line)
    row: ev.Row = {"accepted": accepted, "drafted": drafted, "acceptance": accepted / drafted if drafted else None}
    row["tokens_per_cycle"] = float(length[1]) if length else None
    shares = [float(share) for share in positions[1].split(", ")] if positions else []
    return row | {f"acceptance_{place}": share for place, share in enumerate(shares, 1)}


def _settings(part: str) -> dict[str, Any]:
    head = part.partition("\n")[0]
    found = {name: re.search(pattern, head) for name, pattern in _SETTINGS.items()}
    return {name: match[1] for name, match in found.items() if match}


def _evidence(found: _Lines, settings: dict[str, Any]) -> ev.Evidence:
    rows = found.rows
    engines = {row["rank"] for row in rows}
    steady = _steady(rows)
    for row in steady:
        row["cycle_ms"] = ev.cycle_ms(row.get("running"), row.get("tokens_per_cycle"), row.get("tokens_per_second"))
    over = "log lines with unchanged requests" if len(steady) < len(rows) else "log lines"
    hidden = {"accepted", "drafted"} | ({"rank"} if len(engines) < 2 else set())
    shown = [{name: value for name, value in row.items() if name not in hidden} for row in rows]
    made = ev.Evidence(settings=settings, samples=ev.columns(shown))
    what = ev.DECODE_TOK_S + (f", of one of {len(engines)} data-parallel engines" if len(engines) > 1 else "")
    made.put(
        "tokens_per_second",
        ev.median("tokens_per_second", [row.get("tokens_per_second") for row in steady]),
        what,
        over,
    )
    made.put("cycle_ms", ev.median("cycle_ms", [row.get("cycle_ms") for row in steady]),
             ev.CYCLE, over)  # fmt: skip
    made.put("running", ev.median("running", [row.get("running") for row in steady]),
             ev.AT_ONCE, over)  # fmt: skip
    _put_intervals(made, rows)
    _put_totals(made, found.totals)
    return made


def _steady(rows: Sequence[ev.Row]) -> list[ev.Row]:
    """Lines whose interval began and ended with the same requests running; where there are none, all with tokens."""
    last: dict[float | None, float | None] = {}
    kept = []
    for row in rows:
        running = row.get("running")
        if running and last.get(row["rank"]) == running:
            kept.append(row)
        last[row["rank"]] = running
    return kept or [row for row in rows if row.get("tokens_per_second")]


def _put_intervals(made: ev.Evidence, rows: Sequence[ev.Row]) -> None:
    """Acceptance over all intervals: sums of the printed counts, not a mean of means."""
    known = [row for row in rows if row.get("drafted")]
    over = "all drafts of the log lines"
    drafted, accepted = (sum(row[name] or 0.0 for row in known) for name in ("drafted", "accepted"))
    made.put("acceptance", ev.ratio("acceptance", accepted, drafted), ev.OF_DRAFTED, over)
    drafts = [_drafts(row) for row in known]
    for name in dict.fromkeys(
        name for row in known for name in row if name == "tokens_per_cycle" or ev.POSITION.fullmatch(name)
    ):
        what = ev.WITH_OWN if name == "tokens_per_cycle" else ev.UNCONDITIONAL
        made.put(name, ev.mean(name, [row.get(name) for row in known], drafts), what, over)


def _drafts(row: ev.Row) -> float:
    """Drafts in an interval, from the mean length (printed with two digits); its drafted tokens where none was
    accepted."""
    length, accepted = row.get("tokens_per_cycle"), row["accepted"] or 0.0
    return accepted / (length - 1) if length and length > 1 else row["drafted"] or 0.0


def _put_totals(made: ev.Evidence, totals: Sequence[tuple[int, ...]]) -> None:
    """V0's totals: the growth between first and last line, or, of a single line, all since the server started."""
    if not totals:
        return
    start = totals[0] if len(totals) > 1 and totals[-1][2] > totals[0][2] else (0, 0, 0, 0)
    accepted, drafted, emitted = (float(end - begin) for begin, end in zip(start[1:], totals[-1][1:], strict=True))
    over = "first to last log line" if start[2] else "since the server started, warm-up included"
    width = totals[-1][0]
    made.put("acceptance", ev.ratio("acceptance", accepted, drafted), ev.OF_DRAFTED, over)
    made.put("tokens_per_cycle", ev.ratio("tokens_per_cycle", emitted * width, drafted), ev.WITH_OWN, over)
    made.put("drafted_per_cycle", ev.single("drafted_per_cycle", width), "tokens drafted in a cycle", over)

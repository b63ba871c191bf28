"""What a reader takes from a foreign file: figures, columns over time, and what the source means by each.

A reader leaves out what its source does not say: an absent figure is unknown, never zero.
"""

from __future__ import annotations

import codecs
import math
import re
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from wingbeat.measure import record
from wingbeat.measure.record import Figure

# Names that only imports have, beside those of the record.
UNITS = record.UNITS | {
    "prompt_tokens_per_second": "1/s", "drafted_per_cycle": "1", "captured": "1", "prefix_hits": "1", "itl_ms": "ms",
    "latency_ms": "ms", "prompt_tokens": "1", "new_tokens": "1", "finished": "1", "cycles": "1", "prefills": "1",
    "seconds": "s", "rank": "1",
}  # fmt: skip
POSITION = re.compile(r"acceptance_[1-9]\d*")

# What a figure counts. Two sources that say the same here can be compared.
DECODE_TOK_S = "output tokens a second of all requests, between two log lines"
WALL_TOK_S = "output tokens a second of all requests, over the whole benchmark with its prefill and waiting"
REQUEST_TOK_S = "output tokens a second of one request, while it decodes"
WITH_OWN = "tokens added by a verify to one request, the target's own counted"
OF_DRAFTED = "accepted of the drafted tokens, the target's own not counted"
OF_VERIFIED = "accepted tokens and the target's own, of all verified with the root"
OF_REQUEST = "tokens of a request"
AT_ONCE = "requests at once"
VERIFIES = "verifies, each counted for its request"
LASTED = "time that was measured"
CYCLE = "time of a cycle, worked out from its tokens and their speed"
UNCONDITIONAL = "cycles in which this position was accepted, of all cycles with a draft"

_ANSI = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")
_NUMBER = (int, float)

Row = dict[str, float | None]


@dataclass
class Evidence:
    """One arm of one process.

    name: the arm's name, where the source gives one. settings: what the source says it ran with. workload: what it
    says of the requests, in the names of records. definitions: for each figure "what" it counts and "over" what it was
    averaged. samples: columns of one length, None where a row did not say.
    """

    name: str = ""
    started: str = ""
    settings: dict[str, Any] = field(default_factory=dict)
    workload: dict[str, Any] = field(default_factory=dict)
    figures: dict[str, Figure] = field(default_factory=dict)
    definitions: dict[str, dict[str, str]] = field(default_factory=dict)
    samples: dict[str, list[float | None]] = field(default_factory=dict)

    def put(self, name: str, figure: Figure | None, what: str, over: str) -> None:
        """Adds a figure with its definition; None, or one that is no finite number, is left out."""
        if figure is not None and math.isfinite(figure.value):
            self.figures[name] = figure
            self.definitions[name] = {"what": what, "over": over}


@dataclass
class Reading:
    """What a reader made of its text: arms by process, lines (or rows) used, and damaged ones skipped."""

    launches: list[list[Evidence]] = field(default_factory=list)
    used: int = 0
    skipped: int = 0
    notes: list[str] = field(default_factory=list)


def decoded(raw: bytes) -> str:
    """The text of a file: UTF-16 with a mark (what PowerShell writes) or UTF-8, colour codes taken out."""
    wide = raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    return _ANSI.sub("", raw.decode("utf-16" if wide else "utf-8-sig", errors="replace"))


def lines(text: str) -> list[str]:
    """The lines, also where a progress bar ended them with a carriage return; empty ones left out."""
    return [line for line in re.split(r"[\r\n]+", text) if line.strip()]


def unit(name: str) -> str | None:
    """The unit of a figure's name; None where the vocabulary has no such name."""
    return "1" if POSITION.fullmatch(name) else UNITS.get(name)


def number(value: object) -> float | None:
    """A finite number as float; None for anything else (also for booleans, NaN and infinity)."""
    return float(value) if isinstance(value, _NUMBER) and not isinstance(value, bool) and math.isfinite(value) else None


def single(name: str, value: object, count: int | None = None) -> Figure | None:
    """A figure without a known spread; None where `value` is no finite number."""
    known = number(value)
    return None if known is None else Figure(known, None, None, count, unit(name) or "")


def median(name: str, values: Sequence[float | None]) -> Figure | None:
    """Median and quartiles of the known values; None where there are none."""
    known = [value for value in values if value is not None]
    if not known:
        return None
    low, middle, high = (
        statistics.quantiles(known, n=4, method="inclusive") if len(known) > 1 else (None, known[0], None)
    )
    return Figure(middle, low, high, len(known), unit(name) or "")


def mean(name: str, values: Sequence[float | None], weights: Sequence[float | None] | None = None) -> Figure | None:
    """Mean, weighted where weights are given, with the quartiles of the values; None where nothing is known."""
    pairs = list(zip(values, weights or [1.0] * len(values), strict=True))
    known = [(value, weight) for value, weight in pairs if value is not None and weight]
    spread = median(name, [value for value, _ in known])
    if spread is None:
        return None
    total = sum(weight for _, weight in known if weight)
    spread.value = sum(value * weight for value, weight in known if weight) / total
    return spread


def ratio(name: str, upper: float | None, lower: float | None, scale: float = 1.0) -> Figure | None:
    """scale * upper / lower as a figure; None where one is unknown or there is nothing to divide by."""
    return None if upper is None or not lower else single(name, scale * upper / lower)


def cycle_ms(running: float | None, tokens: float | None, speed: float | None) -> float | None:
    """What a cycle of `running` requests took, that added `tokens` to each, at `speed` tokens/s; None: not known."""
    return 1000.0 * running * tokens / speed if running and tokens and speed else None


def columns(rows: Sequence[Row]) -> dict[str, list[float | None]]:
    """Rows as columns; a column that no row knows is left out."""
    names = dict.fromkeys(name for row in rows for name in row)
    filled = {name: [row.get(name) for row in rows] for name in names}
    return {name: column for name, column in filled.items() if any(value is not None for value in column)}


def grouped(rows: Sequence[Mapping[str, Any]], keys: Sequence[str]) -> list[list[Mapping[str, Any]]]:
    """Rows that agree in all the keys together, in the order in which they came."""
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        groups.setdefault(repr([row.get(key) for key in keys]), []).append(row)
    return list(groups.values())


def told_apart(settings: Sequence[Mapping[str, Any]]) -> list[str]:
    """A name for each: "" where all are alike, else "key=value" of as few settings as tell all different ones apart."""
    chosen: list[str] = []
    count = 1
    for key in dict.fromkeys(key for one in settings for key in one):
        groups = len(grouped(settings, [*chosen, key]))
        if groups > count:
            chosen.append(key)
            count = groups
    return [" ".join(f"{key}={one.get(key, 'unknown')}" for key in chosen) for one in settings]

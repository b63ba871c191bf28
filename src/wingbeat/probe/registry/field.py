"""The form of a registry entry, and the vocabulary of what a change predicts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["identity", "state", "noise"]  # what a thing is; how it is set or stands; what always moves
Type = Literal["text", "number", "counter", "list", "table"]

EFFECTS = {
    "clocks": "draft, verify and prefill change by one ratio; acceptance stays",
    "memory": "draft, verify and decode change more than prefill; acceptance stays",
    "link": "copies between host and device; between devices without NVLink also verify and prefill",
    "all-reduce": "with several devices: verify and decode change, most at small sizes; one device alone stays",
    "host": "the gap between device phases; on a CPU engine every phase; acceptance stays",
    "contention": "all phases slower and less even, only while others run",
    "code": "any phase, or acceptance: other code runs",
    "verify": "verify alone: another path, kernel or captured graph",
    "acceptance": "tokens per cycle change; the time of a cycle stays",
    "launch": "single launches differ from one another; the first requests are slow",
    "reset": "whatever the change resets: clocks, power limits, caches, states that no tool shows",
    "nothing": "nothing by itself",
}


@dataclass(frozen=True)
class Field:
    """An entry. unit: "" where there is none; importance: 3 (moves speed or output by itself) to 0 (does not).

    how: where it is read; predicts: a key of EFFECTS; family: the field that says that all of this kind were read, so
    that one that is missing is absent rather than unknown; within: the share by which two measured values, or the
    medians of two samples, may differ and still be the same.
    """

    name: str
    unit: str
    type: Type
    kind: Kind
    importance: int
    predicts: str
    how: str
    family: str = ""
    within: float = 0.0

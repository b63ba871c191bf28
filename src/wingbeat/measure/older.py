"""Records of older schemas, brought up to the present one."""

from __future__ import annotations

from typing import Any

from wingbeat.measure import columns
from wingbeat.measure.columns import ROWS, CycleColumns, Rows


def from_1(document: dict[str, Any], name: str) -> dict[str, Any]:
    """Schema 1 to 2. It had cycles as plain lists, and neither the time of a cycle nor a name, which the file's is."""
    for launch in document["launches"]:
        for facts in (facts for entry in launch["rounds"] for facts in entry["arms"].values()):
            cycles = facts["cycles"]
            facts["cycles"] = columns.pack(CycleColumns(**{**cycles, **{row: Rows(cycles[row]) for row in ROWS}}))
    return {**document, "schema": 2, "name": name}

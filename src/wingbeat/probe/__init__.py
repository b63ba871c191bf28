"""The environment: what the machine, the process and the code are.

Every field has one of four states (see `reading`); a probe that fails is a field that says so, never an exception.
`registry` says what each field means. The modules below load the standard library alone and run on Python 3.8, as they
are also sent to other machines.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, Mapping

from wingbeat.probe.collect import Request, take
from wingbeat.probe.reading import Reading


def fingerprint(models: Mapping[str, str] | None = None) -> dict[str, Reading]:
    """Reads every field, for this process; takes well under a second and raises nothing.

    models: folders, files or hub ids by "model" and "head", to be hashed.
    """
    return take(Request(models=dict(models or {})))


def to_json(readings: Mapping[str, Reading]) -> dict[str, dict[str, Any]]:
    """The readings as a record keeps them: state, the value or the reason, source and raw text."""
    return {
        name: {key: v for key, v in asdict(r).items() if v not in (None, "") or (key, r.state) == ("value", "value")}
        for name, r in readings.items()
    }


def from_json(fields: Mapping[str, Mapping[str, Any]]) -> dict[str, Reading]:
    """The readings of a record."""
    return {name: Reading(**entry) for name, entry in fields.items()}

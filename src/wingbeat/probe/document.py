"""A fingerprint as a file: when, where and how long, the readings, and what went wrong on the way."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from wingbeat.errors import CorruptError, NotFoundError, StorageError, UnsupportedError
from wingbeat.probe import from_json, to_json
from wingbeat.probe.reading import Reading

SCHEMA = 1


@dataclass
class Fingerprint:
    """taken: UTC, ISO 8601; seconds: how long it took; where: whose it is; notes: what is missing, and why."""

    taken: str
    seconds: float
    where: str
    readings: dict[str, Reading]
    notes: list[str] = field(default_factory=list)


def document(fingerprint: Fingerprint) -> dict[str, Any]:
    """The fingerprint as JSON has it."""
    facts = {"taken": fingerprint.taken, "seconds": fingerprint.seconds, "where": fingerprint.where}
    return {"fingerprint": SCHEMA, **facts, "notes": fingerprint.notes, "fields": to_json(fingerprint.readings)}


def save(fingerprint: Fingerprint, path: Path) -> None:
    """Writes the fingerprint, all or nothing. Raises StorageError."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        draft.write_text(json.dumps(document(fingerprint), indent=1) + "\n", encoding="utf-8")
        draft.replace(path)
    except OSError as error:
        raise StorageError(f"cannot write {path}: {error.strerror}; choose another place with --out") from error


def load(path: Path) -> Fingerprint:
    """Reads a fingerprint.

    Raises NotFoundError, CorruptError (damaged, or something else), UnsupportedError (from a newer wingbeat).
    """
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise NotFoundError(f"cannot read {path}: {error.strerror}") from error
    except ValueError as error:
        raise CorruptError(f"{path} is not JSON: {error}; take the fingerprint again") from error
    try:
        if found["fingerprint"] > SCHEMA:
            raise UnsupportedError(f"{path} was written by a newer wingbeat; update this one")
        readings = from_json(found["fields"])
        return Fingerprint(found["taken"], found["seconds"], found["where"], readings, found["notes"])
    except (KeyError, TypeError, AttributeError) as error:
        raise CorruptError(f"{path} is not a fingerprint, or a damaged one; take it again") from error

"""Files that are either the old version or the new one, never half of it; and a training run's saved state."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from wingbeat.errors import CorruptError, MismatchError, StorageError

CHECKPOINT = "checkpoint.pt"


def replace_file(path: Path, write: Callable[[Path], None]) -> str:
    """Lets `write` fill a file beside `path`, flushes it to disk and renames it over; returns its sha256.

    Raises StorageError when writing fails; `path` is then as it was before.
    """
    scratch = path.with_name(f".{path.name}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write(scratch)
        with scratch.open("rb") as stream:
            checksum = hashlib.file_digest(stream, "sha256").hexdigest()
            os.fsync(stream.fileno())
        scratch.replace(path)
    except Exception as error:  # safetensors and torch wrap an OSError in types of their own
        scratch.unlink(missing_ok=True)
        raise StorageError(f"cannot write {path}: {error}; free some space or choose another directory") from error
    return checksum


def write_json(path: Path, value: object) -> None:
    """Writes `value` as JSON, all or nothing."""
    replace_file(path, lambda scratch: _dump(scratch, value))


def _dump(path: Path, value: object) -> None:
    path.write_text(json.dumps(value, indent=1) + "\n")


def save_checkpoint(directory: Path, state: dict[str, Any]) -> None:
    """Keeps a training run's state in `directory`; raises StorageError when it cannot be written."""
    replace_file(directory / CHECKPOINT, lambda scratch: torch.save(state, scratch))


def load_checkpoint(directory: Path, identity: dict[str, object]) -> dict[str, Any] | None:
    """The state saved in `directory`, or None. Raises CorruptError, or MismatchError when it is another run's."""
    path = directory / CHECKPOINT
    if not path.exists():
        return None
    try:
        state = torch.load(path, weights_only=False)
    except Exception as error:  # a damaged file fails in many ways
        raise CorruptError(f"checkpoint {path} cannot be read ({error}); delete it to start over") from error
    changed = [key for key, value in identity.items() if state["identity"].get(key) != value]
    if changed:
        raise MismatchError(f"{path} belongs to another run (differs in {', '.join(changed)}); use a new directory")
    return state

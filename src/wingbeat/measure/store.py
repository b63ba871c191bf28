"""A store: a plain folder of runs, one file each, that can be copied or committed. A run is named by its file."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from wingbeat.errors import NotFoundError, StorageError, UsageError
from wingbeat.measure import record

SUFFIX = ".jsonl"
SUFFIXES = (SUFFIX, ".json")  # .json: records of schema 1
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]*")


def timed_name(kind: str) -> str:
    """A name after the present time."""
    return f"{kind}-{datetime.now():%Y%m%d-%H%M%S}"


def new_path(folder: Path, name: str) -> Path:
    """Where a new run of that name goes.

    Raises UsageError for a name that is no plain file name, or is taken: a record is never written over.
    """
    if not _NAME.fullmatch(name):
        raise UsageError(f"a run cannot be named {name!r}; use letters, digits and . _ + -, a letter or digit first")
    taken = _named(folder, name)
    if taken:
        raise UsageError(f"{taken} exists, and a record is never written over; choose another name, or rename that one")
    return folder / f"{name}{SUFFIX}"


def paths(folder: Path) -> list[Path]:
    """The files of all runs of a store, by name; none where there is no such folder."""
    return sorted(path for path in folder.glob("*") if path.suffix in SUFFIXES and not path.name.startswith("."))


def find(folder: Path, name: str) -> Path:
    """The file of a run, from its name in the store or its path. Raises NotFoundError with the names that there are."""
    path = Path(name) if Path(name).is_file() else _named(folder, name)
    if path is None:
        known = ", ".join(path.stem for path in paths(folder)) or "none"
        raise NotFoundError(f"no run {name!r}: no such file, and the store {folder} holds: {known}")
    return path


def rename(folder: Path, old: str, new: str) -> Path:
    """Gives a run another name, in the file and of the file, which stays in its folder; returns its new path.

    Raises NotFoundError, UsageError as `new_path`, CorruptError for a damaged record, StorageError.
    """
    path = find(folder, old)
    renamed = new_path(path.parent, new)
    record.save(replace(record.load(path), name=new), renamed)
    _unlink(path)
    return renamed


def remove(folder: Path, name: str) -> Path:
    """Deletes a run and returns the path that it had. Raises NotFoundError, StorageError."""
    path = find(folder, name)
    _unlink(path)
    return path


def _named(folder: Path, name: str) -> Path | None:
    found = (folder / f"{name}{suffix}" for suffix in SUFFIXES)
    return next((path for path in found if path.is_file()), None)


def _unlink(path: Path) -> None:
    try:
        path.unlink()
    except OSError as error:
        raise StorageError(f"cannot remove {path}: {error.strerror}") from error

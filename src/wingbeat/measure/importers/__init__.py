"""Importers: what other programs wrote, as records. One module a format; each knows its own text, and nothing else.

A record made here has no fingerprint, no rounds and no cycles. What the source does not say stays out of it. For every
figure, effective[arm]["definitions"] keeps what it counts and over what it was averaged, so that a comparison can tell.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from wingbeat.errors import CorruptError, NotFoundError, UsageError
from wingbeat.measure.importers import (
    aiperf,
    llama,
    scrapes,
    sglang_bench,
    sglang_log,
    table,
    vllm_bench,
    vllm_log,
)
from wingbeat.measure.importers.evidence import Evidence, Reading, decoded, told_apart
from wingbeat.measure.record import Launch, RunRecord
from wingbeat.measure.runner import now

DEFAULT_ARM = "imported"


class Format(Protocol):
    """A module of this package whose text comes from one file."""

    NAME: str
    TITLE: str

    def looks_like(self, text: str) -> bool:
        """Whether the text is of this format."""

    def read(self, text: str) -> Reading:
        """What the text says."""


FORMATS: tuple[Format, ...] = (sglang_log, vllm_log, sglang_bench, vllm_bench, aiperf, llama, table)
_TITLES = {one.NAME: one.TITLE for one in FORMATS} | {scrapes.NAME: scrapes.TITLE}


def known() -> str:
    """The formats, a line each."""
    return "\n".join(f"  {name:<13} {title}" for name, title in _TITLES.items())


def read(paths: Sequence[Path], wanted: str | None = None, seconds: float | None = None) -> tuple[str, Reading]:
    """The format's name and what all files together say: each file is a launch of its own (two of `metrics` are one).

    wanted: the format, instead of finding it out. seconds: between the two scrapes of `metrics`. Raises UsageError (a
    format that is not known or not the same for all files), NotFoundError and CorruptError (nothing usable in a file).
    """
    texts = [_text(path) for path in paths]
    found = {wanted or _detected(text, path) for text, path in zip(texts, paths, strict=True)}
    if len(found) != 1:
        raise UsageError(f"the files are of different formats ({', '.join(sorted(found))}): import them one by one")
    [name] = found
    if name not in _TITLES:
        raise UsageError(f"no format {name!r}; known are\n{known()}")
    if seconds is not None and (name != scrapes.NAME or seconds <= 0):
        raise UsageError("--seconds is the time between two scrapes of /metrics, and more than 0")
    if name == scrapes.NAME:
        if len(paths) != 2:
            raise UsageError(f"{scrapes.NAME} needs two files, the scrape before and the scrape after, in this order")
        before, after = texts
        return name, scrapes.read(before, after, seconds)
    reader = next(one for one in FORMATS if name == one.NAME)
    whole = Reading()
    for path, text in zip(paths, texts, strict=True):
        part = reader.read(text)
        if not part.launches:
            raise CorruptError(
                f"{path}: nothing usable as {name} ({part.skipped} damaged entries); known are\n{known()}"
            )
        whole.launches += part.launches
        whole.used += part.used
        whole.skipped += part.skipped
        whole.notes += part.notes
    return name, whole


def to_record(reading: Reading, source: str, paths: Sequence[Path], name: str = "", arm: str = "") -> RunRecord:
    """The reading as a record.

    arm: the arm's name. What ran with other settings is another arm: its name then says what tells them apart.
    """
    everything = [one for arms in reading.launches for one in arms]
    apart = told_apart([one.settings for one in everything])
    labels = {
        id(one): ",".join(part for part in (arm, one.name or told) if part) or DEFAULT_ARM
        for one, told in zip(everything, apart, strict=True)
    }
    files = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in paths}
    amount = f"{reading.used} entries used, {reading.skipped} damaged and skipped"
    requested = {"imported": f"{', '.join(files)} ({amount})"}
    return RunRecord(
        kind="import",
        created=now(),
        requested=requested | ({"note": "; ".join(reading.notes)} if reading.notes else {}),
        workload={**_shared([one.workload for one in everything]), "files": files},
        arms=list(dict.fromkeys(labels.values())),
        launches=[_launch({labels[id(one)]: one for one in arms}) for arms in reading.launches],
        name=name,
        source=source,
    )


def _launch(arms: dict[str, Evidence]) -> Launch:
    return Launch(
        started=next((one.started for one in arms.values() if one.started), ""),
        effective={
            label: {**one.settings, "workload": one.workload, "definitions": one.definitions}
            for label, one in arms.items()
        },
        finished=True,
        figures={label: one.figures for label, one in arms.items()},
        samples={label: one.samples for label, one in arms.items()},
    )


def _shared(workloads: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """What all say alike."""
    first, *others = workloads
    return {name: value for name, value in first.items() if all(other.get(name) == value for other in others)}


def _text(path: Path) -> str:
    try:
        text = decoded(path.read_bytes())
    except OSError as error:
        raise NotFoundError(f"cannot read {path}: {error.strerror}") from error
    if not text.strip():
        raise CorruptError(f"{path} is empty")
    return text


def _detected(text: str, path: Path) -> str:
    if scrapes.looks_like(text):
        return scrapes.NAME
    for one in FORMATS:
        if one.looks_like(text):
            return one.NAME
    raise CorruptError(f"{path}: not a format that can be imported; say which with --format if it is one of\n{known()}")

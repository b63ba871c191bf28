"""Fingerprints that were taken beside a run, from their files: they stand where a run measured here has its own."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from wingbeat.errors import UsageError
from wingbeat.measure.record import RunRecord

UNDER_LOAD = "load."  # how the names of readings under load begin
Fields = dict[str, dict[str, Any]]  # a fingerprint, as a record keeps it


def attach(run: RunRecord, paths: Sequence[Path]) -> None:
    """Puts one or two fingerprints (see `probe.document`) into a run.

    The first is of the start of its first launch, a second of the end of its last. Where only one of two has readings
    under load, these are added to the other; so they are to a run that has a fingerprint without them. Raises
    UsageError (more than two, of two boots, for a run that has another), and as `document.load`.
    """
    from wingbeat.probe import document, to_json

    if not 1 <= len(paths) <= 2:
        raise UsageError("give one fingerprint or two: of the start and the end, or at rest and under load")
    if not run.launches:
        raise UsageError(f"{run.name} has no launch yet that a fingerprint could be of")
    first, last = run.launches[0], run.launches[-1]
    own = [fields for fields in (first.fingerprint, last.fingerprint_after) if fields]
    given = _merged([to_json(document.load(path).readings) for path in paths])
    if given == own:
        return
    _check_boot([*own, *given], run.name)
    if own:
        if len(given) > 1 or _under_load(own[0]) or not _under_load(given[0]):
            raise UsageError(f"{run.name} has a fingerprint: only readings under load can be added to it, and once")
        given = _merged([own[0], *given])
    first.fingerprint, *after = given
    if after:
        last.fingerprint_after = after[0]


def _merged(taken: list[Fields]) -> list[Fields]:
    """One fingerprint of two, where only one has readings under load; else as they are."""
    loads = [_under_load(fields) for fields in taken]
    if len(taken) < 2 or all(loads) or not any(loads):
        return taken
    resting = next(fields for fields, load in zip(taken, loads, strict=True) if not load)
    return [{**resting, **loads[0], **loads[1]}]


def _under_load(fields: Fields) -> Fields:
    return {name: entry for name, entry in fields.items() if name.startswith(UNDER_LOAD)}


def _check_boot(taken: list[Fields], name: str) -> None:
    boots = {fields["boot_id"].get("value") for fields in taken if "boot_id" in fields} - {None}
    if len(boots) > 1:
        raise UsageError(f"the fingerprints are of two machines or boots: take them where {name} ran, and when")

"""What is known of every field: unit, type, how it is read, how important a change is, and what it would predict."""

from __future__ import annotations

from fnmatch import fnmatchcase
from functools import lru_cache

from wingbeat.probe.registry import gpu, machine, software
from wingbeat.probe.registry.field import EFFECTS, Field

__all__ = ["EFFECTS", "FIELDS", "Field", "order", "spec"]

FIELDS: dict[str, Field] = {field.name: field for field in (*gpu.FIELDS, *machine.FIELDS, *software.FIELDS)}
_MANY = {name: field for name, field in FIELDS.items() if "*" in name}
_PLACES = {name: place for place, name in enumerate(FIELDS)}


@lru_cache(maxsize=None)
def spec(name: str) -> Field | None:
    """The entry of a field: its own, or the first whose "*" stands for a part of it (gpu.*.name, env.*)."""
    return FIELDS.get(name) or next((field for start, field in _MANY.items() if fnmatchcase(name, start)), None)


def order(name: str) -> tuple[int, int, str]:
    """Sorts fields: the important first, then as the registry has them."""
    found = spec(name)
    return (-found.importance, _PLACES[found.name], name) if found else (0, len(FIELDS), name)

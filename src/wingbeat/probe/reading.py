"""One field of a fingerprint: a value, or why there is none."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Callable, Dict, Literal, Union

from wingbeat.probe.host import Host, NotReadError

State = Literal["value", "not applicable", "unknown", "error"]


@dataclass(frozen=True)
class Reading:
    """`value` belongs to the state "value"; the other three have a `reason`. Unknown never equals unknown.

    source: the files and commands that were read; raw: what they said, or its beginning.
    """

    state: State
    value: Any = None
    reason: str = ""
    source: str = ""
    raw: str = ""

    def same(self, other: Reading) -> bool | None:
        """Whether both readings say the same; None when that cannot be told."""
        if "unknown" in (self.state, other.state) or "error" in (self.state, other.state):
            return None
        return (self.state, self.value) == (other.state, other.value)


Probe = Callable[[], Any]  # returns a value or a Reading; raises NotReadError where the machine does not tell
Readings = Dict[str, Reading]
Probes = Dict[str, Union[Probe, Reading]]


def unknown(reason: str, raw: str = "") -> Reading:
    """A field that this machine has and that could not be read."""
    return Reading("unknown", reason=reason, raw=raw)


def not_applicable(reason: str, raw: str = "") -> Reading:
    """A field that this machine or process does not have."""
    return Reading("not applicable", reason=reason, raw=raw)


def sourced(readings: Readings, source: str) -> Readings:
    """The readings, with this source where they have none of their own."""
    return {name: replace(reading, source=reading.source or source) for name, reading in readings.items()}


def guarded(probe: Probe, host: Host | None = None) -> Reading:
    """Runs a probe; whatever it raises becomes a state. What it read from `host` is kept as source and raw text."""
    if host:
        host.forget()
    try:
        result = probe()
    except NotReadError as missing:
        result = not_applicable(str(missing)) if missing.absent else unknown(str(missing))
    except Exception as error:  # the one place where nothing may escape
        result = Reading("error", reason=f"{type(error).__name__}: {error}")
    reading = result if isinstance(result, Reading) else Reading("value", result)
    if not host:
        return reading
    source, raw = host.heard()
    raw = reading.raw or ("" if raw == str(reading.value) else raw)
    return replace(reading, source=reading.source or source, raw=raw)

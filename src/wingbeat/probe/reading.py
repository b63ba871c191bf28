"""One field of a fingerprint: a value, or why there is none."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

State = Literal["value", "not applicable", "unknown", "error"]


@dataclass(frozen=True)
class Reading:
    """`value` belongs to the state "value"; the other three have a `reason`. Unknown never equals unknown."""

    state: State
    value: Any = None
    reason: str = ""

    def same(self, other: Reading) -> bool | None:
        """Whether both readings say the same; None when that cannot be told."""
        if "unknown" in (self.state, other.state) or "error" in (self.state, other.state):
            return None
        return (self.state, self.value) == (other.state, other.value)


def unknown(reason: str) -> Reading:
    """A field that this machine has and that could not be read."""
    return Reading("unknown", reason=reason)


def not_applicable(reason: str) -> Reading:
    """A field that this machine or process does not have."""
    return Reading("not applicable", reason=reason)


def guarded(probe: Callable[[], Any]) -> Reading:
    """Runs a probe that returns a value or a Reading; whatever it raises becomes the state "error"."""
    try:
        result = probe()
    except Exception as error:  # the one place where nothing may escape
        return Reading("error", reason=f"{type(error).__name__}: {error}")
    return result if isinstance(result, Reading) else Reading("value", result)

"""A run against those before it that measured the same."""

from __future__ import annotations

from collections.abc import Sequence

from wingbeat.errors import UsageError
from wingbeat.investigate.comparable import check
from wingbeat.investigate.side import Side, runs, side
from wingbeat.measure.record import RunRecord


def against_history(label: str, record: RunRecord, arm: str, others: Sequence[RunRecord]) -> tuple[Side, Side]:
    """Both sides of a comparison with all earlier runs of the same prompts and settings of the workload.

    With several earlier runs, the run is the replicate: two runs differ by more than two launches of one. Raises
    UsageError where there is no earlier run to compare with.
    """
    now = side(label, record, arm)
    if "sha256" not in record.workload:
        raise UsageError(f"{label} does not say which prompts it ran, so nothing shows which runs are like it")
    earlier = [other for other in others if _earlier(other, record) and arm in other.arms and other.launches]
    alike = [one for one in (side(other.name, other, arm) for other in earlier) if not check(one, now).obstacles]
    if not alike:
        raise UsageError(f"the store holds no run from before {label} that is comparable with its arm {arm}")
    if len(alike) == 1:
        return alike[0], now
    return runs(f"history ({len(alike)} runs)", alike), runs(label, [now])


def _earlier(other: RunRecord, record: RunRecord) -> bool:
    """Whether a run came before, from the same source, and is known to have had the same prompts."""
    alike = (other.source, other.workload.get("sha256")) == (record.source, record.workload["sha256"])
    return alike and other.created < record.created

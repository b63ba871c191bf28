"""Heat: the GPU slows itself as it warms, so that cycles lengthen within a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wingbeat.investigate import courses
from wingbeat.investigate.causes.shapes import ALL_PHASES
from wingbeat.investigate.hypothesis import Cause, Watch, too_small

if TYPE_CHECKING:
    from wingbeat.investigate.case import Case

HEAT = ("gpu.*.slowed.*thermal", "load.gpu.*.slowed.*thermal", "load.gpu.*.temperature")


def _refuted(case: Case) -> str:
    """Cycles that lengthen are heat only where nothing shows that the GPUs were as cool as before."""
    seen = {fact.state for pattern in HEAT for fact in case.match(pattern)}
    if "same" in seen and "changed" not in seen:
        return "heat slowed no GPU more than before"
    drifts = "changed" not in seen and case.changed("run.drift")
    return too_small(courses.drifted(case.slower), case) if case.slower and drifts else ""


CAUSE = Cause(
    key="thermal",
    family="devices",
    question="Do the GPUs slow down because they are hot?",
    predicts=(ALL_PHASES,),
    watches=(
        *(Watch(pattern, "more") for pattern in HEAT),
        Watch("load.gpu.*.slowed", "other"),
        Watch("run.drift"),
    ),
    decides=("gpu.*.slowed.*thermal|load.gpu.*.clock.sm",),
    shape="grows over the first minutes of load; gone after a pause",
    see="`wingbeat fingerprint --under-load`",
    experiments=("load", "restart"),
    near=3,
    needs="devices",
    refuted=_refuted,
)

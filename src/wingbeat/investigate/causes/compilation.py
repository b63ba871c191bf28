"""Compilation inside the timed window: single cycles that take many times as long as the others."""

from wingbeat.investigate.causes.shapes import ANY
from wingbeat.investigate.hypothesis import Cause, Prediction, Watch

CAUSE = Cause(
    key="compilation",
    family="state of the process",
    question="Were kernels compiled while time was taken?",
    predicts=(Prediction("single long cycles", stays=("tokens",)), ANY),
    watches=(Watch("run.uneven", "more"),),
    decides=("run.uneven",),
    shape="a few cycles, at new widths or lengths; gone when run again in the same process",
    see="a run recorded cycle by cycle, or the server's log (compilation during inference)",
    experiments=("warm",),
    near=3,
)

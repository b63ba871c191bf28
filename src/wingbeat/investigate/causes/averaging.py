"""An average that hides its spread: a figure from an early part, or the best of several."""

from wingbeat.investigate.causes.shapes import WHILE_MEASURED
from wingbeat.investigate.hypothesis import Cause, Watch

CAUSE = Cause(
    key="averaging",
    family="measurement conditions",
    question="Does a single figure stand for a wide spread?",
    predicts=(WHILE_MEASURED,),
    watches=(Watch("run.spread"),),
    decides=("run.spread",),
    shape="the figure lies inside the spread of the other side",
    see="a run recorded cycle by cycle, in several launches",
    experiments=("repeat", "artefact"),
    near=1,
)

"""A process that slows as it runs: fragmentation, growing structures, an idle state."""

from wingbeat.investigate.causes.shapes import ANY
from wingbeat.investigate.hypothesis import Cause, Watch

CAUSE = Cause(
    key="leak",
    family="state of the process",
    question="Did one side slow down while it ran?",
    predicts=(ANY,),
    watches=(Watch("run.drift"),),
    decides=("run.drift",),
    shape="grows over the run at equal context lengths; gone after a restart",
    see="a longer run recorded cycle by cycle",
    experiments=("restart",),
    near=3,
)

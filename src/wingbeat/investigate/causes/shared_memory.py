"""Little shared memory: messages between the processes of a server are copied or wait."""

from wingbeat.investigate.causes.shapes import BETWEEN_PHASES
from wingbeat.investigate.hypothesis import Cause, Watch

CAUSE = Cause(
    key="shared_memory",
    family="machine",
    question="Have the server's processes less shared memory?",
    predicts=(BETWEEN_PHASES,),
    watches=(Watch("container.shared_memory", "less"), Watch("container"), Watch("process.locked_memory")),
    decides=("container.shared_memory",),
    shape="a constant for every step",
    see="`wingbeat fingerprint --pid` of the server",
    experiments=("environment",),
    near=2,
)

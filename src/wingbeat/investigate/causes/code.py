"""Other code: another commit, or another checkout that is installed in place."""

from wingbeat.investigate.causes.shapes import ANY
from wingbeat.investigate.hypothesis import Cause, Watch

CAUSE = Cause(
    key="code",
    family="software",
    question="Is it other code?",
    predicts=(ANY,),
    watches=(Watch("git.commit"), Watch("editable.*"), Watch("wingbeat.source")),
    decides=("python.packages", "editable.*|git.commit"),
    shape="whatever the other code does; the same in every launch",
    see="`wingbeat fingerprint --pid` of the server",
    experiments=("code",),
)

"""Another torch: other kernels, other captures, other defaults."""

from wingbeat.investigate.causes.shapes import ANY
from wingbeat.investigate.hypothesis import Cause, Watch

CAUSE = Cause(
    key="torch",
    family="software",
    question="Is it another torch?",
    predicts=(ANY,),
    watches=(Watch("torch.loaded"), Watch("installed.torch")),
    decides=("torch.loaded|installed.torch",),
    shape="whatever the other code does; the same in every launch",
    see="`wingbeat fingerprint --pid` of the server",
    experiments=("library",),
)

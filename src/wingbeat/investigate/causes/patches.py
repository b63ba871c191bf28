"""Local patches: files changed by hand among the installed packages, or changes that were not committed."""

from wingbeat.investigate.causes.shapes import ANY
from wingbeat.investigate.hypothesis import Cause, Watch

CAUSE = Cause(
    key="patches",
    family="software",
    question="Was code patched locally?",
    predicts=(ANY,),
    watches=(Watch("packages.patched"), Watch("packages.startup"), Watch("git.diff")),
    decides=("packages.patched",),
    shape="whatever the patch does; the same in every launch",
    see="`wingbeat fingerprint --pid` of the server",
    experiments=("code",),
    near=3,
)

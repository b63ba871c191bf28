"""Other code: another commit, local changes, or files patched by hand among the installed packages."""

from wingbeat.investigate.causes.shapes import ANY
from wingbeat.investigate.hypothesis import Cause, Watch

CAUSE = Cause(
    key="code",
    family="software",
    question="Is it other code?",
    predicts=(ANY,),
    watches=(
        Watch("git.commit"), Watch("git.diff"), Watch("editable.*"), Watch("packages.patched"),
        Watch("packages.startup"),
    ),
    decides=("packages.patched",),
    shape="whatever the other code does; the same in every launch",
    see="`wingbeat fingerprint --pid` of the server",
    experiments=("code",),
    near=2,
)  # fmt: skip

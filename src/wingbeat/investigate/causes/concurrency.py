"""Other numbers of requests at once: verify of many requests is bound by computing, and no longer nearly free."""

from wingbeat.investigate.causes.shapes import ANY
from wingbeat.investigate.hypothesis import Cause, Prediction, Watch

CAUSE = Cause(
    key="concurrency",
    family="measurement conditions",
    question="Did another number of requests run at once?",
    predicts=(Prediction("longer cycles", moves=("verify",), stays=("tokens",)), ANY),
    watches=(
        Watch("setting.concurrency"), Watch("run.requests"), Watch("setting.max_running_requests"),
        Watch("setting.max_num_seqs"), Watch("setting.max_concurrency"),
    ),
    decides=("run.requests",),
    shape="grows with the batch; gone with one request",
    see="a run that says how many requests ran at once",
    experiments=("batch", "repeat"),
    near=3,
)  # fmt: skip

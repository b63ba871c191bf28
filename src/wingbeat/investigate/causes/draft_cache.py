"""The draft's cache: hits of the prefix cache that leave it unfilled, or a state that decays as the server runs."""

from wingbeat.investigate.causes.shapes import ACCEPTANCE_ALONE
from wingbeat.investigate.hypothesis import Cause, Prediction, Watch

CAUSE = Cause(
    key="draft_cache",
    family="state of the process",
    question="Is the draft's cache in another state: prefix hits, long uptime?",
    predicts=(ACCEPTANCE_ALONE, Prediction("a shorter prefill", moves=("prefill",), stays=("verify",))),
    watches=(Watch("run.prefix_hits"), Watch("process.uptime", "more")),
    decides=("run.prefix_hits", "process.uptime"),
    shape="only prompts that were cached; or falls with uptime",
    see="`cached_tokens` of each request, and `wingbeat fingerprint --pid` for the uptime",
    experiments=("restart",),
    near=2,
)

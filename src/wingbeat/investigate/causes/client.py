"""The client: what sends requests and counts tokens changed, or is the bottleneck itself."""

from wingbeat.investigate.hypothesis import Cause, Prediction, Watch

CAUSE = Cause(
    key="client",
    family="measurement conditions",
    question="Is the client or harness another, or the bottleneck?",
    predicts=(
        Prediction("another speed while no phase changed", stays=("tokens", "verify", "draft")),
        Prediction("another time to the first token", moves=("prefill",), stays=("tokens", "verify")),
    ),
    watches=(
        Watch("setting.client"), Watch("setting.backend"), Watch("setting.client_version"), Watch("setting.endpoint"),
        Watch("setting.request_rate"), Watch("setting.stream"), Watch("setting.num_prompts"),
    ),
    decides=("setting.client",),
    shape="the same with another client gone",
    see="a second client on the same server",
    experiments=("artefact",),
    near=2,
)  # fmt: skip

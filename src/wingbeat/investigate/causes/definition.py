"""The same word for two quantities: acceptance with or without the target's own token, of a run or a server's life."""

from wingbeat.investigate.hypothesis import Cause, Prediction, Watch

CAUSE = Cause(
    key="definition",
    family="measurement conditions",
    question="Do the figures of both sides count the same?",
    predicts=(
        Prediction("another acceptance and the same times", moves=("tokens",), stays=("verify", "draft")),
        Prediction("another speed by the clock alone", stays=("verify", "draft", "tokens")),
    ),
    watches=(Watch("run.definitions", without_change=True),),
    decides=("run.definitions",),
    shape="a fixed offset or factor, whatever the run",
    see="the same tool on both sides",
    experiments=("artefact", "repeat"),
    near=3,
)

"""Predictions that several causes share (see `hypothesis.Prediction`)."""

from dataclasses import replace

from wingbeat.investigate.hypothesis import Prediction

ALL_PHASES = Prediction(
    "draft, verify and plain decoding changing by one ratio",
    moves=("verify", "draft", "plain"),
    stays=("tokens",),
    alike=True,
)
VERIFY_ALONE = Prediction("a change of verify alone", moves=("verify",), stays=("tokens", "draft", "plain"))
DRAFT_ALONE = Prediction("a change of drafting alone", moves=("draft",), stays=("tokens", "verify", "plain"))
ACCEPTANCE_ALONE = Prediction(
    "a change of tokens per cycle alone", moves=("tokens",), stays=("verify", "draft", "plain")
)
TARGET_STEPS = Prediction(
    "a change of verify and plain decoding alike", moves=("verify", "plain"), stays=("tokens", "draft")
)
BETWEEN_PHASES = Prediction(
    "more time between the phases of the GPU", moves=("host",), stays=("tokens", "verify", "draft"), on="devices"
)
ON_THE_CPU = Prediction("every phase of an engine on the CPU", moves=("verify", "plain"), stays=("tokens",), on="cpu")
ALL_ON_THE_CPU = replace(ALL_PHASES, on="cpu")
WHILE_MEASURED = Prediction("longer cycles and the same acceptance", moves=("verify",), stays=("tokens",))
SLOWER_CYCLES = Prediction("other times and the same acceptance", stays=("tokens",))
ANY = Prediction("any phase, or acceptance")

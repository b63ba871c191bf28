"""Other sampling: temperature lowers acceptance, and its kernels (sorting, renormalising) run in verify."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wingbeat.investigate.hypothesis import Cause, Prediction, Watch

if TYPE_CHECKING:
    from wingbeat.investigate.case import Case


def _refuted(case: Case) -> str:
    """Where nothing is drawn, it need not be known from how many tokens."""
    greedy = any(fact.state == "same" and fact.before == 0 for fact in case.match("setting.temperature"))
    return "both sides took the likeliest token" if greedy and not any(map(case.changed, WATCHED)) else ""


WATCHED = (
    "setting.temperature", "setting.top_k", "setting.top_p", "setting.min_p", "setting.repetition_penalty",
    "setting.seed", "*.generation_config", "setting.speculative_accept_threshold_*", "setting.rejection_sample_method",
)  # fmt: skip
CAUSE = Cause(
    key="sampling",
    family="measurement conditions",
    question="Were tokens sampled in another way?",
    predicts=(
        Prediction("another acceptance", moves=("tokens",), stays=("draft",)),
        Prediction("sorting and renormalising in verify", moves=("verify",), stays=("tokens",)),
    ),
    watches=tuple(map(Watch, WATCHED)),
    decides=("setting.temperature", "setting.top_p", "setting.top_k"),
    shape="gone at temperature 0",
    see="a run recorded with its sampling settings",
    experiments=("greedy", "repeat"),
    near=3,
    refuted=_refuted,
)

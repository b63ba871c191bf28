"""Other prompts, or another way of wrapping them: what is easy to draft depends on the text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wingbeat.investigate.hypothesis import Cause, Prediction, Watch

if TYPE_CHECKING:
    from wingbeat.investigate.case import Case


def _refuted(case: Case) -> str:
    """Other text shows in what is accepted, or in how long it is."""
    known = any(fact.state == "same" for fact in case.match("run.context")) and not case.changed("run.new_tokens")
    return "acceptance and lengths stayed" if known and case.moves.still("tokens") == "stayed" else ""


CAUSE = Cause(
    key="prompts",
    family="measurement conditions",
    question="Were the prompts or the chat template others?",
    predicts=(
        Prediction("another acceptance", moves=("tokens",)),
        Prediction("other contexts", moves=("prefill",)),
        Prediction("other contexts", moves=("verify",)),
    ),
    watches=(
        Watch("run.prompts"), Watch("setting.template"), Watch("setting.raw"), Watch("setting.chat_template"),
        Watch("setting.apply_chat_template"), Watch("setting.dataset"), Watch("setting.dataset_name"),
        Watch("setting.dataset_path"), Watch("setting.system_prompt"), Watch("model.chat_template"),
    ),
    decides=("run.prompts", "setting.template|setting.raw|setting.chat_template|model.chat_template"),
    shape="acceptance differs from prompt to prompt; the same on prompts that both ran",
    see="a run recorded with its prompt file (`wingbeat bench --prompts`)",
    experiments=("prompts", "repeat"),
    near=3,
    refuted=_refuted,
)  # fmt: skip

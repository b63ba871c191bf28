"""Another attention kernel for verify; for MLA targets also other arithmetic (see `mla`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wingbeat.investigate import mla
from wingbeat.investigate.causes.context import growth
from wingbeat.investigate.causes.shapes import ACCEPTANCE_ALONE, DRAFT_ALONE, TARGET_STEPS, VERIFY_ALONE
from wingbeat.investigate.hypothesis import Cause, Watch

if TYPE_CHECKING:
    from wingbeat.investigate.case import Case


def _arithmetic(case: Case) -> list[str]:
    verify = case.moves.by.get("verify")
    return [*mla.notes(case.facts, verify.after - verify.before if verify else None), *growth(case)]


CAUSE = Cause(
    key="attention",
    family="verify's code path",
    question="Does verify run another attention kernel than before, or than decode?",
    predicts=(VERIFY_ALONE, DRAFT_ALONE, TARGET_STEPS, ACCEPTANCE_ALONE),
    watches=(
        Watch("setting.*attention_backend"), Watch("setting.*attention_mode"),
        Watch("env.VLLM_ATTENTION_BACKEND"), Watch("setting.verify_kernel"), Watch("setting.*flashinfer_mla*"),
    ),
    decides=("setting.verify_kernel",),
    shape="grows with context, and with width where the cache is read for each token",
    see="a trace of one verify and one decode step, or the backend that the server's log names",
    experiments=("kernel",),
    near=3,
    note=_arithmetic,
)  # fmt: skip

"""Degenerate output: text that repeats itself is easy to draft, and raises acceptance."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wingbeat.investigate.causes.shapes import ACCEPTANCE_ALONE
from wingbeat.investigate.hypothesis import Cause, Watch

if TYPE_CHECKING:
    from wingbeat.investigate.case import Case


def _refuted(case: Case) -> str:
    same = case.found.outputs
    return f"{same[0]} of {same[1]} outputs are the same" if same and same[0] == same[1] else ""


CAUSE = Cause(
    key="degenerate",
    family="state of the process",
    question="Does one side repeat itself?",
    predicts=(ACCEPTANCE_ALONE,),
    watches=(Watch("run.repetition", "less"), Watch("setting.simulate_acc_len"), Watch("env.SGLANG_SIMULATE_ACC_LEN")),
    decides=("run.repetition",),
    shape="single prompts with very high acceptance",
    see="the outputs themselves (`wingbeat runs export --table requests`)",
    experiments=("greedy", "prompts"),
    near=3,
    needs="drafting",
    refuted=_refuted,
)

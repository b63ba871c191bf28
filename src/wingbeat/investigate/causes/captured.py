"""Verify without its captured path: run as prefill is (extend), eager, launch by launch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wingbeat.investigate.causes.context import growth
from wingbeat.investigate.causes.shapes import DRAFT_ALONE, TARGET_STEPS, VERIFY_ALONE
from wingbeat.investigate.hypothesis import Cause, Prediction, Watch

if TYPE_CHECKING:
    from wingbeat.investigate.case import Case

OUTCOME = {"run.captured", "run.path", "setting.path", "setting.eager_because"}  # not set, but what came of settings


def _refuted(case: Case) -> str:
    """The path may be another because of something that is a cause of its own."""
    own = {fact.name for watch in CAUSE.watches for fact in case.changed(watch.pattern)}
    format_changed = case.changed("setting.dtype") or case.changed("setting.weights")
    return "the path follows from the number format" if own and own <= OUTCOME and format_changed else ""


CAUSE = Cause(
    key="captured",
    family="verify's code path",
    question="Does verify run captured, as decode does, or as extend?",
    predicts=(
        VERIFY_ALONE,
        DRAFT_ALONE,
        TARGET_STEPS,
        Prediction("a constant for every launch of work", moves=("verify", "draft"), stays=("tokens",)),
        Prediction("time between the phases", moves=("host",), stays=("tokens",)),
    ),
    watches=(
        Watch("run.captured", "less"), Watch("run.path"), Watch("setting.path"), Watch("setting.eager"),
        Watch("setting.extend"), Watch("setting.disable_*cuda_graph*"), Watch("setting.cuda_graph_*"),
        Watch("setting.enforce_eager"), Watch("setting.compilation_config"), Watch("setting.cudagraph_*"),
        Watch("setting.eager_because"),
        Watch("env.SGLANG_DISABLE_DRAFT_EXTEND_CUDA_GRAPH"),
    ),
    decides=("run.captured|run.path",),
    shape="a constant at every context; jumps between batch sizes that are captured and others",
    see="the server's log (`cuda graph: False`), or `cuda_graph_passes_total` of its metrics",
    experiments=("captured", "kernel"),
    near=3,
    refuted=_refuted,
    note=growth,
)  # fmt: skip

"""A wider verify: more tokens in each, and a kernel that reads weights or cache once for every few of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wingbeat.investigate.hypothesis import Cause, Prediction, Watch

if TYPE_CHECKING:
    from wingbeat.investigate.case import Case

SEEN = "run.width"
SET = ("setting.*draft_tokens", "setting.nodes", "setting.*speculative_tokens", "setting.steps", "setting.*num_steps")


def _refuted(case: Case) -> str:
    same = [fact for fact in case.match(SEEN) if fact.state == "same" and any(map(case.changed, SET))]
    return f"a verify took {same[0].after:g} tokens as before" if same else ""


CAUSE = Cause(
    key="width",
    family="verify's code path",
    question="Does a verify take more tokens, and pay for each?",
    predicts=(Prediction("longer verifies with more tokens in each", moves=("verify",), stays=("plain",)),),
    watches=tuple(Watch(pattern, "more", bounded=True) for pattern in (SEEN, *SET)),
    decides=("|".join((SEEN, *SET)),),
    shape="grows with the tokens verified, and with context where the cache is read for each",
    see="a run recorded cycle by cycle",
    experiments=("configuration", "kernel"),
    near=2,
    needs="drafting",
    refuted=_refuted,
)

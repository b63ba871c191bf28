"""Local patches: files changed by hand among the installed packages, or changes that were not committed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wingbeat.investigate.causes.shapes import ANY
from wingbeat.investigate.hypothesis import Cause, Watch

if TYPE_CHECKING:
    from wingbeat.investigate.case import Case


def _refuted(case: Case) -> str:
    own = [fact.name for watch in CAUSE.watches for fact in case.changed(watch.pattern)]
    committed = own == ["wingbeat.source"] and case.changed("git.commit")
    return "it is what the other commit brings" if committed else ""


CAUSE = Cause(
    key="patches",
    family="software",
    question="Was code patched locally?",
    predicts=(ANY,),
    watches=(Watch("packages.patched"), Watch("packages.startup"), Watch("git.diff"), Watch("wingbeat.source")),
    decides=("packages.patched",),
    shape="whatever the patch does; the same in every launch",
    see="`wingbeat fingerprint --pid` of the server",
    experiments=("code",),
    near=3,
    refuted=_refuted,
)

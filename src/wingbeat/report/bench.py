"""The bench table: what each arm reached, what its cycles cost, and in plain words whether speculation pays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any

from wingbeat.measure.record import RunRecord
from wingbeat.measure.stats import LEVEL, SAME_WITHIN, AgainstPlain, ArmSummary, Identity, Spread, summarise
from wingbeat.report.table import columns, paragraph

ABSENT = "-"


def render(record: RunRecord) -> str:
    """The whole report as text of at most 80 columns: heading, table, conclusions."""
    arms = summarise(record)
    if not arms:
        return "No finished round yet apart from warm-up: nothing to show."
    parts = [_heading(record), columns(["", *(arm.arm for arm in arms)], _rows(arms)), _legend()]
    parts += [paragraph(_conclusion(arm, arm.against_plain)) for arm in arms if arm.against_plain]
    parts += [paragraph(line) for line in _outputs(record, arms)]
    return "\n\n".join(parts)


def document(record: RunRecord) -> dict[str, Any]:
    """The same figures for a program: settings, workload, and one entry an arm (see `measure.stats.ArmSummary`)."""
    arms = [asdict(arm) for arm in summarise(record)]
    return {"requested": record.requested, "workload": record.workload, "finished": record.finished, "arms": arms}


def _heading(record: RunRecord) -> str:
    rounds = record.measured()
    prompts = len({entry.prompt for entry in rounds})
    asked, launches = record.requested, len(record.launches)
    weights = ", int8 weights" if asked.get("weights") == "int8" else ""
    text = (
        f"{prompts} of {record.workload['prompts']} prompts ({record.workload['name']}), {len(rounds)} rounds, "
        f"{launches} launch{'es' * (launches > 1)}; {asked.get('model') or 'default model'}, {asked.get('dtype')}"
        f"{weights}, temperature {asked.get('temperature')}, up to {asked.get('max_tokens')} tokens each."
    )
    if not record.finished:
        text += " Not finished: only the rounds that ended are counted."
    return paragraph(text)


def _legend() -> str:
    return paragraph(
        "Medians over rounds, (lower to upper quartile). Speed-up, verify / decode and break-even are ratios to "
        "plain in the same round. Prefill is not part of tok/s or of a cycle."
    )


def _rows(arms: Sequence[ArmSummary]) -> list[list[str]]:
    rows = [
        _row("tok/s", arms, lambda arm: f"{arm.tokens_per_second.median:.1f}"),
        _row("", arms, lambda arm: _quartiles(arm.tokens_per_second, ".1f")),
        _row("speed-up", arms, lambda arm: _median(_ratio(arm, "speed_up"))),
        _row("", arms, lambda arm: _quartiles(_ratio(arm, "speed_up"), ".2f")),
        _row("tokens per cycle", arms, lambda arm: f"{arm.tokens_per_cycle:.2f}"),
        _row("  needed to break even", arms, lambda arm: _median(_ratio(arm, "break_even"))),
        _row("ms per cycle", arms, lambda arm: f"{arm.ms['cycle'].median:.2f}"),
        _row("  draft", arms, lambda arm: f"{arm.ms['draft'].median:.2f}"),
        _row("  verify", arms, lambda arm: f"{arm.ms['verify'].median:.2f}"),
        _row("  rest", arms, lambda arm: f"{arm.ms['rest'].median:.2f}"),
        _row("  rest, share", arms, lambda arm: f"{arm.ms['rest'].median / arm.ms['cycle'].median:.1%}"),
        _row("verify / decode", arms, lambda arm: _median(_ratio(arm, "verify_ratio"))),
        _row("prefill, ms", arms, lambda arm: f"{arm.prefill_ms.median:.1f}"),
        _row("outputs as plain", arms, lambda arm: _identical(arm.against_plain)),
    ]
    return rows + _acceptance_rows(arms)


def _acceptance_rows(arms: Sequence[ArmSummary]) -> list[list[str]]:
    drafting = [arm.acceptance for arm in arms if arm.acceptance]
    if not drafting:
        return []
    rows = [
        _row("cycles with a draft", arms, lambda arm: f"{arm.acceptance.drafted:.0%}" if arm.acceptance else ABSENT),
        ["accepted at position: of all drafts (of those accepted up to there)"],
    ]
    for index in range(max(len(entry.unconditional) for entry in drafting)):
        rows.append(_row(f"  {index + 1}", arms, partial(_accepted, index)))
    return rows


def _row(label: str, arms: Sequence[ArmSummary], cell: Callable[[ArmSummary], str]) -> list[str]:
    return [label, *(cell(arm) for arm in arms)]


def _ratio(arm: ArmSummary, name: str) -> Spread | None:
    return getattr(arm.against_plain, name) if arm.against_plain else None


def _median(spread: Spread | None) -> str:
    return f"{spread.median:.2f}" if spread else ABSENT


def _quartiles(spread: Spread | None, form: str) -> str:
    return f"({spread.low:{form}} to {spread.high:{form}})" if spread else ABSENT


def _identical(against: AgainstPlain | None) -> str:
    if against is None:
        return ABSENT
    return f"{against.identity.same} of {against.identity.compared}" if against.identity else "sampled"


def _accepted(index: int, arm: ArmSummary) -> str:
    if arm.acceptance is None or index >= len(arm.acceptance.unconditional):
        return ABSENT
    given = arm.acceptance.conditional[index]
    return f"{arm.acceptance.unconditional[index]:.0%} ({ABSENT if given is None else f'{given:.0%}'})"


def _conclusion(arm: ArmSummary, against: AgainstPlain) -> str:
    """One arm in plain words."""
    verdict, needed, speed_up = against.verdict, against.break_even.median, against.speed_up.median
    answer = {
        "faster": f"speculation pays here, {speed_up:.2f} times plain",
        "slower": f"speculation does not pay here, {speed_up:.2f} times plain",
        "same": f"as fast as plain, within {SAME_WITHIN:.0%}",
        "cannot tell": "cannot tell whether speculation pays",
    }[verdict.answer]
    if arm.acceptance is None:
        answer = f"nothing was ever drafted; {answer}"
    return (
        f"{arm.arm}: {answer} (faster on {verdict.wins} of {verdict.prompts} prompts"
        f"{_too_few(verdict.smallest)}). A cycle costs as much as "
        f"{needed:.2f} plain steps, so it needs {needed:.2f} tokens per cycle to break even; it has "
        f"{arm.tokens_per_cycle:.2f}."
    )


def _too_few(smallest: float) -> str:
    return "; it takes 6 or more to tell" if smallest >= LEVEL else ""


def _outputs(record: RunRecord, arms: Sequence[ArmSummary]) -> list[str]:
    """Whether speculation changed what came out."""
    compared = [(arm.arm, arm.against_plain.identity) for arm in arms if arm.against_plain]
    if not any(identity for _, identity in compared):
        return []
    lines = [
        _difference(arm, identity, str(record.requested.get("dtype")))
        for arm, identity in compared
        if identity and identity.worst
    ]
    return lines or ["All outputs are identical to plain decoding, token for token."]


def _difference(arm: str, identity: Identity, dtype: str) -> str:
    others = identity.compared - identity.same
    text = f"{arm}: {identity.same} of {identity.compared} outputs are identical to plain; "
    if identity.near_ties:
        return text + (
            f"the other {others} first differ at a near tie (logits of the two tokens at most {identity.gap:.3g} "
            f"apart), where {dtype} rounds a wider forward the other way."
        )
    prompt, position = identity.worst or ("?", 0)
    gap = "were not compared" if identity.gap is None else f"are {identity.gap:.3g} apart, which is no near tie"
    return text + (
        f"of the other {others}, one differs at output token {position + 1} of prompt {prompt}, where the logits of "
        f"the two tokens {gap}: it may not be lossless. If it differs with --dtype float32 too, it is a fault."
    )

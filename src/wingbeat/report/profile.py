"""The profile: what forwards cost beside this machine's ceilings, and what that predicts for speculation."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from itertools import groupby
from pathlib import Path
from typing import Any

from wingbeat.measure.roofline import EXTEND_IS, VERIFY, Ceilings, Line, Prediction, Profile, Timing, fit
from wingbeat.report.table import columns, paragraph

ABSENT = "-"
LARGE = 0.05  # a residual beyond this is spelled out


def render(profile: Profile) -> str:
    """The whole report as text of at most 80 columns."""
    parts = [_heading(profile), _costs(profile)]
    if any(one.gb_per_s > profile.ceilings.gb_per_s for one in profile.timings):
        parts.append(paragraph(
            "Above 100 % of reading memory: what was read lay in the processor's caches, or the machine was slower "
            "while its own speed was measured."
        ))
    if not profile.predictions:
        parts.append(paragraph("No prediction: it takes a run with a plain arm and an arm that drafts."))
    for one in profile.predictions:
        parts += [_prediction(one), paragraph(_conclusion(one))]
    return "\n\n".join(parts)


def document(profile: Profile) -> dict[str, Any]:
    """The same figures for a program; see `measure.roofline` for what they mean."""
    timings = [
        {
            **asdict(one), "gb_per_s": one.gb_per_s, "gflop_per_s": one.gflop_per_s,
            "bound_ms": one.bound_ms(profile.ceilings),
        }
        for one in profile.timings
    ]
    predictions = [
        {
            **asdict(one), "residual": one.residual, "break_even": asdict(one.break_even),
            "break_even_predicted": asdict(one.break_even_predicted),
        }
        for one in profile.predictions
    ]
    fits = [
        {"part": part, "path": path, "context": context, **asdict(line)}
        for (part, path, context), cells in _groups(profile)
        for line in _fit(cells)
    ]
    return {
        "subject": profile.subject, "ceilings": asdict(profile.ceilings), "timings": timings, "fits": fits,
        "predictions": predictions,
    }


def _heading(profile: Profile) -> str:
    subject, best = profile.subject, profile.ceilings
    weights = "" if subject["weights"] == subject["dtype"] else f" with {subject['weights']} weights"
    return paragraph(
        f"{Path(subject['model']).name}, {subject['dtype']}{weights} on {subject['device']}, {subject['threads']} "
        "threads. "
        f"The best that this machine did meanwhile: reading memory {best.gb_per_s:.1f} GB/s, multiplying matrices "
        f"{best.gflop_per_s:.0f} GFLOP/s, starting the smallest operation {best.launch_us:.1f} microseconds. "
        "Times are medians, with quartiles. In brackets: the share of these rates. 'least': the time that it takes "
        f"at these rates.{_reach(profile)}"
    )


def _reach(profile: Profile) -> str:
    """A sentence where the model's longest contexts were left out."""
    limit, longest = profile.subject["limits"]["context"], profile.subject["longest"]
    if limit == longest:
        return ""
    most = max(one.context for one in profile.timings)
    return f" Contexts go up to {most} of the model's {longest} tokens; --context {longest} leaves room for all."


def _costs(profile: Profile) -> str:
    header = ["", "ms", "quartiles", "/ decode", "GB/s", "GFLOP/s", "least"]
    rows: list[list[str]] = []
    decode = {(one.path, one.context): one.ms for one in profile.timings if (one.part, one.width) == (VERIFY, 1)}
    for (part, path, context), cells in _groups(profile):
        what = "forward of the target" if part == VERIFY else "drafting"
        kind = f"{path} (verify as extend, too)" if (part, path) == (VERIFY, EXTEND_IS) else path
        rows.append([f"{what}, {kind}, context {context}"])
        rows += [_cost(one, decode.get((path, context)), profile.ceilings) for one in cells]
        rows += [[_line(part, line)] for line in _fit(cells)]
    return columns(header, rows)


def _groups(profile: Profile) -> Iterator[tuple[tuple[str, str, int], list[Timing]]]:
    """The cells of each part, path and context."""
    for key, cells in groupby(profile.timings, lambda one: (one.part, one.path, one.context)):
        yield key, list(cells)


def _cost(cell: Timing, decode: float | None, best: Ceilings) -> list[str]:
    unit = "token" if cell.part == VERIFY else "step"
    branches = f" of {cell.branches}" if cell.branches > 1 else ""
    return [
        f"  {cell.width} {unit}{'s' * (cell.width > 1)}{branches}",
        _number(cell.ms),
        f"{_number(cell.low)}-{_number(cell.high)}",
        f"{cell.ms / decode:.2f}" if decode else ABSENT,
        f"{_number(cell.gb_per_s)} ({cell.gb_per_s / best.gb_per_s:.0%})",
        f"{_number(cell.gflop_per_s)} ({cell.gflop_per_s / best.gflop_per_s:.0%})",
        _number(cell.bound_ms(best)),
    ]


def _number(value: float) -> str:
    """Three digits that count, and no exponent."""
    return f"{float(f'{value:.3g}'):,.10g}".replace(",", "")


def _fit(cells: Sequence[Timing]) -> list[Line]:
    """The line through time against width, or against the drafted steps of a chain; none through two places."""
    chain = [one for one in cells if one.branches == 1]
    return [fit([one.width for one in chain], [one.ms for one in chain])] if len(chain) > 2 else []


def _line(part: str, line: Line) -> str:
    unit = "token" if part == VERIFY else "step"
    return f"  least squares: {line.intercept:.2f} ms and {line.slope:.3f} ms a {unit}, within {line.worst:.0%}"


def _prediction(one: Prediction) -> str:
    needed, needed_predicted = one.break_even, one.break_even_predicted
    rows = [
        _row("plain cycle, ms", one, lambda arm: (one.plain_predicted.cycle, one.plain_observed.cycle)),
        _row("cycle, ms", one, lambda arm: (arm.predicted.cycle, arm.observed.cycle)),
        _row("  draft", one, lambda arm: (arm.predicted.draft, arm.observed.draft)),
        _row("  verify", one, lambda arm: (arm.predicted.verify, arm.observed.verify)),
        _row("  rest (from the run)", one, lambda arm: (arm.predicted.rest, arm.observed.rest)),
        _row("speed-up", one, lambda arm: (arm.speed_up_predicted, arm.speed_up_observed)),
        _row("tokens per cycle needed", one, lambda arm: (needed_predicted.needed, needed.needed)),
        _row("tokens per cycle achieved", one, lambda arm: (arm.tokens_per_cycle, arm.tokens_per_cycle)),
        _row("verify may cost, ms", one, lambda arm: (needed_predicted.verify_ms, needed.verify_ms)),
    ]
    if one.draft_from_run:
        rows[2][0] += " (from the run)"
    return columns([one.arm, "predicted", "observed", "difference"], rows)


def _row(label: str, one: Prediction, values: Callable[[Prediction], tuple[float, float]]) -> list[str]:
    predicted, observed = values(one)
    return [label, f"{predicted:.2f}", f"{observed:.2f}", f"{observed / predicted - 1:+.0%}" if predicted else ABSENT]


def _conclusion(one: Prediction) -> str:
    even = one.break_even
    text = (
        f"{one.arm}: a cycle costs {even.needed:.2f} plain ones, so it needs {even.needed:.2f} tokens per cycle to "
        f"break even and has {even.achieved:.2f}. "
    )
    text += (
        f"It would break even with a verify of {even.verify_ms:.2f} ms, and has {one.observed.verify:.2f}. "
        if even.verify_ms > 0
        else "Even a verify that takes no time would not break even. "
    )
    if abs(one.residual) <= LARGE:
        return text + f"The speed-up is what the tables say, to within {abs(one.residual):.0%}."
    more = {
        "draft": one.observed.draft - one.predicted.draft,
        "verify": one.observed.verify - one.predicted.verify,
        "plain decoding": one.plain_observed.verify - one.plain_predicted.verify,
    }
    gain = {name: -ms / one.predicted.cycle for name, ms in more.items()}
    gain["plain decoding"] = more["plain decoding"] / one.plain_predicted.cycle
    most = max(gain, key=lambda name: gain[name] * one.residual)
    return text + (
        f"The speed-up is {abs(one.residual):.0%} {'above' if one.residual > 0 else 'below'} what the tables say, most "
        f"of it for {most}: {more[most]:+.2f} ms a cycle in the run."
    )

"""What one run says about speculation, as text and for programs."""

from __future__ import annotations

import json
import math
from dataclasses import asdict
from typing import Any

from wingbeat.investigate.explain import Explanation
from wingbeat.report import compare as comparison
from wingbeat.report.table import columns, paragraph

WIDTH = 100


def render(one: Explanation) -> str:
    """The answer, the arithmetic behind it, what would have to change, and what is not known."""
    parts = [_answer(one), _arithmetic(one), _cycle(one), _acceptance(one)]
    parts += [_list("What would have to change", one.advice), _list("Not known", one.missing)]
    return "\n\n".join(part for part in parts if part)


def document(one: Explanation) -> dict[str, Any]:
    """The same for a program."""
    figures = {name: value for name, value in vars(one).items() if name not in ("found", "even", "parts")}
    figures |= {
        "verdict": verdict(one),
        "break_even": asdict(one.even) if one.even else None,
        "parts": [asdict(part) for part in one.parts],
        "comparison": comparison.document(one.found) if one.found else None,
    }
    return json.loads(json.dumps(figures), parse_constant=lambda _: None)


def verdict(one: Explanation) -> str:
    """pays, costs, same or cannot tell."""
    if one.found is None:
        return "cannot tell"
    return {"faster": "pays", "slower": "costs", "same": "same"}.get(one.found.verdict, "cannot tell")


def _answer(one: Explanation) -> str:
    text = {
        "pays": "SPECULATION PAYS here.",
        "costs": "SPECULATION COSTS here: plain decoding is faster.",
        "same": "SPECULATION MAKES NO DIFFERENCE here.",
        "cannot tell": "CANNOT TELL whether speculation pays here.",
    }[verdict(one)]
    row = one.found.primary if one.found else None
    if row and row.change:
        moved, low, high = (f"{math.expm1(log):+.1%}" for log in (row.change.value, row.change.low, row.change.high))
        text += f" {row.name.replace('_', ' ')} {row.before:.4g} plain, {row.after:.4g} with {one.arm} "
        text += f"({moved}, 95% interval {low} to {high})."
    return paragraph(text, WIDTH)


def _arithmetic(one: Explanation) -> str:
    if one.even is None or one.decode_ms is None:
        return ""
    bound = "at least " if one.even.bound else ""
    text = (
        f"A plain step takes {one.decode_ms:.4g} ms, a cycle {bound}{one.even.needed * one.decode_ms:.4g} ms: "
        f"{bound}{one.even.needed:.2f} plain steps. So a cycle has to yield more than {one.even.needed:.2f} tokens; it "
        f"yields {one.even.reached:.2f}."
    )
    if one.verify_ratio:
        text += f" Verify alone costs {one.verify_ratio:.2f} plain steps."
    return paragraph(text, WIDTH)


def _cycle(one: Explanation) -> str:
    rows = [[part.name, f"{part.ms:.4g}", f"{part.share:.0%}" if part.share else "-"] for part in one.parts]
    return columns(["cycle", "ms", "share"], rows, WIDTH) if rows else ""


def _acceptance(one: Explanation) -> str:
    before = [1.0, *one.acceptance]
    rows = [
        [str(place), f"{rate:.1%}", f"{rate / given:.1%}" if given else "-"]
        for place, (rate, given) in enumerate(zip(one.acceptance, before, strict=False), start=1)
    ]
    return columns(["accepted at position", "of all drafts", "given those before"], rows, WIDTH) if rows else ""


def _list(title: str, lines: list[str]) -> str:
    wrapped = (paragraph(line, WIDTH - 4).replace("\n", "\n    ") for line in lines)
    return "\n".join([f"{title}:", *(f"  - {line}" for line in wrapped)]) if lines else ""

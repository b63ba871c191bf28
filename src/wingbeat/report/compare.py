"""A comparison as text and for programs: the verdict, where the change sits, and what cannot be claimed."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from wingbeat.investigate.compare import Comparison
from wingbeat.investigate.details import BreakEven, Position
from wingbeat.investigate.pair import Row, named
from wingbeat.investigate.side import Side
from wingbeat.measure.replicates import Change
from wingbeat.report.table import columns, paragraph

WIDTH = 100
ABSENT = "-"
MOST_SETTINGS = 8
TITLES = {
    "tokens_per_second": "tok/s",
    "tokens_per_cycle": "tokens per cycle",
    "requests": "requests in a cycle",
    "cycle_ms": "cycle, ms",
}
HEADER = ["", "before", "after", "change", "95% interval", "effect on tok/s", "share", ""]


def render(found: Comparison) -> str:
    """The whole report as text of at most 100 columns: resolution and verdict, tables, caveats."""
    parts = [_sides(found), _verdict(found), *map(_paragraph, _where(found))]
    if found.rows:
        parts += [columns(HEADER, [cells(row) for row in found.rows], WIDTH), _paragraph(legend(found))]
    parts += [block for block in (_contexts(found), _positions(found.positions)) if block]
    parts += [_list("Note", _notes(found)), _list("What this comparison cannot show", found.unclaimed)]
    return "\n\n".join(part for part in parts if part)


def document(found: Comparison) -> dict[str, Any]:
    """The same for a program. Every "change" and "effect" is a log ratio with its 95 % interval (null: unbounded)."""
    figures = {
        "verdict": found.verdict,
        "same_within": found.same_within,
        "resolution": found.primary.change.half if found.primary and found.primary.change else None,
        "launches_needed": found.needed,
        "before": _side_document(found.before),
        "after": _side_document(found.after),
        "obstacles": found.obstacles,
        "rows": [_row_document(row) for row in found.rows],
        "explained_by": [row.name for row in found.explained_by()],
        "unaccounted": found.unaccounted,
        "plain": _row_document(found.control) if found.control else None,
        "beside_plain": [_row_document(row) for row in found.beside],
        "break_even": [asdict(entry) if entry else None for entry in found.break_even],
        "acceptance": [asdict(position) for position in found.positions],
        "contexts": [
            {"from": entry.low, "to": entry.high, "counts": entry.counts, **_row_document(entry.row)}
            for entry in found.contexts
        ],
        "matched_contexts": [_row_document(row) for row in found.matched],
        "same_outputs": found.outputs,
        "settings": found.settings,
        "cautions": found.cautions,
        "unclaimed": found.unclaimed,
    }
    return json.loads(json.dumps(figures), parse_constant=lambda _: None)


def _side_document(one: Side) -> dict[str, Any]:
    return {"name": one.label, "arm": one.arm, "evidence": one.evidence, one.units: len(one.groups)}


def _row_document(row: Row) -> dict[str, Any]:
    changes = {"change": row.change, "effect": row.effect}
    return {
        **{key: value for key, value in asdict(row).items() if key not in changes},
        **{key: {**asdict(one), "low": one.low, "high": one.high} if one else None for key, one in changes.items()},
    }


def _paragraph(text: str) -> str:
    return paragraph(text, WIDTH)


def _list(title: str, lines: Sequence[str]) -> str:
    return "\n".join([f"{title}:", *(_indented(line) for line in lines)]) if lines else ""


def _indented(text: str) -> str:
    return paragraph(text, WIDTH - 2).replace("\n", "\n    ").join(("  ", ""))


def _sides(found: Comparison) -> str:
    titles = zip(("Before", "After"), (found.before, found.after), strict=True)
    return "\n".join(_paragraph(f"{title + ':':8}{counted(one)}") for title, one in titles)


def counted(one: Side) -> str:
    """What a side is and rests on."""
    count = len(one.groups)
    units = one.units if count > 1 else {"launches": "launch", "runs": "run"}[one.units]
    evidence = {"cycles": "cycle by cycle", "samples": "samples over time", "figures": "single figures"}[one.evidence]
    arm = "" if one.label.endswith(f":{one.arm}") else f", arm {one.arm}"
    return f"{one.label}{arm}: {count} {units}, {evidence} ({one.records[0].source})"


def _verdict(found: Comparison) -> str:
    if found.obstacles:
        text = f"NOT COMPARABLE: {'; '.join(found.obstacles)}."
        return _paragraph(text + (" What may be compared all the same follows." if found.rows or found.matched else ""))
    primary = found.primary
    if primary is None or primary.change is None:
        return "CANNOT TELL: a quantity is zero on one side."
    moved, title = primary.change, TITLES.get(primary.name, primary.name)
    resolution = f"Resolution: a rise of {title} by {_size(moved.half)} or a fall by {_size(-moved.half)} would show."
    figures = (
        f"{title} {percent(moved.value)} ({number(primary.before)} to {number(primary.after)}; "
        f"95% interval {interval(moved)})."
    )
    answer = {
        "faster": f"FASTER: {figures}",
        "slower": f"SLOWER: {figures}",
        "same": f"SAME within {found.same_within:.0%}: {figures}",
        "cannot tell": f"CANNOT TELL: {figures} {_needed(found)}",
    }[found.verdict]
    if found.verdict == "same" and abs(moved.value) > moved.half:
        answer += " There is a difference, but no larger one."
    return f"{_paragraph(resolution)}\n{_paragraph(answer)}"


def _needed(found: Comparison) -> str:
    if found.needed:
        return f"About {found.needed} launches a side would tell."
    if found.primary and found.primary.change and found.primary.change.basis == "assumed":
        return "It takes 3 launches a side or more to know how much launches differ."
    return "Even 200 launches a side would not tell: what differs from launch to launch comes first."


def _where(found: Comparison) -> list[str]:
    """What the change consists of, in words."""
    sentences = []
    causes = found.explained_by()
    if causes:
        parts = [f"{quantity(row)} explains {row.share:.0%} of it ({_levels(row)})" for row in causes]
        sentences.append(f"{'; '.join(parts)}.")
        others = [found.row("tokens_per_cycle"), found.row("cycle_ms")]
        parts_explain = any(row.name.endswith("_ms") for row in causes)
        sentences += [
            f"{quantity(row)} {aside(row)} ({_levels(row)})."
            for row in others
            if row and row not in causes and not (row.name == "cycle_ms" and parts_explain)
        ]
    if found.unaccounted:
        sentences.append(
            f"Tokens per cycle and cycle time do not account for {percent(found.unaccounted)} of tok/s: they were not "
            "taken over the same time, or time passes between the cycles."
        )
    if found.control and found.control.change:
        answer = {"differs": "", "same": ", the same", "cannot tell": ", not certain"}[found.control.answer]
        change = percent(found.control.change.value)
        sentences.append(f"Plain decoding went from {_levels(found.control)} tok/s ({change}{answer}).")
    sentences += _beside_plain(found)
    text = " ".join(sentence[0].upper() + sentence[1:] for sentence in sentences)
    even = [
        _break_even(one, entry)
        for one, entry in zip((found.before, found.after), found.break_even, strict=True)
        if entry and not found.obstacles
    ]
    return [part for part in (text, *even) if part]


def _beside_plain(found: Comparison) -> list[str]:
    """How many times plain decoding of the same launches."""
    row = named(found.beside, "tokens_per_second")
    whole = found.row("tokens_per_second")
    if row is None or row.change is None or whole is None or found.control is None:
        return []
    first, second = whole.before / found.control.before, whole.after / found.control.after
    change = f"{percent(row.change.value)}; 95% interval {interval(row.change)}"
    return [f"Beside plain decoding of the same launches: {first:.2f} to {second:.2f} times its tok/s ({change})."]


def aside(row: Row) -> str:
    """What a quantity did that does not explain the change."""
    return {
        "same": "stayed the same",
        "cannot tell": "did not move, as far as these runs can show",
        "differs": "moved the other way" if (row.share or 0) < 0 else "moved too, by much less",
    }[row.answer]


def _break_even(one: Side, entry: BreakEven) -> str:
    least, needs = "at least " * entry.bound, f"more than {entry.needed:.2g}" if entry.bound else f"{entry.needed:.2f}"
    text = (
        f"{one.label}: a cycle costs {least}{entry.needed:.2f} plain steps, so it needs {needs} tokens per "
        f"cycle to break even; it has {least}{entry.reached:.2f}."
    )
    if entry.verify_ms and entry.reached < entry.needed:
        text += f" With {entry.reached:.2f}, verify may cost {'at most ' * entry.bound}{entry.verify_ms:.1f} ms."
    return text


def cells(row: Row) -> list[str]:
    """A row as HEADER has it; names of parts are indented."""
    effect = percent(row.effect.value) if row.effect else ABSENT
    share = f"{round(row.share, 2) + 0.0:.0%}" if row.share is not None else ABSENT
    moved = [percent(row.change.value), interval(row.change)] if row.change else [ABSENT, ABSENT]
    label = _label(row) + (" *" if row.origin else "")
    return [label, number(row.before), number(row.after), *moved, effect, share, row.answer]


def legend(found: Comparison) -> str:
    """What the columns mean, and which rows were not measured."""
    derived = [f"{quantity(row)} {row.origin}" for row in found.rows if row.origin]
    text = "Effect: what the row alone does to tok/s. Each interval is for its row alone."
    return text + (f" * not measured: {'; '.join(derived)}." if derived else "")


def _contexts(found: Comparison) -> str:
    if not found.contexts:
        return ""
    name = quantity(found.contexts[0].row)
    rows = [
        [f"  {entry.low} to {entry.high - 1}", *_short(entry.row), f"{entry.counts[0]} and {entry.counts[1]}"]
        for entry in found.contexts
    ]
    rows += [[f"{quantity(row)}, matched", *_short(row), ""] for row in found.matched]
    counted = "cycles" if found.before.evidence == found.after.evidence == "cycles" else "samples"
    header = [f"{name} by context length", "before", "after", "change", "95% interval", "", counted]
    return columns(header, rows, WIDTH)


def _short(row: Row) -> list[str]:
    return [cell for index, cell in enumerate(cells(row)) if index in (1, 2, 3, 4, 7)]


def _positions(found: Sequence[Position]) -> str:
    rows = [
        [
            f"  {entry.position}",
            *(f"{share:.1%}" for share in entry.unconditional),
            f"{100 * entry.moved:+.1f}",
            ABSENT if entry.low is None or entry.high is None else f"{100 * entry.low:+.1f} to {100 * entry.high:+.1f}",
            *(ABSENT if share is None else f"{share:.1%}" for share in entry.conditional),
        ]
        for entry in found
    ]
    header = ["accepted at position", "before", "after", "points", "95% interval", "given those before", "after"]
    return columns(header, rows, WIDTH) if rows else ""


def _notes(found: Comparison) -> list[str]:
    notes = list(found.cautions)
    if found.settings:
        more = len(found.settings) - MOST_SETTINGS
        listed = "; ".join(found.settings[:MOST_SETTINGS]) + (f"; and {more} more" if more > 0 else "")
        notes.append(f"Asked for or run with other settings: {listed}.")
    if found.outputs:
        notes.append(f"Outputs: {found.outputs[0]} of {found.outputs[1]} are the same token for token.")
    return notes


def quantity(row: Row) -> str:
    """The name of a row's quantity."""
    return "cycle time" if row.name == "cycle_ms" else TITLES.get(row.name, row.name).removesuffix("_ms")


def _label(row: Row) -> str:
    return TITLES.get(row.name, f"  {row.name.removesuffix('_ms')}")


def _levels(row: Row) -> str:
    unit = " ms" if row.name.endswith("_ms") else ""
    return f"{number(row.before)} to {number(row.after)}{unit}"


def number(value: float) -> str:
    """Three digits or so."""
    return f"{value:.0f}" if value >= 1000 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def percent(log: float) -> str:
    """A log ratio as +5.0%; of a tenfold and more, x10."""
    return f"x{math.exp(log):.0f}" if log > math.log(10) else f"{round(math.expm1(log), 3) + 0.0:+.1%}"


def interval(found: Change) -> str:
    """The 95 % interval; a dash where it has no bounds."""
    return f"{percent(found.low)} to {percent(found.high)}" if math.isfinite(found.half) else ABSENT


def _size(log: float) -> str:
    """As 5.0%; of a tenfold and more, as a factor."""
    if log > math.log(10):
        return f"a factor of {math.exp(log):.0f}" if math.isfinite(log) else "any factor"
    share = abs(math.expm1(log))
    return f"{share:.1%}" if share < 0.1 else f"{share:.0%}"

"""An investigation as one HTML file: no network and no scripts; for a screen, a phone and paper."""

from __future__ import annotations

import io
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from wingbeat.investigate import facts
from wingbeat.investigate.case import Investigation
from wingbeat.investigate.compare import Comparison
from wingbeat.investigate.hypothesis import Finding, values
from wingbeat.investigate.pair import Row
from wingbeat.probe import difference
from wingbeat.report import compare as comparison
from wingbeat.report import effects, fingerprint, plots
from wingbeat.report import investigate as report
from wingbeat.report.compare import interval, number, percent, quantity

TONES = {"cause": "found", "several causes": "found", "no change": "fine"}
PLAIN_ANSWERS = {"differs": "differs", "same": "the same", "cannot tell": "not certain"}
FIRST = ("Distribution of cycle time", "Cycle time over context")
PICTURE = (4.4, 3.0)  # inches
INK = re.compile("#000000|#111111|#222222")  # black in pictures, which on a dark page is white
UNUSED = re.compile(
    r' id="[\w.]+_\d+"| (?:width|height)="[\d.]+pt"|<metadata>.*?</metadata>|<\?xml.*?\?>|<!DOCTYPE.*?>', re.DOTALL
)


@dataclass(frozen=True)
class Tile:
    """A decisive figure."""

    title: str
    before: str
    after: str
    note: str
    change: str = ""


@dataclass(frozen=True)
class Line:
    """Causes with the same evidence. values: title, before and after of each fact; missing: what is not known."""

    causes: list[str]
    question: str
    verdict: str
    values: list[tuple[str, str, str]]
    evidence: str
    shape: str
    missing: str


@dataclass(frozen=True)
class Group:
    """Lines of the table of causes under one title."""

    title: str
    lines: list[Line]
    notes: list[str]


def render(found: Investigation) -> str:
    """The whole page."""
    environment = Environment(
        loader=PackageLoader("wingbeat", "report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"prose": prose, "name": name}
    compared = found.found
    probed, others = report.ruled_out(found)
    lead, rest = re.match(r"([A-Z ]+[A-Z])(.*)", report.headline(found)).groups()  # type: ignore[union-attr]
    return environment.get_template("page.html").render(
        found=found,
        sides=[(name, side, comparison.counted(side)) for name, side in _sides(compared)],
        tone=TONES.get(found.outcome, "open"),
        lead=lead,
        rest=rest,
        families=report.by_family(found.left),
        probed=[report.called(one) for one in probed],
        others=len(others),
        tiles=_tiles(compared),
        chart=_chart(compared),
        where=report.where(found),
        groups=_groups(found),
        unwatched=values(found.unwatched),
        unseen=_unseen(found),
        pictures=_pictures(compared),
        fingerprints=_fingerprints(compared),
        same=report.same(found),
        drift=report.drift(found),
        text=comparison.render(compared),
    )


def prose(text: str) -> Markup:
    """The text escaped, with what stands between backticks as code."""
    parts = [Markup("<code>{}</code>").format(part) if place % 2 else escape(part)
             for place, part in enumerate(text.split("`"))]  # fmt: skip
    return Markup("").join(parts)


def name(text: str) -> Markup:
    """A name, escaped, that may be broken after its dots and lines."""
    return Markup(re.sub(r"([._/])(?=\w)", r"\1<wbr>", str(escape(text))))


def _sides(found: Comparison) -> list[tuple[str, Any]]:
    return [("before", found.before), ("after", found.after)]


def _tiles(found: Comparison) -> list[Tile]:
    causes = found.explained_by()
    tiles = []
    if found.primary and found.primary.change:
        tiles.append(_tile(found.primary, f"95% interval {interval(found.primary.change)}"))
    tiles += [_tile(row, f"explains {row.share:.0%} of the change") for row in causes]
    tokens = found.row("tokens_per_cycle")
    if tokens and tokens not in (found.primary, *causes):
        tiles.append(_tile(tokens, comparison.aside(tokens)))
    if found.control and found.control.change:
        tiles.append(_tile(found.control, PLAIN_ANSWERS[found.control.answer], "plain decoding, tok/s"))
    before, after = found.break_even
    if before and after and not found.obstacles:
        needs = [f"{'> ' * even.bound}{even.needed:.2g}" for even in (before, after)]
        pays = ["pays" if even.reached > even.needed else "costs" for even in (before, after)]
        has = f"has {before.reached:.2f} ({pays[0]}) and {after.reached:.2f} ({pays[1]})"
        tiles.append(Tile("tokens a cycle needs to break even", needs[0], needs[1], has))
    return tiles


def _tile(row: Row, note: str, title: str = "") -> Tile:
    unit = ", ms" if row.name.endswith("_ms") else ""
    change = percent(row.change.value) if row.change else ""
    return Tile(title or f"{quantity(row)}{unit}", number(row.before), number(row.after), note, change)


def _chart(found: Comparison) -> dict[str, Any]:
    along = effects.axis(found.rows)
    rows = [(comparison.cells(row), effects.bar(row, along)) for row in found.rows]
    ticks = [(place, f"{math.expm1(log):+.0%}" if log else "0") for place, log in along.ticks()]
    return {"rows": rows, "ticks": ticks, "zero": along.place(0.0), "legend": comparison.legend(found)}


def _groups(found: Investigation) -> list[Group]:
    """What is left by family, then what is ruled out."""
    groups = []
    for family in report.by_family(found.left):
        own = [one for one in found.left if one.cause.family == family]
        notes = [note for one in own for note in one.notes]
        groups.append(Group(f"Left: {family}", [_line([one]) for one in own], notes))
    probed, others = report.ruled_out(found)
    groups.append(Group(report.BY_READING, _lines(probed), []))
    groups.append(Group(report.BY_FIGURES, _lines(others), report.caution(found)))
    return [group for group in groups if group.lines]


def _lines(findings: Sequence[Finding]) -> list[Line]:
    return [_line(group) for group in report.grouped(findings)]


def _line(group: Sequence[Finding]) -> Line:
    first = group[0]
    question, shape = (first.cause.question, first.cause.shape) if first.survives else ("", "")
    causes, known = [report.called(one) for one in group], values(first.decided or first.changed)
    return Line(causes, question, first.verdict, known, _evidence(first), shape, first.missing)


def _evidence(one: Finding) -> str:
    """The reason without the values, which have cells of their own."""
    fits = f"what it predicts is what was seen ({one.fits[0]} of {one.fits[1]})" if one.fits[0] else ""
    if one.verdict == "not observable":
        return one.said or fits
    changed = f"changed, and {fits}" if fits else "changed"
    return one.said or (changed if one.survives else "the same")


def _unseen(found: Investigation) -> list[tuple[Finding, str, str]]:
    """Causes of which too little is known, those that are left first: name, what is missing, what would show it."""
    left = [one for one in found.left if one.verdict == "not observable"]
    return [(one, report.called(one), one.missing or one.said) for one in (*left, *found.unseen)]


def _pictures(found: Comparison) -> dict[str, Any]:
    """drawn: title, picture and which side is not in it; absent: titles of what neither record holds."""
    series = [
        plots.of_arm(side.records[0], side.arm, name, (place + 1, place))
        for place, (name, side) in enumerate(_sides(found))
    ]
    drawn, absent = [], []
    for panel in sorted(plots.PANELS, key=lambda one: one.title not in FIRST):
        there = [one for one in series if panel.takes(one)]
        if there:
            missing = [f"{one.label} does not hold it" for one in series if one not in there]
            drawn.append((panel.title, Markup(_picture(panel, there)), "; ".join(missing)))
        else:
            absent.append(panel.title.lower())
    return {"drawn": drawn, "absent": absent}


def _picture(panel: plots.Panel, there: Sequence[plots.Series]) -> str:
    """SVG to stand inside a page; text stays text, black is the page's own ink."""
    import matplotlib
    from matplotlib.figure import Figure

    out = io.StringIO()
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": panel.title}):
        figure = Figure(figsize=PICTURE, layout="constrained")
        panel.on(figure.add_subplot(), there)
        figure.savefig(out, format="svg", transparent=True, metadata={"Date": None})
    return INK.sub("currentColor", UNUSED.sub("", out.getvalue())).strip()


def _fingerprints(found: Comparison) -> dict[str, Any]:
    """groups: title, rows; said: what holds for all of them."""
    if unread := report.unread(found):
        return {"groups": [], "said": unread}
    compared = difference.compare(facts.readings(found.before), facts.readings(found.after))
    kinds = [*fingerprint.changed(compared), *fingerprint.beside(compared)]
    said = [*([] if compared.changed else [fingerprint.NOTHING]), fingerprint.remainder(compared)]
    return {"groups": [(title, fingerprint.rows(changes)) for title, changes in kinds if changes], "said": said}

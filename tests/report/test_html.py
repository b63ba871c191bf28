"""The page of an investigation: what stands in it, that it needs nothing else, and that a browser can show it."""

import copy
import math
import re
import sys
from dataclasses import replace
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path

import pytest
from browser import CHROMIUM, Browser

from wingbeat.cli.main import main
from wingbeat.investigate import side as sides
from wingbeat.investigate.case import investigate
from wingbeat.investigate.pair import Row
from wingbeat.measure.record import Figure, Launch, RunRecord, load, save
from wingbeat.measure.replicates import change
from wingbeat.measure.runner import Plan, measure
from wingbeat.measure.subjects import FakeArm, FakeSubject
from wingbeat.measure.workload import bundled
from wingbeat.report import effects, page

DEAD_END = Path(__file__).parents[2] / "examples" / "dead_end"
SECTIONS = ["where", "causes", "unseen", "next", "pictures", "fingerprints", "text"]
ALONE = {"meta", "br", "wbr"}  # elements without an end
INLINE = {"wbr", "b", "strong", "code"}


class Reader(HTMLParser):
    """Elements with their attributes, and the text by section; fails where elements do not nest."""

    def __init__(self, text):
        super().__init__()
        self.open, self.elements, self.words, self.section = [], [], {}, "top"
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        self.apart(tag)
        if tag == "section":
            self.section = dict(attributes).get("id", "top")
        if tag not in ALONE:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag
        self.apart(tag)

    def apart(self, tag):
        if tag not in INLINE:
            self.words[self.section] = self.words.get(self.section, "") + " "

    def handle_data(self, data):
        if "style" not in self.open:
            self.words[self.section] = self.words.get(self.section, "") + data

    def lacks(self, section, *texts):
        """The texts that do not stand there."""
        words = " ".join(self.words[section].split())
        return [text for text in texts if text not in words]

    def all(self, tag):
        return [attributes for name, attributes in self.elements if name == tag]


def of(before, after, arm="eagle3", labels=("before", "after"), **named):
    return investigate(
        *(sides.side(label, one, arm) for label, one in zip(labels, (before, after), strict=True)), **named
    )


def measured(folder, verify_ms=20.0, fingerprint=None, launches=3):
    """A run of a script, its launches a little apart."""
    run = RunRecord("bench", "2026-01-01T00:00:00+00:00", {}, {}, [], name=f"{verify_ms}")
    for place in range(launches):
        arms = {
            "plain": FakeArm(20.0 + 0.1 * place),
            "eagle3": FakeArm(verify_ms + 0.1 * place, draft_ms=5.0, drafted=2, accepted=(2, 1, 0, 1)),
        }
        plan = Plan(bundled().take(6), tuple(arms))
        one = plan.record("bench", {})
        measure(one, FakeSubject(arms), plan, folder / f"{verify_ms}-{place}.jsonl")
        run.workload, run.arms = one.workload, one.arms
        run.launches += one.launches
    for launch in run.launches:
        launch.fingerprint = {name: {"state": "value", "value": value} for name, value in (fingerprint or {}).items()}
    return run


def noted(name, **figures):
    known = {"eagle3": {key: Figure(value) for key, value in figures.items()}}
    launch = Launch(figures=known, finished=True)
    return RunRecord("bench", "2026-01-01T00:00:00+00:00", {}, {}, ["eagle3"], [launch], name=name, source="noted")


@pytest.fixture(scope="module")
def dead_end():
    return of(*(load(DEAD_END / f"{name}.jsonl") for name in ("good", "bad")), labels=("good", "bad"))


@pytest.fixture(scope="module")
def slower(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    before = {"gpu.count": 1, "nvidia.driver": "590.48.01", "gpu.0.power.limit": 600, "packages.patched": []}
    after = {**before, "nvidia.driver": "590.60.01", "packages.patched": ["<script>alert(1)</script>"]}
    return of(measured(folder, 20.0, before), measured(folder, 31.0, after), labels=("good", "<b>bad</b> & worse"))


@pytest.fixture(scope="module")
def bare():
    return of(noted("good", tokens_per_second=90), noted("bad", tokens_per_second=45))


def test_the_dead_end_has_all_that_the_text_has(dead_end):
    read = Reader(page.render(dead_end))
    assert [one["id"] for one in read.all("section") if "id" in one] == SECTIONS
    assert [one["href"] for one in read.all("a")] == [f"#{name}" for name in SECTIONS]
    assert not read.lacks(
        "top", "NOTHING OBSERVABLE CHANGED that explains it.", "verify's code path: captured, attention"
    )
    assert not read.lacks("top", "Ruled out by what was read: ", "clocks, thermal, link")
    assert not read.lacks("top", f"observed: {len(dead_end.unseen)} more")
    assert not read.lacks("top", "94.0 → 60.0", "19.0 → 29.0", "1.79 → 1.74", "89.0 → 82.5", "> 1.7 → > 2.4")
    assert not read.lacks(
        "where", "cycle, ms * 19.0 29.0 +52.6%", "bad: to break even, a cycle needs more than 2.4 tokens"
    )
    names = [one.cause.key.replace("_", " ") for one in (*dead_end.left, *dead_end.ruled_out)]
    assert not read.lacks("causes", *names, "Expanding 8192 tokens of context in 61 layers")
    unseen = [one for one in dead_end.findings if one.verdict == "not observable"]
    assert not read.lacks("unseen", *(one.cause.see.replace("`", "") for one in unseen))
    assert not read.lacks("next", *(one.do[1:] for one in dead_end.experiments), "about 15 min")
    assert not read.lacks("fingerprints", "Nothing that was read on both sides changed.", "gpu.0.pstate and 7 more: P0")
    assert not read.lacks("text", "What this comparison cannot show", "Context lengths are not known")


def test_what_was_checked_stands_beside_its_verdict_with_its_values(dead_end):
    read = Reader(page.render(dead_end))
    rows = {
        "driver ruled out nvidia.driver 590.48.01 on both sides nvidia.module 590.48.01 on both sides",
        "torch ruled out torch.loaded 2.10.0+cu128 on both sides the same",
        "clocks, thermal ruled out load.gpu.0.clock.sm and 7 more 2320 on both sides draft, verify and plain decoding",
        "link ruled out load.gpu.0.pcie.generation and 7 more 5 on both sides load.gpu.0.pcie.width and 7 more 16 on",
        "nccl ruled out loaded.nccl libnccl.so.2.27.5 on both sides",
        "patches ruled out packages.patched none on both sides",
        "reboot ruled out boot_id 6f0c4b7e-5d0a-4d62-9a55-0a4f6f1c2b11 on both sides",
    }
    assert not read.lacks("causes", *rows)


def test_a_change_that_is_no_cause_has_both_values_and_why(slower):
    read = Reader(page.render(slower))
    assert not read.lacks("causes", "driver ruled out nvidia.driver 590.48.01 590.60.01 changed, but ")
    assert not read.lacks("causes", "patches Was code patched locally? consistent packages.patched none ")
    assert not read.lacks("fingerprints", "Changed. Moves speed or output nvidia.driver 590.48.01 590.60.01 any phase")


@pytest.mark.parametrize("which", ["dead_end", "slower", "bare"])
def test_the_page_needs_nothing_but_itself(which, request):
    text = page.render(request.getfixturevalue(which))
    read = Reader(text)
    assert not {"script", "link", "img", "iframe", "object", "base"} & {tag for tag, _ in read.elements}
    links = {value for _, one in read.elements for name, value in one.items() if name in ("href", "xlink:href", "src")}
    assert links
    assert all(link.startswith("#") for link in links)
    assert set(re.findall(r"https?://[^\"<]*", text)) <= {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}
    assert set(re.findall(r"url\(.", text)) <= {"url(#"}
    assert "@import" not in text
    ids = [one["id"] for _, one in read.elements if "id" in one]
    assert len(ids) == len(set(ids))


def test_what_records_say_is_text_and_never_markup(slower):
    text = page.render(slower)
    assert "<script>" not in text
    assert "<b>bad" not in text
    read = Reader(text)
    assert not read.lacks("top", "<b>bad</b> & worse, arm eagle3: 3 launches")
    assert not read.lacks("causes", "<script>alert(1)</script>")
    assert page.prose("a `b<c>` d & e") == "a <code>b&lt;c&gt;</code> d &amp; e"


def test_pictures_of_both_sides_in_the_ink_of_the_page(slower):
    text = page.render(slower)
    read = Reader(text)
    assert len(read.all("figure")) == 6
    assert not read.lacks("pictures", "before: good", "after: <b>bad</b> & worse")
    order = ["Cycle time over context", "Distribution of cycle time", "Cycle time over time", "Phases of a cycle"]
    places = [read.words["pictures"].index(title) for title in order]
    assert places == sorted(places)
    drawn = text[text.index("<figure>") : text.rindex("</figure>")]
    assert "#000000" not in drawn
    assert "currentColor" in drawn
    assert "tokens in the cache</text>" in drawn
    assert page.render(slower) == text


def test_a_picture_that_only_one_side_has_says_so(tmp_path):
    read = Reader(page.render(of(noted("noted", tokens_per_second=90, verify_ms=20), measured(tmp_path, 30.0))))
    assert not read.lacks("pictures", "Cycle time over context (before does not hold it)", "Phases of a cycle")
    assert "Neither side" not in read.words["pictures"]


def test_sections_without_data_say_what_is_missing(bare):
    read = Reader(page.render(bare))
    assert not read.all("figure")
    assert not read.lacks(
        "pictures", "Neither side holds what these pictures need: cycle time over context, distribution"
    )
    assert not read.lacks("fingerprints", "Neither side holds a fingerprint", "wingbeat fingerprint --out takes one")
    assert not read.lacks("where", "tok/s 90.0 45.0 -50.0%")


def test_one_fingerprint_is_not_compared_with_none(tmp_path):
    read = Reader(page.render(of(measured(tmp_path, 20.0, {"nvidia.driver": "1"}), measured(tmp_path, 30.0))))
    assert not read.lacks("fingerprints", "after holds no fingerprint, so that nothing can be said")
    assert "Changed" not in read.words["fingerprints"]


def test_what_was_run_again_stands_above_what_to_run_next(dead_end):
    read = Reader(page.render(replace(dead_end, repeated=["By turns today, the second is as fast as the first."])))
    assert not read.lacks("next", "What was run again By turns today, the second is as fast as the first. What to run")


def test_every_outcome_has_its_headline(tmp_path, slower):
    same = measured(tmp_path, 20.0)
    read = Reader(page.render(of(same, copy.deepcopy(same))))
    assert not read.lacks("top", "NO CHANGE: the speed is the same on both sides.")
    assert not read.lacks("next", "Nothing: no open question is left")
    other = measured(tmp_path, 31.0)
    back = sides.side("put back", measured(tmp_path, 20.1), "eagle3")
    read = Reader(page.render(of(same, other, tried={"patches": back})))
    assert not read.lacks("top", "CONFIRMED: patches. Putting it back moved the speed back.")
    assert not read.lacks("causes", "confirmed putting it back (put back) moved the speed back by ")
    unsure = of(noted("good", tokens_per_second=90), noted("bad", tokens_per_second=85))
    assert not Reader(page.render(unsure)).lacks("top", "CANNOT TELL whether the speed changed")


def test_sides_that_cannot_be_compared_say_why(tmp_path):
    other = measured(tmp_path, 30.0)
    other.workload = {**other.workload, "sha256": "0" * 64, "concurrency": 8}
    read = Reader(page.render(of(measured(tmp_path, 20.0), other)))
    assert not read.lacks("top", "Not comparable as they are:", "8")


def row(name, value, half, effect=True):
    moved = replace(change([0.0], [value]), half=half)
    return Row(name, 1.0, math.exp(value), moved, "differs", moved if effect else None)


def test_bars_lie_on_one_axis():
    rows = [row("tokens_per_second", -0.5, 0.1, effect=False), row("tokens_per_cycle", 0.1, 0.05)]
    along = effects.axis(rows)
    assert along.least < -0.6
    assert along.most > 0.15
    whole, part = (effects.bar(one, along) for one in rows)
    zero = along.place(0.0)
    assert (whole.better, part.better) == (False, True)
    assert whole.start + whole.width == pytest.approx(zero, abs=0.02)
    assert part.start == pytest.approx(zero, abs=0.02)
    assert whole.width == pytest.approx(5 * part.width, rel=0.01)
    assert whole.low < whole.start < whole.high < zero
    assert (whole.open, part.open) == ((False, False), (False, False))
    ticks = {round(math.expm1(log), 6): place for place, log in along.ticks()}
    assert ticks[0.0] == zero
    assert ticks[-0.25] == along.place(math.log(0.75))
    assert all(later - earlier >= 14 for earlier, later in pairwise(sorted(ticks.values())))


def test_an_interval_without_bounds_goes_on_outside():
    rows = [row("tokens_per_second", -0.5, math.inf, effect=False), row("draft_ms", 0.0, 0.0, effect=False)]
    along = effects.axis(rows)
    whole = effects.bar(rows[0], along)
    assert whole.open == (True, True)
    assert (whole.low, whole.high) == (0.0, 100.0)
    assert effects.bar(rows[1], along) is None
    assert effects.axis([]).place(0.0) == 50.0


def test_the_command_writes_the_page(dead_end, tmp_path, capsys, monkeypatch):
    runs = [str(DEAD_END / f"{name}.jsonl") for name in ("good", "bad")]
    out = tmp_path / "why.html"
    monkeypatch.setattr(sys, "argv", ["wingbeat", "investigate", *runs, "--format", "html"])
    with pytest.raises(SystemExit, match="2"):
        main()
    printed = capsys.readouterr().out
    sys.argv += ["--out", str(out)]
    with pytest.raises(SystemExit, match="2"):
        main()
    assert capsys.readouterr().out == f"{out}\n"
    assert out.read_text(encoding="utf-8") == page.render(dead_end)
    assert printed == f"{page.render(dead_end)}\n"


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    if CHROMIUM is None:
        pytest.skip("Chromium is not installed, so that no browser shows the page (Debian: chromium)")
    with Browser(tmp_path_factory.mktemp("chromium")) as one:
        yield one


WIDER = """[...document.body.querySelectorAll("*")].filter(one => !one.closest("pre, svg") &&
    one.getBoundingClientRect().right > innerWidth + 0.5).map(one => one.outerHTML.slice(0, 200))"""


@pytest.mark.parametrize("which", ["dead_end", "slower", "bare"])
def test_a_browser_shows_it_without_complaint_at_every_width(which, browser, request, tmp_path):
    path = tmp_path / f"{which}.html"
    path.write_text(page.render(request.getfixturevalue(which)), encoding="utf-8")
    browser.requests.clear()
    for width, dark in ((390, False), (390, True), (700, False), (1200, False), (1200, True)):
        browser.open(path, width, dark=dark)
        assert browser.run("innerWidth") == width
        assert browser.run("document.documentElement.scrollWidth") <= width
        assert browser.run(WIDER) == []
        back = browser.run("getComputedStyle(document.body).backgroundColor")
        assert (back == "rgb(255, 255, 255)") == (not dark)
    assert browser.complaints == []
    assert set(browser.requests) == {path.resolve().as_uri()}


def test_the_figures_stay_in_their_own_box_on_a_phone(dead_end, browser, tmp_path):
    path = tmp_path / "why.html"
    path.write_text(page.render(dead_end), encoding="utf-8")
    browser.open(path, 390)
    assert browser.run("document.querySelector('pre').scrollWidth") > 390
    assert browser.run("document.querySelector('pre').clientWidth") < 390
    assert browser.run("getComputedStyle(document.querySelector('.causes thead')).display") == "none"
    for number in range(len(SECTIONS)):
        top = f"document.querySelectorAll('section[id]')[{number}].getBoundingClientRect()"
        assert browser.run(f"{top}.height") > 0


def test_on_paper_tables_stay_tables(dead_end, browser, tmp_path):
    path = tmp_path / "why.html"
    path.write_text(page.render(dead_end), encoding="utf-8")
    browser.open(path, 690, dark=True)
    browser.ask("Emulation.setEmulatedMedia", media="print", features=[])
    assert browser.run("getComputedStyle(document.querySelector('.causes thead')).display") == "table-header-group"
    assert browser.run("getComputedStyle(document.querySelector('nav')).display") == "none"
    assert browser.run("document.documentElement.scrollWidth") <= 690
    browser.ask("Emulation.setEmulatedMedia", media="")
    browser.paper(tmp_path / "why.pdf")
    assert (tmp_path / "why.pdf").read_bytes().startswith(b"%PDF")


def test_a_browser_that_meets_an_error_says_so(browser, tmp_path):
    path = tmp_path / "broken.html"
    path.write_text("<!DOCTYPE html><script>missing()</script>", encoding="utf-8")
    browser.open(path, 390)
    assert browser.complaints
    browser.complaints.clear()


def test_a_record_on_disk_gives_the_same_page(slower, tmp_path):
    records = [one.records[0] for one in (slower.found.before, slower.found.after)]
    paths = [tmp_path / "before.jsonl", tmp_path / "after.jsonl"]
    for record, path in zip(records, paths, strict=True):
        save(record, path)
    assert page.render(of(*map(load, paths), labels=("good", "<b>bad</b> & worse"))) == page.render(slower)

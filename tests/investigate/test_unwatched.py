"""What changed and no cause looks at: it is listed, and nobody says that nothing changed."""

import json

import pytest
import scenarios
from scenarios import launches, measured

from wingbeat.investigate.case import investigate
from wingbeat.investigate.side import side
from wingbeat.report import investigate as report
from wingbeat.report import page

SLOWER = (1.29, 1.3, 1.31)
TITLE = "Changed, and no cause looks at it"


def run(name, factors=(0.99, 1.0, 1.01), settings=None, **fields):
    record = measured(name, launches(factors))
    readings = {key.replace("__", "."): {"state": "value", "value": value} for key, value in fields.items()}
    for launch in record.launches:
        launch.fingerprint = readings
    record.requested = {**record.requested, **(settings or {})}
    return record


def of(before, after):
    return investigate(side("good", before, "eagle3"), side("bad", after, "eagle3"))


@pytest.fixture
def changed():
    before = run("a", settings={"note": "x", "colour": "red"}, process__argv=["serve", "--colour", "red", "a"])
    after = run("b", SLOWER, {"note": "y", "colour": "blue"}, process__argv=["serve", "--colour", "blue", "b"])
    return of(before, after)


def test_only_what_no_cause_watches_is_listed(changed):
    assert [(fact.name, fact.before, fact.after) for fact in changed.unwatched] == [("setting.colour", "red", "blue")]
    before = run("a", gpu__count=1, nvidia__driver="1", python__packages=3)
    assert of(before, run("b", SLOWER, gpu__count=1, nvidia__driver="2", python__packages=4)).unwatched == []


def test_what_only_an_impossible_cause_watches_is_listed():
    def with_devices(count):
        before = run("a", gpu__count=count, env__NCCL_PROTO="LL")
        return of(before, run("b", SLOWER, gpu__count=count, env__NCCL_PROTO="Simple"))

    assert [fact.name for fact in with_devices(1).unwatched] == ["env.NCCL_PROTO"]
    assert with_devices(2).unwatched == []


def test_nothing_changed_is_not_said_of_it(changed):
    assert changed.outcome == "nothing observable changed"
    text = report.render(changed)
    assert text.startswith("NO CAUSE WAS SEEN. No cause looks at what changed: setting colour.")
    assert f"{TITLE}:\n  setting colour: red before, blue after" in text
    assert f"## {TITLE}\n\n- setting colour: red before, blue after" in report.markdown(changed)
    [fact] = report.document(changed)["unwatched"]
    assert (fact["name"], fact["before"], fact["after"]) == ("setting.colour", "red", "blue")
    written = page.render(changed)
    assert f"<h3>{TITLE}</h3>" in written
    assert '<strong>NO CAUSE WAS SEEN</strong>. No cause looks at what changed: setting colour.' in written


def test_nor_where_no_fingerprint_says_what_changed():
    found = of(*scenarios.story())
    assert found.outcome == "nothing observable changed"
    text = " ".join(report.render(found).split())
    assert text.startswith("NO CAUSE WAS SEEN. Neither side holds a fingerprint, so that little is known of what")
    assert "Could not be observed: Neither side holds a fingerprint, so that nothing can be said" in text
    assert "`wingbeat runs add-fingerprint` puts it into a run" in text
    assert TITLE not in text
    assert json.loads(json.dumps(report.document(found)))["unwatched"] == []
    half = of(run("a", os="x"), measured("b", launches(SLOWER)))
    assert "bad holds no fingerprint" in report.headline(half)


def test_many_are_counted_in_the_headline():
    before, after = ({f"thing{place}": value for place in range(5)} for value in "xy")
    found = of(run("a", settings=before, os="x"), run("b", SLOWER, after, os="x"))
    assert "setting thing0, setting thing1, setting thing2 and 2 more." in report.headline(found)

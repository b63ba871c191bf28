"""A trace holds each cycle at its time, and its phases inside it, one after the other."""

import json

import pytest

from wingbeat.errors import StorageError
from wingbeat.measure import trace
from wingbeat.measure.runner import Plan, measure
from wingbeat.measure.subjects import FakeArm, FakeSubject
from wingbeat.measure.workload import bundled

ARMS = {"plain": FakeArm(20.0), "ngram": FakeArm(24.0, draft_ms=5.0, drafted=4, accepted=(3, 1))}


@pytest.fixture
def run(tmp_path):
    plan = Plan(bundled().take(2), tuple(ARMS))
    record = plan.record("bench", {})
    measure(record, FakeSubject(ARMS), plan, tmp_path / "run.jsonl")
    return record


def spans(events, thread, name):
    return [event for event in events if event["ph"] == "X" and event["tid"] == thread and event["name"] == name]


def test_cycles_follow_the_clock_and_hold_their_phases(run):
    events = trace.events(run)
    named = {(event["name"], event["tid"]): event["args"]["name"] for event in events if event["ph"] == "M"}
    assert named == {("process_name", 0): "launch 1", ("thread_name", 1): "plain", ("thread_name", 2): "ngram"}
    cycles = run.measured()[0].arms["ngram"].cycles
    first, second = spans(events, 2, "cycle")[:2]
    assert first["ts"] + first["dur"] == pytest.approx(1e6 * cycles.time[0], abs=1)
    assert first["dur"] == pytest.approx(30_000, rel=1e-4)
    assert second["ts"] == pytest.approx(first["ts"] + first["dur"], abs=1)
    assert first["args"]["accepted"] == [3]
    assert first["args"]["width"] == 5
    draft, verify, host = (spans(events, 2, name)[0] for name in ("draft", "verify", "host"))
    assert draft["ts"] == pytest.approx(first["ts"])
    assert verify["ts"] == pytest.approx(draft["ts"] + 5000, abs=1)
    assert host["ts"] + host["dur"] == pytest.approx(first["ts"] + first["dur"], abs=1)


def test_warm_up_and_what_is_beyond_the_limit_are_left_out(run):
    cycles = spans(trace.events(run, most=40), 1, "cycle")
    assert len(cycles) == 40  # 32 of the first prompt, 8 of the second
    assert {event["args"]["prompt"] for event in cycles} == {entry.prompt for entry in run.measured()}
    assert min(event["ts"] for event in cycles) > 1e6 * run.launches[0].rounds[0].arms["plain"].seconds


def test_a_record_without_times_has_its_cycles_one_after_the_other(run):
    for entry in run.measured():
        del entry.arms["plain"].cycles.time[:]
    cycles = spans(trace.events(run), 1, "cycle")
    assert cycles[0]["ts"] == 0
    assert cycles[40]["ts"] == pytest.approx(40 * 21_000, rel=1e-4)


def test_the_file_is_json_that_a_viewer_reads(run, tmp_path):
    trace.save(run, tmp_path / "trace.json")
    document = json.loads((tmp_path / "trace.json").read_text())
    assert document["traceEvents"] == trace.events(run)
    with pytest.raises(StorageError, match="choose another place"):
        trace.save(run, tmp_path / "no" / "trace.json")

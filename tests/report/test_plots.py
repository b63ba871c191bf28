"""Pictures: what is drawn of which record, and that what is drawn are the record's figures."""

import random
import statistics
import subprocess
import sys
from dataclasses import replace

import pytest

from wingbeat.errors import StorageError, UsageError
from wingbeat.measure.record import Figure, Launch, RunRecord
from wingbeat.measure.roofline import Ceilings, Profile, Timing
from wingbeat.measure.runner import Plan, measure
from wingbeat.measure.subjects import FakeArm, FakeSubject
from wingbeat.measure.workload import bundled
from wingbeat.report import plots

ARMS = {"plain": FakeArm(20.0), "eagle3": FakeArm(24.0, draft_ms=5.0, drafted=2, accepted=(2, 1, 0, 1))}
ALL = [
    "Cycle time over time", "Cycle time over context", "Phases of a cycle", "Acceptance by position",
    "Verify against width", "Distribution of cycle time",
]  # fmt: skip


def record(folder, slower=1.0):
    arms = {name: replace(arm, verify_ms=arm.verify_ms * slower) for name, arm in ARMS.items()}
    plan = Plan(bundled().take(3), tuple(arms))
    run = plan.record("bench", {})
    measure(run, FakeSubject(arms), plan, folder / f"{slower}.jsonl")
    return run


def noisy(run):
    """The same run with cycles that differ."""
    chance = random.Random(1)
    for facts in (facts for entry in run.measured() for facts in entry.arms.values()):
        for index in range(len(facts.cycles)):
            facts.cycles.ms["cycle"][index] *= chance.lognormvariate(0, 0.1)
    return run


def panels(figure):
    return {axes.get_title(loc="left"): axes for axes in figure.axes}


def legend(figure):
    return [text.get_text() for text in figure.legends[0].get_texts()]


def test_runs_of_one_arm_have_colours_and_lines_of_their_own(tmp_path):
    runs = {name: replace(record(tmp_path, slower), arms=["eagle3"]) for name, slower in (("a", 1.0), ("b", 1.5))}
    first, second = panels(plots.draw(runs))["Cycle time over time"].lines
    assert first.get_color() != second.get_color()
    assert first.get_linestyle() != second.get_linestyle()
    assert first.get_marker() != second.get_marker()


def test_one_run_has_every_picture_with_its_arms(tmp_path):
    figure = plots.draw({"good": noisy(record(tmp_path))})
    assert list(panels(figure)) == ALL
    assert legend(figure) == ["plain", "eagle3"]
    drawn = panels(figure)
    [accepted] = drawn["Acceptance by position"].lines
    assert list(accepted.get_ydata()) == pytest.approx([0.75, 0.25], abs=0.03)
    stacks = drawn["Phases of a cycle"].containers
    widths = {stack.get_label(): [bar.get_width() for bar in stack] for stack in stacks}
    assert widths["verify"] == pytest.approx([20.0, 24.0], rel=1e-4)
    assert widths["draft"] == pytest.approx([0.0, 5.0], rel=1e-4)
    assert [tick.get_text() for tick in drawn["Distribution of cycle time"].get_yticklabels()] == ["plain", "eagle3"]


def test_two_runs_lie_side_by_side_and_differ_without_colour(tmp_path):
    figure = plots.draw({"good": noisy(record(tmp_path)), "bad": noisy(record(tmp_path, 1.5))})
    assert legend(figure) == ["good: plain", "bad: plain", "good: eagle3", "bad: eagle3"]
    over = panels(figure)["Cycle time over context"].lines
    assert [(line.get_linestyle(), line.get_marker()) for line in over] == [
        ("-", "o"), ("--", "o"), ("-", "s"), ("--", "s"),
    ]  # fmt: skip
    good, bad = (statistics.median(line.get_ydata()) for line in over[:2])
    assert bad / good == pytest.approx((1.5 * 20 + 1) / 21, rel=0.05)
    bodies = panels(figure)["Distribution of cycle time"].collections
    assert [body.get_hatch() for body in bodies] == ["", "////", "", "////"]


def test_a_run_whose_cycles_are_all_alike_can_be_drawn(tmp_path):
    assert list(panels(plots.draw({"good": record(tmp_path)}))) == ALL


def test_a_record_without_times_is_drawn_in_its_own_order(tmp_path):
    run = record(tmp_path)
    for facts in (facts for entry in run.measured() for facts in entry.arms.values()):
        del facts.cycles.time[:], facts.cycles.ms["host"]
    drawn = panels(plots.draw({"old": run}))
    [plain, _] = drawn["Cycle time over time"].lines
    assert max(plain.get_xdata()) == pytest.approx(3 * 32 * 0.021, rel=0.05)
    host = drawn["Phases of a cycle"].containers[-1]
    assert host.get_label() == "host"
    assert [bar.get_width() for bar in host] == pytest.approx([1.0, 1.0], rel=1e-3)


def noted(**launch):
    return RunRecord("noted", "", {}, {}, ["plain", "eagle3"], [Launch(**launch)], source="noted")


def test_noted_figures_are_phases_and_acceptance():
    figures = {"verify_ms": Figure(29.0), "draft_ms": Figure(2.0)}
    figures |= {"acceptance_1": Figure(0.6), "acceptance_2": Figure(0.2)}
    figure = plots.draw({"bad": noted(figures={"eagle3": figures, "plain": {"tokens_per_second": Figure(82.5)}})})
    assert list(panels(figure)) == ["Phases of a cycle", "Acceptance by position"]
    assert legend(figure) == ["eagle3"]
    assert list(panels(figure)["Acceptance by position"].lines[0].get_ydata()) == [0.6, 0.2]


def test_samples_are_drawn_where_they_are_whole():
    samples = {"time_s": [0.0, 1.0, None, 3.0], "cycle_ms": [19.0, 20.0, 21.0, None], "context": [None] * 4}
    figure = plots.draw({"log": noted(samples={"eagle3": samples})})
    assert list(panels(figure)) == ["Cycle time over time", "Distribution of cycle time"]
    [line] = panels(figure)["Cycle time over time"].lines
    assert (list(line.get_xdata()), list(line.get_ydata())) == ([0.0, 1.0], [19.0, 20.0])


def test_nothing_to_draw_is_said():
    with pytest.raises(UsageError, match="nothing to draw in empty"):
        plots.draw({"empty": noted()})


@pytest.mark.parametrize(("name", "start"), [("a.png", b"\x89PNG"), ("a.svg", b"<?xml"), ("a.pdf", b"%PDF")])
def test_the_ending_chooses_the_format(tmp_path, name, start):
    plots.save({"good": record(tmp_path)}, tmp_path / name)
    assert (tmp_path / name).read_bytes().startswith(start)


def test_what_cannot_be_written_is_refused(tmp_path):
    run = {"good": record(tmp_path)}
    with pytest.raises(UsageError, match=r"must end in \.png, \.svg, \.pdf"):
        plots.save(run, tmp_path / "a.bmp")
    with pytest.raises(StorageError, match="choose another place"):
        plots.save(run, tmp_path / "no" / "a.png")


def test_a_profile_is_drawn_by_path_and_context_beside_the_least_time(tmp_path):
    timings = [
        Timing(part, path, width, context, 1, float(width + context), 0.0, 0.0, 10**6 * context, 1)
        for part in ("verify", "draft")
        for path in ("native", "eager")
        for context in (10, 20)
        for width in (1, 2)
    ]
    profile = Profile({}, Ceilings(1.0, 1.0, 1.0), tuple(timings), ())
    axes = panels(plots.draw_forwards(profile))["A forward of the target"]
    drawn = {line.get_label(): list(line.get_ydata()) for line in axes.lines}
    assert drawn == {
        "native, context 10": [11.0, 12.0], "native, context 20": [21.0, 22.0],
        "eager, context 10": [11.0, 12.0], "eager, context 20": [21.0, 22.0],
        "least, context 10": [10.0, 10.0], "least, context 20": [20.0, 20.0],
    }  # fmt: skip
    plots.save_forwards(profile, tmp_path / "a.png")
    assert (tmp_path / "a.png").exists()


def test_records_are_drawn_without_torch(tmp_path):
    record(tmp_path)
    code = (
        "import sys; from pathlib import Path; from wingbeat.measure import record; from wingbeat.report import plots;"
        "plots.save({'good': record.load(Path(sys.argv[1]))}, Path(sys.argv[2])); assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code, tmp_path / "1.0.jsonl", tmp_path / "a.png"], check=True)
    assert (tmp_path / "a.png").exists()

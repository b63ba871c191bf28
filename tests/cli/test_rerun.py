"""`wingbeat investigate --run-experiments`: what is run, what is asked, what is reused, and what comes of it."""

import io
import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from wingbeat.cli.main import main
from wingbeat.investigate import rerun
from wingbeat.investigate.case import investigate
from wingbeat.investigate.side import side
from wingbeat.measure import launches, runner
from wingbeat.measure import record as records
from wingbeat.measure.launches import Job
from wingbeat.measure.workload import bundled

SCRIPT = Path(__file__).with_name("scripted_launch.py")
ASKED = {
    "model": None, "head": None, "dtype": "bfloat16", "draft": {"drafter": "eagle3", "steps": 3}, "launches": 2,
    "arms": "plain,eagle3:4", "temperature": 0.0, "seed": 0, "max_tokens": 32, "prompts": None, "limit": 3,
    "eager": False, "weights": None,
}  # fmt: skip
ARM = "eagle3:4"


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """A store with a fast and a slow run of the script, and a slow one with one core and a variable."""
    folder = tmp_path_factory.mktemp("store")
    ways = {
        "fast": ({}, {}, None),
        "slow": ({"dtype": "float32"}, {}, None),
        "bound": ({"dtype": "float32"}, {"OMP_NUM_THREADS": "1"}, frozenset([min(os.sched_getaffinity(0))])),
    }
    jobs = []
    for name, (asked, variables, cores) in ways.items():
        plan = runner.Plan(bundled().take(3), ("plain", ARM))
        path = folder / f"{name}.jsonl"
        records.save(replace(plan.record("bench", {**ASKED, **asked}), name=name), path)
        own = {key: value for key, value in os.environ.items() if key != "OMP_NUM_THREADS"}
        jobs.append(Job(path, [sys.executable, str(SCRIPT), "bench-launch"], {**own, **variables}, cores))
    assert [job.launch() for job in launches.by_turns(jobs, 2)] == [0] * 6
    return folder


@pytest.fixture
def store(measured, tmp_path):
    for file in measured.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    return tmp_path


def command(monkeypatch, capsys, store, *arguments, answer=None):
    stdin = io.StringIO(answer or "")
    stdin.isatty = lambda: answer is not None
    monkeypatch.setattr("sys.stdin", stdin)
    line = ["wingbeat", "investigate", "fast", "slow", "--run-experiments", "--store", str(store), *arguments]
    monkeypatch.setattr("sys.argv", line)
    with pytest.raises(SystemExit) as ended:
        main()
    out, err = capsys.readouterr()
    return ended.value.code, out, err


def chosen(store, name):
    runs = [records.load(store / f"{one}.jsonl") for one in ("fast", name)]
    return rerun.choose(investigate(*(side(run.name, run, ARM) for run in runs)))


def test_one_thing_is_put_back_for_each_cause(store):
    runs, undecided = chosen(store, "bound")
    assert undecided == {}
    by_cause = {one.causes: one.changes for one in runs}
    cores = str(min(os.sched_getaffinity(0)))
    assert by_cause[()] == {}
    assert by_cause["precision",] == {"asked.dtype": ("float32", "bfloat16")}
    assert by_cause["cores",].keys() == {"cores", "env.OMP_NUM_THREADS"}
    assert by_cause["cores",]["cores"][0] == cores
    assert by_cause["cores",]["env.OMP_NUM_THREADS"] == ("1", None)
    assert all(one.way["asked.dtype"] == "float32" for one in runs if "precision" not in one.causes)


def test_the_run_confirms_the_cause_and_stays_in_the_store(store, monkeypatch, capsys):
    code, out, err = command(monkeypatch, capsys, store, "--yes")
    assert code == 1
    assert out.startswith("CONFIRMED: precision.")
    assert "2 launches of each, about 1 min" in err
    assert "slow+precision: for precision: dtype bfloat16 instead of float32" in err
    kept = {path.stem: records.load(path) for path in store.glob("slow+*.jsonl")}
    assert {name: (len(run.launches), run.finished, run.requested["dtype"]) for name, run in kept.items()} == {
        "slow+again": (2, True, "float32"),
        "slow+precision": (2, True, "bfloat16"),
    }
    started = sorted((launch.started, launch.pid) for run in kept.values() for launch in run.launches)
    assert len({pid for _, pid in started}) == 4
    times = {path.name: path.stat().st_mtime_ns for path in store.iterdir()}
    assert command(monkeypatch, capsys, store, "--yes")[1] == out
    assert {path.name: path.stat().st_mtime_ns for path in store.iterdir()} == times


def test_what_was_run_before_an_interruption_is_reused(store, monkeypatch, capsys):
    monkeypatch.setenv("STOP", "slow+precision")
    code, out, err = command(monkeypatch, capsys, store, "--yes")
    assert (code, out) == (130, "")
    assert "goes on after it" in err
    kept = records.load(store / "slow+again.jsonl").launches
    assert [launch.finished for launch in records.load(store / "slow+precision.jsonl").launches] == [False]
    monkeypatch.delenv("STOP")
    assert command(monkeypatch, capsys, store, "--yes")[1].startswith("CONFIRMED: precision.")
    assert records.load(store / "slow+again.jsonl").launches[: len(kept)] == kept
    assert [one.finished for one in records.load(store / "slow+precision.jsonl").launches] == [True, True]


def test_without_a_terminal_or_a_yes_nothing_is_run(store, monkeypatch, capsys):
    before = sorted(store.iterdir())
    code, out, err = command(monkeypatch, capsys, store)
    assert (code, out) == (4, "")
    assert "no terminal to ask in" in err
    assert "--yes" in err
    code, out, _ = command(monkeypatch, capsys, store, answer="n\n")
    assert code == 1
    assert out.strip().startswith("LIKELY: precision.")
    assert sorted(store.iterdir()) == before


def test_runs_of_elsewhere_are_refused(store, monkeypatch, capsys):
    for change, words in (({}, "not measured on this machine: cpu.cores 4096"), ({"source": "noted"}, "slow is none")):
        run = records.load(store / "slow.jsonl")
        run.launches[0].fingerprint["cpu.cores"]["value"] = 4096
        records.save(replace(run, **change), store / "slow.jsonl")
        code, out, err = command(monkeypatch, capsys, store, "--yes")
        assert (code, out) == (4, "")
        assert words in err


def test_prompts_that_are_others_now_are_refused(store, monkeypatch, capsys):
    run = records.load(store / "slow.jsonl")
    records.save(replace(run, workload={**run.workload, "sha256": "ab" * 32}), store / "slow.jsonl")
    code, _, err = command(monkeypatch, capsys, store, "--yes")
    assert (code, "are not what they were" in err) == (4, True)


def test_a_run_of_that_name_that_is_another_is_not_gone_on_with(store, monkeypatch, capsys):
    other = records.load(store / "fast.jsonl")
    records.save(replace(other, name="slow+precision"), store / "slow+precision.jsonl")
    code, _, err = command(monkeypatch, capsys, store, "--yes")
    assert code == 4
    assert "run in another way" in err


def test_an_old_speed_that_is_gone_confirms_nothing(store):
    fast, slow = (records.load(store / f"{name}.jsonl") for name in ("fast", "slow"))
    one, other = side("fast", fast, ARM), side("slow", slow, ARM)
    again, back = side("slow+again", fast, ARM), side("slow+precision", fast, ARM)
    found = investigate(one, other, tried={"precision": back}, again=(None, again))
    precision = next(cause for cause in found.findings if cause.cause.key == "precision")
    assert precision.verdict == "consistent"
    assert "does not certainly differ from fast" in precision.reason
    assert found.repeated == ["slow+again: 50% faster than slow."]

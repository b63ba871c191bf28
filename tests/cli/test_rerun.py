"""`wingbeat investigate --run-experiments`: what is run, what is asked, what is reused, and what comes of it."""

import io
import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from wingbeat.cli import rerun as command_of
from wingbeat.cli.main import main
from wingbeat.investigate import plan, rerun
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
SAMPLED = {"temperature": 0.8}


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """A store with a fast and a slow run of the script, and a slow one with one core and a variable; and two that
    sample, one of them slower for no reason that is recorded."""
    folder = tmp_path_factory.mktemp("store")
    ways = {
        "fast": ({}, {}, None),
        "slow": ({"dtype": "float32"}, {}, None),
        "bound": ({"dtype": "float32"}, {"OMP_NUM_THREADS": "1"}, frozenset([min(os.sched_getaffinity(0))])),
        "calm": (SAMPLED, {}, None),
        "hurried": (SAMPLED, {"SLOW": "1.5", "HF_HUB_OFFLINE": "1"}, None),
    }
    jobs = []
    for name, (asked, variables, cores) in ways.items():
        turns = runner.Plan(bundled().take(3), ("plain", ARM))
        path = folder / f"{name}.jsonl"
        records.save(replace(turns.record("bench", {**ASKED, **asked}), name=name), path)
        own = {key: value for key, value in os.environ.items() if key != "OMP_NUM_THREADS"}
        jobs.append(Job(path, [sys.executable, str(SCRIPT), "bench-launch"], {**own, **variables}, cores))
    assert [job.launch() for job in launches.by_turns(jobs, 2)] == [0] * 10
    return folder


@pytest.fixture
def store(measured, tmp_path):
    for file in measured.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    return tmp_path


def command(monkeypatch, capsys, store, *arguments, answer=None, sides=("fast", "slow")):
    stdin = io.StringIO(answer or "")
    stdin.isatty = lambda: answer is not None
    monkeypatch.setattr("sys.stdin", stdin)
    line = ["wingbeat", "investigate", *sides, "--run-experiments", "--store", str(store), *arguments]
    monkeypatch.setattr("sys.argv", line)
    with pytest.raises(SystemExit) as ended:
        main()
    out, err = capsys.readouterr()
    return ended.value.code, out, err


def chosen(store, name):
    runs = [records.load(store / f"{one}.jsonl") for one in ("fast", name)]
    return rerun.choose(investigate(*(side(run.name, run, ARM) for run in runs)))


def test_one_thing_is_put_back_for_each_cause(store):
    choice = chosen(store, "bound")
    runs = choice.runs
    assert (choice.undecided, choice.questions) == ({}, [])
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


def planned(monkeypatch, *keys):
    monkeypatch.setattr(plan, "choose", lambda outcome, findings: [plan.EXPERIMENTS[key] for key in keys])


def test_where_nothing_was_seen_both_sides_are_run_under_one_condition(store, monkeypatch, capsys):
    planned(monkeypatch, "repeat", "captured", "greedy", "plain", "context", "kernel", "artefact")
    monkeypatch.setenv("SLOW", "1.5")
    code, out, err = command(monkeypatch, capsys, store, "--yes", sides=("calm", "hurried"))
    words = " ".join(out.split())
    assert code == 2
    assert words.startswith("NO CAUSE WAS SEEN. No cause looks at what changed: ")
    assert "env.HF_HUB_OFFLINE: not applicable (absent) before, 1 after" in words
    assert "context: not run, nothing would be set for it, or both sides would be run alike" in err
    for shown in (
        "hurried+again: the second side again, as it was",
        "hurried+old: the first side's configuration: env.HF_HUB_OFFLINE none instead of 1",
        "hurried+captured: verify captured and as extend by turns, plain beside them",
        "hurried+old-greedy: the first side at temperature 0: temperature 0 instead of 0.8",
        "hurried+greedy: the second side at temperature 0: temperature 0 instead of 0.8",
    ):
        assert f"  {shown}\n" in err
    for said in (
        "By turns today, the second is as fast as the first.",
        "In the same launches, verify as extend is 25% slower than verify captured (verify ",
        "): hurried+captured.",
        "At temperature 0, the second is as fast as the first: hurried+old-greedy and hurried+greedy.",
        "With speculation off, the second is as fast as the first: hurried+old and hurried+again.",
    ):
        assert said in words
    kept = {path.stem: records.load(path) for path in store.glob("hurried+*.jsonl")}
    assert len(kept) == 5
    assert kept["hurried+captured"].arms == ["plain", ARM, f"{ARM}@extend"]
    assert {name: run.requested["temperature"] for name, run in kept.items() if run.requested["temperature"] == 0} == {
        "hurried+old-greedy": 0.0, "hurried+greedy": 0.0,
    }  # fmt: skip
    following = words[words.index("What to run next:") : words.index("Ruled out by")]
    assert "Trace one verify" in following
    assert "captured" not in following
    assert "Repeat the old" not in following


def asked(store, *keys, before=(), after=(), arms=None, arm=ARM):
    """What is chosen for these experiments where nothing was seen, for sides that asked for something else."""
    runs = [records.load(store / f"{name}.jsonl") for name in ("calm", "hurried")]
    found = investigate(*(side(run.name, run, ARM) for run in runs))
    for run, other in zip(runs, (before, after), strict=True):
        run.requested = {**run.requested, **dict(other)}
    runs[1].arms = arms or runs[1].arms
    found.found.before.arm = found.found.after.arm = arm
    return rerun.choose(replace(found, findings=[], experiments=[plan.EXPERIMENTS[key] for key in keys]))


def test_a_side_that_is_so_already_is_run_once(store):
    greedy = asked(store, "greedy", before={"temperature": 0.0})
    assert [(one.name, one.changes.get("asked.temperature")) for one in greedy.runs] == [
        ("again", None), ("old", (0.8, 0.0)), ("greedy", (0.8, 0.0)),
    ]  # fmt: skip
    [question] = greedy.questions
    assert (question.first, question.second) == (("old", ARM), ("greedy", ARM))
    context = asked(store, "context", after={"max_tokens": 16})
    assert [(one.name, one.changes) for one in context.runs] == [
        ("again", {}), ("old-context", {"asked.max_tokens": (32, 16)}),
    ]  # fmt: skip
    assert context.questions[0].second == ("again", ARM)
    nothing = asked(store, "greedy", "quiet", before={"temperature": 0.0}, after={"temperature": 0.0})
    assert (nothing.runs, nothing.questions, set(nothing.undecided)) == ([], [], {"greedy", "quiet"})


def test_speculation_is_off_on_both_also_where_plain_decoding_was_not_run(store):
    own = asked(store, "plain", arms=[ARM])
    assert [(one.name, one.arm) for one in own.runs] == [("again", ARM), ("old-plain", "plain"), ("plain", "plain")]
    beside = asked(store, "plain")
    assert [one.name for one in beside.runs] == ["again", "old"]
    assert (beside.questions[0].first, beside.questions[0].second) == (("old", "plain"), ("again", "plain"))
    assert asked(store, "plain", arm="plain").runs == []


def test_both_paths_are_run_whichever_the_side_took(store):
    for arm in (ARM, f"{ARM}@extend"):
        [again, run] = asked(store, "captured", after={"eager": True}, arm=arm).runs
        assert (again.arm, run.arm, run.beside) == (arm, ARM, (f"{ARM}@extend",))
        assert run.changes["asked.eager"] == (True, False)
    assert asked(store, "captured", arm="plain").runs == []


def test_an_accused_cause_is_put_back_and_greedy_is_asked_of_both(store):
    runs = {name: records.load(store / f"{name}.jsonl") for name in ("fast", "slow")}
    for run, temperature in zip(runs.values(), (0.3, 0.6), strict=True):
        run.requested = {**run.requested, "temperature": temperature}
    found = investigate(*(side(name, run, ARM) for name, run in runs.items()))
    assert "precision" in {one.cause.key for one in found.accused}
    keys = ("greedy", "library", "configuration", "captured")
    choice = rerun.choose(replace(found, experiments=[plan.EXPERIMENTS[key] for key in keys]))
    assert {"greedy", "old-greedy"} < {one.name for one in choice.runs}
    assert any("precision" in one.causes for one in choice.runs)
    assert [one.key for one in choice.questions] == ["greedy"]


def test_the_engine_verifies_both_ways_in_one_launch(tmp_path, monkeypatch, capsys):
    arguments = ["--limit", "1", "--max-tokens", "6", "--context", "512", "--arms", "plain,eagle3:3", "--name", "a"]
    monkeypatch.setattr("sys.argv", ["wingbeat", "bench", *arguments, "--store", str(tmp_path)])
    with pytest.raises(SystemExit, match="0"):
        main()
    records.save(replace(records.load(tmp_path / "a.jsonl"), name="b"), tmp_path / "b.jsonl")
    planned(monkeypatch, "captured")
    monkeypatch.setattr(command_of, "MOST", 1)
    _, out, err = command(monkeypatch, capsys, tmp_path, "--yes", sides=("a", "b"))
    assert "b+captured: verify captured and as extend by turns, plain beside them" in err
    assert " In the same launches, verify as extend is " in " ".join(out.split())
    [launch] = records.load(tmp_path / "b+captured.jsonl").launches
    [entry] = [one for one in launch.rounds if not one.warmup]
    assert set(entry.arms) == {"plain", "eagle3:3", "eagle3:3@extend"}
    assert not any(entry.differences.values())
    captured, extend = (set(entry.arms[arm].cycles.path) for arm in ("eagle3:3", "eagle3:3@extend"))
    assert captured.isdisjoint(extend)

"""`wingbeat runs`: the commands on a store, as they are typed."""

import json
import sys

import pytest

from wingbeat.cli.main import main
from wingbeat.measure import record as records
from wingbeat.measure.record import Figure
from wingbeat.measure.runner import Plan, measure
from wingbeat.measure.subjects import FakeArm, FakeSubject
from wingbeat.measure.workload import bundled

ARMS = {"plain": FakeArm(20.0), "eagle3": FakeArm(24.0, drafted=4, accepted=(3, 1))}


@pytest.fixture
def wingbeat(tmp_path, monkeypatch, capsys):
    """Runs a command on the store in tmp_path; returns exit code, output and errors."""
    monkeypatch.setenv("WINGBEAT_STORE", str(tmp_path))

    def wingbeat(*arguments):
        monkeypatch.setattr(sys, "argv", ["wingbeat", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        return ended.value.code or 0, *capsys.readouterr()

    return wingbeat


@pytest.fixture
def good(tmp_path):
    plan = Plan(bundled().take(2), tuple(ARMS))
    run = plan.record("bench", {"temperature": 0.0, "launches": 2})
    run.name = "good"
    measure(run, FakeSubject(ARMS), plan, tmp_path / "good.jsonl")
    return tmp_path / "good.jsonl"


def test_list_names_every_run_and_what_it_holds(wingbeat, good, tmp_path):
    (tmp_path / "torn.jsonl").write_text("{")
    code, output, _ = wingbeat("runs", "list", "--json")
    good_line, torn_line = json.loads(output)["runs"]
    assert (code, good_line["name"], good_line["launches"], good_line["arms"]) == (0, "good", "1 of 2", "plain, eagle3")
    assert "torn.jsonl is not a record" in torn_line["error"]
    good.write_bytes(good.read_bytes()[:-100])
    _, shown, _ = wingbeat("runs", "list")
    assert shown.startswith("2 runs in")
    assert "0 of 2, damaged  plain, eagle3\n\ntorn cannot be read: " in shown
    assert "0 runs in" in wingbeat("runs", "list", "--store", tmp_path / "nowhere")[1]


def test_rename_show_remove(wingbeat, good, tmp_path):
    assert wingbeat("runs", "rename", "good", "better")[:2] == (0, f"{tmp_path / 'better.jsonl'}\n")
    assert "tokens per cycle" in wingbeat("runs", "show", "better")[1]
    assert wingbeat("runs", "remove", "better")[0] == 0
    code, _, errors = wingbeat("runs", "show", "better")
    assert code == 1
    assert "no run 'better'" in errors


def test_a_damaged_run_is_shown_up_to_the_damage_with_a_warning(wingbeat, good):
    content = good.read_bytes().splitlines(keepends=True)
    good.write_bytes(b"".join([*content[:4], content[4][:100]]))
    code, output, errors = wingbeat("runs", "show", "good")
    assert code == 0
    assert "1 of 2 prompts" in output
    assert errors.startswith(f"wingbeat: {good} is damaged in launch 1, after 2 rounds: it is cut short; going on with")


def test_export(wingbeat, good, tmp_path):
    assert wingbeat("runs", "export", "good", tmp_path / "out.csv", "--table", "requests")[0] == 0
    assert (tmp_path / "out.csv").read_text().startswith("launch,round,prompt")
    assert wingbeat("runs", "export", "good", tmp_path / "out.txt")[0] == 2


def test_a_noted_run_takes_one_arm_after_another(wingbeat, tmp_path):
    wingbeat("runs", "new", "good", "--arm", "plain", "--tokens-per-second", "89", "--note", "from the chat")
    eagle3 = ["--tokens-per-second", "94:84-118", "--verify-ms", "19:17.47-19.10", "--steps", "2"]
    code, output, _ = wingbeat("runs", "new", "good", "--arm", "eagle3", *eagle3, "--acceptance", "0.6,0.2")
    assert code == 0
    assert "19 (17.47 to 19.1)" in output
    run = records.load(tmp_path / "good.jsonl")
    assert (run.source, run.arms, run.requested) == ("noted", ["plain", "eagle3"], {"note": "from the chat"})
    plain, eagle3 = run.launches[0].figures["plain"], run.launches[0].figures["eagle3"]
    assert plain == {"tokens_per_second": Figure(89.0, unit="1/s")}
    assert eagle3["verify_ms"] == Figure(19.0, 17.47, 19.1, None, "ms")
    assert eagle3["draft_steps"] == Figure(2.0, unit="1")
    assert eagle3.keys() == {"tokens_per_second", "verify_ms", "draft_steps", "acceptance_1", "acceptance_2"}
    code, _, errors = wingbeat("runs", "new", "good", "--arm", "plain", "--tokens-per-second", "90")
    assert code == 2
    assert "has an arm plain already" in errors
    document = json.loads(wingbeat("runs", "show", "good", "--json")[1].splitlines()[-1])
    assert document["launches"][0]["eagle3"]["verify_ms"]["low"] == 17.47


def test_the_default_store_is_the_users_own(monkeypatch, capsys, tmp_path):
    monkeypatch.delenv("WINGBEAT_STORE", raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.setattr(sys, "argv", ["wingbeat", "runs", "list"])
    with pytest.raises(SystemExit):
        main()
    assert f"0 runs in {tmp_path}/wingbeat/runs" in capsys.readouterr().out

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
from wingbeat.probe import document
from wingbeat.probe.document import Fingerprint
from wingbeat.probe.reading import Reading

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


def fingerprint(path, power, clock):
    """What `wingbeat fingerprint --pid --under-load --out` writes of a server on two devices."""
    values = {"boot_id": "a", "gpu.count": 2, "process.environ": 3, "process.argv": ["serve", "--tp", "2"]}
    values |= {"nvidia.driver": "590.48.01", "nvidia.module": "590.48.01"}
    for index in range(2):
        values[f"gpu.{index}.power.limit"] = power
        seen = {"clock.sm": clock, "pcie.generation": 5, "pcie.width": 16}
        values |= {f"load.gpu.{index}.{name}": {"min": v, "median": v, "max": v, "n": 8} for name, v in seen.items()}
    readings = {name: Reading("value", value) for name, value in values.items()}
    document.save(Fingerprint("2026-01-01T00:00:00+00:00", 8.0, "process 4711", readings), path)
    return path


def test_noted_figures_with_fingerprints_of_the_server_show_lower_clocks(wingbeat, tmp_path):
    noted = {"good": ((600, 2400), (89, 130, 5, 19)), "bad": ((350, 1600), (61, 88, 7.4, 28))}
    for name, (fields, (plain, speed, draft, verify)) in noted.items():
        taken = fingerprint(tmp_path / f"{name}.txt", *fields)
        assert wingbeat("runs", "new", name, "--arm", "plain", "--tokens-per-second", plain)[0] == 0
        figures = ["--tokens-per-second", speed, "--draft-ms", draft, "--verify-ms", verify]
        assert wingbeat("runs", "new", name, "--arm", "eagle3", *figures, "--fingerprint", taken)[0] == 0
    code, output, _ = wingbeat("investigate", "good:eagle3", "bad:eagle3", "--format", "json")
    found = json.loads(output)
    verdicts = {one["cause"]: one["verdict"] for one in found["findings"]}
    assert (code, found["outcome"]) == (1, "cause")
    assert verdicts["clocks"] == "consistent"
    assert {verdicts[key] for key in ("link", "driver", "environment")} == {"ruled out"}
    text = wingbeat("investigate", "good:eagle3", "bad:eagle3")[1]
    assert text.startswith("LIKELY: clocks.")
    assert "2400 before, 1600 after" in " ".join(text.split())


def test_a_fingerprint_is_added_to_a_run_that_is_there(wingbeat, good, tmp_path):
    code, _, errors = wingbeat("runs", "add-fingerprint", "good", fingerprint(tmp_path / "taken.txt", 600, 2400))
    assert (code, "two machines or boots" in errors) == (2, True)
    wingbeat("runs", "new", "seen", "--arm", "plain", "--tokens-per-second", "89")
    assert "add-fingerprint" in wingbeat("fingerprint", "seen")[2]
    taken = [fingerprint(tmp_path / f"{power}.txt", power, 2400) for power in (600, 350)]
    assert wingbeat("runs", "add-fingerprint", "seen", *taken)[:2] == (0, f"{tmp_path / 'seen.jsonl'}\n")
    assert "gpu.0.power.limit and 1 more  600 W -> 350 W" in wingbeat("fingerprint", "seen")[1]
    code, _, errors = wingbeat("runs", "add-fingerprint", "seen", tmp_path / "seen.jsonl")
    assert (code, "take the fingerprint again" in errors) == (1, True)


def test_the_default_store_is_the_users_own(monkeypatch, capsys, tmp_path):
    monkeypatch.delenv("WINGBEAT_STORE", raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.setattr(sys, "argv", ["wingbeat", "runs", "list"])
    with pytest.raises(SystemExit):
        main()
    assert f"0 runs in {tmp_path}/wingbeat/runs" in capsys.readouterr().out

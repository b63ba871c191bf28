"""`wingbeat fingerprint`, as it is typed."""

import json
import os
import subprocess
import sys

import pytest

from wingbeat.cli.main import main
from wingbeat.measure.record import Launch, RunRecord, save
from wingbeat.probe import collect, document
from wingbeat.probe.load import BusyError


@pytest.fixture
def wingbeat(tmp_path, monkeypatch, capsys):
    """Runs `wingbeat fingerprint`; returns exit code, output and errors."""
    monkeypatch.setenv("WINGBEAT_STORE", str(tmp_path / "store"))

    def wingbeat(*arguments):
        monkeypatch.setattr(sys, "argv", ["wingbeat", "fingerprint", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        return ended.value.code or 0, *capsys.readouterr()

    return wingbeat


def test_take_two_and_compare(wingbeat, tmp_path, monkeypatch):
    first, second = tmp_path / "a.json", tmp_path / "b.json"
    code, text, _ = wingbeat("--out", first)
    assert code == 0
    assert text.startswith("Fingerprint of this process, ")
    assert text.rstrip().endswith(f"Fingerprint: {first}")
    monkeypatch.setenv("NCCL_PROTO", "LL")
    wingbeat("--out", second)
    code, text, _ = wingbeat(first, second)
    assert code == 0
    assert "env.NCCL_PROTO  not applicable: absent -> LL" in text
    assert "with several devices: verify and decode change" in text
    code, text, _ = wingbeat(first, second, "--json")
    assert "env.NCCL_PROTO" in [change["name"] for change in json.loads(text)["changed"]]


def test_as_json_all_fields_have_a_state(wingbeat):
    code, text, _ = wingbeat("--json")
    found = json.loads(text)
    assert code == 0
    assert found["fingerprint"] == document.SCHEMA
    assert {field["state"] for field in found["fields"].values()} <= {"value", "not applicable", "unknown"}
    assert found["seconds"] > 0


def test_a_process_and_a_model(wingbeat, tmp_path):
    (tmp_path / "config.json").write_text("{}")
    there = subprocess.Popen(["sleep", "60"], env={"PATH": os.environ["PATH"]})
    try:
        code, text, _ = wingbeat("--pid", there.pid, "--model", tmp_path, "--head", tmp_path, "--json")
    finally:
        there.kill()
        there.wait()
    found = json.loads(text)
    assert (code, found["where"]) == (0, f"process {there.pid}")
    assert found["fields"]["process.argv"]["value"] == ["sleep", "60"]
    assert found["fields"]["model.config"]["value"] == found["fields"]["head.config"]["value"]


def test_under_load(wingbeat):
    code, text, _ = wingbeat("--under-load", "--seconds", 1, "--command", "sleep 20", "--json")
    fields = json.loads(text)["fields"]
    assert code == 0
    assert fields["load.kind"]["value"] == "sleep 20"
    assert fields["load.samples"]["value"] >= 1


def test_a_busy_device_is_left_alone(wingbeat, monkeypatch):
    def busy(request, load):
        raise BusyError("gpu.0: 1 other processes compute on it")

    monkeypatch.setattr(collect, "loaded", busy)
    code, text, errors = wingbeat("--under-load")
    assert (code, text) == (1, "")
    assert "gpu.0: 1 other processes" in errors


def fields(limit):
    return {"gpu.count": {"state": "value", "value": 1}, "gpu.0.power.limit": {"state": "value", "value": limit}}


def test_runs_have_fingerprints_too(wingbeat, tmp_path):
    (tmp_path / "store").mkdir()
    for name, before, after in (("good", 700, 500), ("bad", 350, 350)):
        launch = Launch("2026-11-29", 1, fields(before), fingerprint_after=fields(after), finished=True)
        save(RunRecord("bench", "2026-11-29", {}, {}, ["plain"], [launch]), tmp_path / f"store/{name}.jsonl")
    assert "gpu.0.power.limit  700 W -> 350 W (-50.0%)" in wingbeat("good", "bad")[1]
    assert "gpu.0.power.limit  700 W -> 500 W (-28.6%)" in wingbeat("good")[1]
    later = [Launch("2026-11-29", number, fields(700), fingerprint_after=fields(700 - number)) for number in (0, 90)]
    save(RunRecord("bench", "2026-11-29", {}, {}, ["plain"], later), tmp_path / "store/long.jsonl")
    assert "gpu.0.power.limit  700 W -> 610 W (-12.9%)" in wingbeat("long")[1]
    assert "Nothing that was read on both sides changed." in wingbeat("bad")[1]
    save(RunRecord("noted", "2026-11-29", {}, {}, ["plain"], [Launch()]), tmp_path / "store/noted.jsonl")
    code, _, errors = wingbeat("noted", "good")
    assert code == 1
    assert "has no fingerprint" in errors


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["a", "b", "c"], 1, "no run 'a'"),
        (["--force"], 2, "give --under-load too"),
        (["--ssh", "-x"], 2, "is not a machine's name"),
        (["--pid", "0"], 2, "--pid"),
        (["a", "b", "--ssh", "m", "--out", "c"], 2, "with names nothing is taken: leave out --out, --ssh"),
    ],
)
def test_wrong_usage(wingbeat, arguments, code, said):
    found = wingbeat(*arguments)
    assert found[0] == code
    assert said in found[2]


def test_one_fingerprint_is_nothing_to_compare(wingbeat, tmp_path):
    wingbeat("--out", tmp_path / "a.json")
    code, _, errors = wingbeat(tmp_path / "a.json")
    assert code == 2
    assert "name two fingerprints or runs" in errors

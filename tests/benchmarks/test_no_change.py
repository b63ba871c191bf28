"""Comparisons of equal sides: scripted launches as processes, what is finished stays, and differences are counted."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

import no_change

from wingbeat.measure import record

SCRIPT = Path(__file__).parents[1] / "cli" / "scripted_launch.py"


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    def run():
        monkeypatch.setattr(no_change, "LAUNCH", (sys.executable, str(SCRIPT), "bench-launch"))
        sizes = ["--comparisons", "1", "--launches", "2"]
        monkeypatch.setattr(sys, "argv", ["no_change", "--store", str(tmp_path), *sizes])
        with pytest.raises(SystemExit) as ended:
            no_change.main()
        return ended.value.code, capsys.readouterr().out

    return run


def test_equal_sides_are_the_same_and_what_is_finished_is_not_run_again(run, tmp_path):
    code, out = run()
    assert not code
    assert "same 1.\nDiffers: 0 of 1 (at most 1)." in out
    paths = [tmp_path / f"01-{side}.jsonl" for side in ("a", "b")]
    starts = {path: [launch.started for launch in record.load(path).launches] for path in paths}
    assert [len(found) for found in starts.values()] == [2, 2]
    assert run()[1].endswith(out[out.index("\n") :])
    assert {path: [launch.started for launch in record.load(path).launches] for path in paths} == starts


def test_a_side_that_is_slower_is_counted(run, tmp_path, monkeypatch):
    monkeypatch.setitem(no_change.ASKED, "dtype", "float32")  # in which the script is slower
    no_change.job(tmp_path / "01-b.jsonl", 2)
    monkeypatch.setitem(no_change.ASKED, "dtype", "bfloat16")
    assert "slower 1.\nDiffers: 1 of 1 (at most 1)." in run()[1]

from pathlib import Path

import pytest
from typer.testing import CliRunner

from wingbeat.cli.main import app
from wingbeat.errors import CorruptError, NotFoundError, UsageError
from wingbeat.measure import record
from wingbeat.probe import document
from wingbeat.probe.document import Fingerprint
from wingbeat.probe.reading import Reading

FIXTURES = Path(__file__).parent.parent / "measure" / "fixtures"


def wingbeat(*words):
    return CliRunner().invoke(app, ["runs", *map(str, words)], catch_exceptions=False)


def test_a_log_becomes_a_run_in_the_store(tmp_path):
    shown = wingbeat("import", FIXTURES / "sglang-2026.log", "--arm", "eagle3", "--store", tmp_path)
    assert shown.exit_code == 0
    assert "tokens_per_second" in shown.stdout
    assert "2 of 6 entries are damaged and were skipped" in shown.stderr
    run = record.load(tmp_path / "sglang-2026.jsonl")
    assert (run.name, run.source, run.arms) == ("sglang-2026", "sglang-log", ["eagle3"])
    assert "sglang-2026" in wingbeat("list", "--store", tmp_path).stdout


def test_two_scrapes_with_their_time_and_a_name(tmp_path):
    scrapes = [FIXTURES / f"metrics-vllm-{when}.txt" for when in ("before", "after")]
    wingbeat("import", *scrapes, "--seconds", 25, "--name", "vllm", "--store", tmp_path)
    [launch] = record.load(tmp_path / "vllm.jsonl").launches
    assert launch.figures["imported"]["tokens_per_second"].value == 100.0


def test_nothing_is_written_over_or_half_imported(tmp_path):
    wingbeat("import", FIXTURES / "table.csv", "--store", tmp_path)
    with pytest.raises(UsageError, match="never written over"):
        wingbeat("import", FIXTURES / "table.csv", "--store", tmp_path)
    with pytest.raises(CorruptError, match="nothing usable as aiperf"):
        wingbeat("import", FIXTURES / "vllm.log", "--format", "aiperf", "--store", tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["table.jsonl"]


def test_a_fingerprint_comes_with_it(tmp_path):
    taken = tmp_path / "taken.txt"
    readings = {"os": Reading("value", "Linux")}
    document.save(Fingerprint("2026-01-01T00:00:00+00:00", 1.0, "process 4711", readings), taken)
    wingbeat("import", FIXTURES / "table.csv", "--fingerprint", taken, "--store", tmp_path)
    assert record.load(tmp_path / "table.jsonl").launches[0].fingerprint == {"os": {"state": "value", "value": "Linux"}}
    with pytest.raises(NotFoundError, match=r"nowhere\.json"):
        wingbeat("import", FIXTURES / "vllm.log", "--fingerprint", tmp_path / "nowhere.json", "--store", tmp_path)
    assert not (tmp_path / "vllm.jsonl").exists()

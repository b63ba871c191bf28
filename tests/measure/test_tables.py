import csv
import json

import pytest

from wingbeat.errors import StorageError, UsageError
from wingbeat.measure import tables
from wingbeat.measure.columns import Rows
from wingbeat.measure.record import Figure, Launch, RunRecord
from wingbeat.measure.runner import Plan, measure
from wingbeat.measure.subjects import FakeArm, FakeSubject
from wingbeat.measure.workload import bundled


@pytest.fixture
def run(tmp_path):
    arms = {"plain": FakeArm(20.0), "eagle3": FakeArm(24.0, draft_ms=3.0, drafted=4, accepted=(2,))}
    plan = Plan(bundled().take(2), tuple(arms))
    record = plan.record("bench", {})
    measure(record, FakeSubject(arms, max_tokens=6), plan, tmp_path / "run.jsonl")
    return record


@pytest.fixture
def imported():
    launch = Launch(
        figures={"a": {"verify_ms": Figure(19.0, 17.47, 19.1, None, "ms")}, "b": {"draft_ms": Figure(1.0)}},
        samples={"a": {"time_s": [0.0, 1.0], "running": [1.0, None]}},
    )
    return RunRecord("bench", "", {}, {}, ["a", "b"], [launch], name="log", source="noted")


def read(path):
    with path.open() as file:
        return list(csv.DictReader(file))


def test_cycles_as_csv(run, tmp_path):
    tables.export(run, tmp_path / "x.csv")
    rows = read(tmp_path / "x.csv")
    assert len(rows) == 3 * (6 + 2)
    last = rows[-1]
    assert [last[name] for name in ("launch", "round", "warmup", "arm", "cycle", "request")] == [
        "1", "3", "False", "plain", "5", "0",
    ]  # fmt: skip
    drafted = next(row for row in rows if row["arm"] == "eagle3")
    assert [drafted[name] for name in ("drafted", "accepted", "committed", "width", "path")] == [
        "4", "2", "3", "5", "script",
    ]  # fmt: skip
    assert float(drafted["draft_ms"]) == pytest.approx(3)
    assert float(drafted["host_ms"]) == pytest.approx(1, rel=1e-5)


def test_other_tables(run, imported, tmp_path):
    assert tables.columns(run, "requests")["new_tokens"] == [6] * 6
    samples = {"launch": [1, 1], "arm": ["a", "a"], "time_s": [0.0, 1.0], "running": [1.0, None]}
    assert tables.columns(imported) == samples
    tables.export(imported, tmp_path / "x.csv", "figures")
    first, second = read(tmp_path / "x.csv")
    assert (first["figure"], first["low"], first["count"]) == ("verify_ms", "17.47", "")
    assert second["arm"] == "b"
    tables.export(imported, tmp_path / "y.csv")
    assert "running" in read(tmp_path / "y.csv")[0]
    with pytest.raises(UsageError, match="no cycles"):
        tables.export(imported, tmp_path / "z.csv", "cycles")


def test_a_cycle_of_several_requests_is_several_rows_and_what_is_missing_is_none(run):
    facts = run.launches[0].rounds[0].arms["eagle3"]
    for name in ("contexts", "drafted", "accepted", "committed"):
        setattr(facts.cycles, name, Rows([[1, 2], [3]]))
    del facts.cycles.ms["draft"], facts.cycles.time[:]
    table = tables.columns(run)
    first = [index for index, arm in enumerate(table["arm"]) if arm == "eagle3"][:3]
    rows = [[table[name][index] for name in ("cycle", "request", "context", "draft_ms", "time_s")] for index in first]
    assert rows == [[0, 0, 1, None, None], [0, 1, 2, None, None], [1, 0, 3, None, None]]
    assert len(set(map(len, table.values()))) == 1


def test_json_holds_everything(run, tmp_path):
    tables.export(run, tmp_path / "x.json")
    document = json.loads((tmp_path / "x.json").read_text())
    arm = document["launches"][0]["rounds"][0]["arms"]["eagle3"]
    assert arm["cycles"]["committed"] == [[3], [3]]
    assert arm["cycles"]["ms"]["verify"] == pytest.approx([24, 24])
    assert document["launches"][0]["calibration"] == run.launches[0].calibration


def test_parquet(run, tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    tables.export(run, tmp_path / "x.parquet")
    assert parquet.read_table(tmp_path / "x.parquet").column("committed").to_pylist()[-1] == 1


def test_what_cannot_be_exported_is_refused(run, tmp_path):
    for name, table in (("x.xlsx", None), ("x.json", "cycles")):
        with pytest.raises(UsageError):
            tables.export(run, tmp_path / name, table)
    with pytest.raises(StorageError):
        tables.export(run, tmp_path / "nowhere" / "x.csv")

import copy
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from wingbeat.errors import CorruptError, NotFoundError, StorageError, UnsupportedError
from wingbeat.measure import lines
from wingbeat.measure import record as records
from wingbeat.measure.record import Figure, Launch, RunRecord
from wingbeat.measure.runner import Plan, measure
from wingbeat.measure.subjects import FakeArm, FakeSubject
from wingbeat.measure.workload import bundled
from wingbeat.report import bench

GOLDEN = Path(__file__).parents[1] / "golden"


@pytest.fixture
def saved(tmp_path):
    """A run of two arms over two prompts, and its file."""
    arms = {"plain": FakeArm(20.0), "eagle3": FakeArm(24.0, draft_ms=3.0, drafted=4, accepted=(2, 0, 4))}
    plan = Plan(bundled().take(2), tuple(arms))
    run = plan.record("bench", {"temperature": 0.0})
    path = tmp_path / "run.json"
    measure(run, FakeSubject(arms), plan, path)
    return run, path


def test_a_record_reads_back_as_it_was(saved, tmp_path):
    run, path = saved
    read = records.load(path)
    assert read == run
    again = tmp_path / "again.json"
    records.save(read, again)
    assert records.load(again) == run


def test_a_record_reads_without_torch(saved):
    code = (
        "import sys, pathlib; from wingbeat.measure import record; from wingbeat.report import bench;"
        "bench.render(record.load(pathlib.Path(sys.argv[1]))); assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code, str(saved[1])], check=True)


@pytest.mark.parametrize("cut", [0, 1, 100, 0.5, 0.999])
def test_a_record_cut_short_is_an_error(saved, cut):
    path = saved[1]
    text = path.read_text()
    path.write_text(text[: int(cut * len(text)) if isinstance(cut, float) else cut])
    with pytest.raises(CorruptError, match=r"run\.json"):
        records.load(path)


def test_a_changed_line_is_an_error_that_says_where(saved):
    path = saved[1]
    header, launch, *rounds, done = path.read_bytes().splitlines(keepends=True)
    for number, place in ((0, "its first line"), (1, "launch 1, at its start"), (3, "launch 1, after 1 round:")):
        changed = [header, launch, *rounds, done]
        changed[number] = changed[number].replace(b"0", b"1", 1)
        path.write_bytes(b"".join(changed))
        with pytest.raises(CorruptError, match=f"run.json is damaged in {place}.*checksum"):
            records.load(path)


@pytest.mark.parametrize("body", [{"surprise": 1}, {"started": "now", "pid": 1, "figures": 3}])
def test_a_line_that_fits_its_checksum_and_no_launch_is_an_error(saved, body):
    path = saved[1]
    path.write_bytes(path.read_bytes() + lines.write("launch", body))
    with pytest.raises(CorruptError, match="damaged in launch 2, at its start"):
        records.load(path)


def test_what_stands_before_the_damage_can_be_read(saved):
    run, path = saved
    run.launches.append(copy.deepcopy(run.launches[0]))
    records.save(run, path)
    *content, last_round, _ = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*content, last_round[:-100]]))
    read = records.load(path, partial=True)
    assert "damaged in launch 2, after 2 rounds: it is cut short" in read.damage
    assert read.launches[0] == run.launches[0]
    assert read.launches[1].rounds == run.launches[1].rounds[:2]
    assert not read.launches[1].finished
    path.write_bytes(content[0][:50])
    with pytest.raises(CorruptError):
        records.load(path, partial=True)


def test_a_file_cut_anywhere_keeps_the_launches_before(saved):
    run, path = saved
    first = path.read_bytes()
    launch = copy.deepcopy(run.launches[0])
    run.launches.append(launch)
    records.save(run, path)
    content = path.read_bytes()
    for cut in range(len(first), len(content), 41):
        path.write_bytes(content[:cut])
        assert records.load(path, partial=True).launches[0] == launch


def test_figures_and_samples_are_kept(tmp_path):
    launch = Launch(
        figures={"eagle3": {"verify_ms": Figure(19.0, 17.47, 19.1, None, "ms")}},
        samples={"eagle3": {"time_s": [0.0, 1.5], "tokens_per_second": [94.1, None]}},
    )
    run = RunRecord("bench", "2026-01-01", {}, {}, ["eagle3"], [launch], name="noted", source="noted")
    records.save(run, tmp_path / "noted.jsonl")
    assert records.load(tmp_path / "noted.jsonl") == run


@pytest.mark.parametrize("schema", range(1, records.SCHEMA + 1))
def test_records_of_every_schema_load(schema):
    [path] = GOLDEN.glob(f"schema-{schema}.*")
    run = records.load(path)
    assert (run.schema, run.source, run.arms) == (records.SCHEMA, "wingbeat", ["plain", "eagle3"])
    facts = run.measured()[0].arms["eagle3"]
    assert [list(facts.cycles.drafted), list(facts.cycles.accepted)] == [[[4]] * 4, [[2], [0], [4], [2]]]
    assert list(facts.cycles.ms["verify"]) == [24.0] * 4
    assert facts.requests[0].new_tokens == 12
    assert bench.document(run)["arms"][1]["tokens_per_cycle"] == 3


@pytest.mark.parametrize(
    "damage",
    [
        lambda run: run.pop("launches"),
        lambda run: run.update(surprise=1),
        lambda run: run["launches"][0].pop("rounds"),
        lambda run: run["launches"][0]["rounds"][0].update(arms=[]),
        lambda run: run["launches"][0]["rounds"][0]["arms"]["plain"]["cycles"].update(columns=1),
    ],
)
def test_a_damaged_record_of_schema_1_is_an_error(damage, tmp_path):
    document = json.loads((GOLDEN / "schema-1.json").read_text())
    damage(document)
    path = tmp_path / "run.json"
    path.write_text(json.dumps(document))
    with pytest.raises(CorruptError, match="damaged"):
        records.load(path)


def test_other_json_and_newer_records_are_told_apart(tmp_path):
    path = tmp_path / "x.json"
    for text in ("[1, 2]", "{}", "3"):
        path.write_text(text)
        with pytest.raises(CorruptError, match="not a record"):
            records.load(path)
    for text in ('{"schema": 99}', lines.write("run", {"schema": 99}).decode()):
        path.write_text(text)
        with pytest.raises(UnsupportedError, match=r"x\.json has schema 99"):
            records.load(path)
    with pytest.raises(NotFoundError, match="nowhere"):
        records.load(tmp_path / "nowhere.json")


def test_saving_leaves_nothing_else_behind_and_makes_the_folder(saved, tmp_path):
    run, _ = saved
    path = tmp_path / "new" / "deeper" / "run.json"
    records.save(run, path)
    records.save(run, path)
    assert os.listdir(path.parent) == ["run.json"]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_full_disk_leaves_the_old_record_untouched(saved):
    run, path = saved
    before = path.read_text()
    (path.parent / f".run.json.{os.getpid()}").symlink_to("/dev/full")
    run.kind = "other"
    with pytest.raises(StorageError, match="No space left"):
        records.save(run, path)
    assert path.read_text() == before
    assert os.listdir(path.parent) == ["run.json"]


def test_a_place_that_cannot_be_written_is_an_error(saved, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="cannot save"):
        records.save(saved[0], tmp_path / "file" / "run.json")


def test_equal_outputs_have_equal_hashes():
    assert records.output_hash([1, 23]) == records.output_hash((1, 23))
    assert records.output_hash([1, 23]) != records.output_hash([12, 3])

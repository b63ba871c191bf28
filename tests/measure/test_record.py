import json
import os
import subprocess
import sys

import pytest

from wingbeat.errors import CorruptError, NotFoundError, StorageError, UnsupportedError
from wingbeat.measure import record as records
from wingbeat.measure.runner import Plan, measure
from wingbeat.measure.subjects import FakeArm, FakeSubject
from wingbeat.measure.workload import bundled


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
    assert read.launches[0].rounds == run.launches[0].rounds
    again = tmp_path / "again.json"
    records.save(read, again)
    assert again.read_text() == path.read_text()


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
def test_a_damaged_record_is_an_error(saved, damage):
    path = saved[1]
    document = json.loads(path.read_text())
    damage(document)
    path.write_text(json.dumps(document))
    with pytest.raises(CorruptError, match="damaged"):
        records.load(path)


def test_other_json_and_newer_records_are_told_apart(tmp_path):
    path = tmp_path / "x.json"
    for text in ("[1, 2]", "{}", "3"):
        path.write_text(text)
        with pytest.raises(CorruptError, match="not a record"):
            records.load(path)
    path.write_text('{"schema": 99}')
    with pytest.raises(UnsupportedError, match="schema 99"):
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

import pytest

from wingbeat.errors import NotFoundError, UsageError
from wingbeat.measure import noted, store
from wingbeat.measure import record as records


@pytest.fixture
def folder(tmp_path):
    """A store with two runs, one of them in a file of schema 1's name."""
    for name in ("good.jsonl", "old.json"):
        records.save(noted.new(name.partition(".")[0]), tmp_path / name)
    (tmp_path / ".good.jsonl.77").write_text("left by a process that was killed")
    (tmp_path / "notes.txt").write_text("not a run")
    return tmp_path


def test_runs_are_found_by_name_and_by_file(folder):
    assert [path.name for path in store.paths(folder)] == ["good.jsonl", "old.json"]
    assert store.find(folder, "good") == folder / "good.jsonl"
    assert store.find(folder, str(folder / "old.json")) == folder / "old.json"
    with pytest.raises(NotFoundError, match="holds: good, old"):
        store.find(folder, "bad")
    assert store.paths(folder / "nowhere") == []


@pytest.mark.parametrize("name", ["", "../up", "a/b", ".hidden", "a b", "-x"])
def test_a_name_that_is_no_file_name_is_refused(folder, name):
    with pytest.raises(UsageError, match="cannot be named"):
        store.new_path(folder, name)


@pytest.mark.parametrize("name", ["good", "old"])
def test_a_record_is_never_written_over(folder, name):
    with pytest.raises(UsageError, match="never written over"):
        store.new_path(folder, name)
    with pytest.raises(UsageError, match="never written over"):
        store.rename(folder, "good", name)


def test_rename_changes_file_and_record(folder):
    path = store.rename(folder, "old", "older")
    assert path == folder / "older.jsonl"
    assert records.load(path).name == "older"
    assert [path.name for path in store.paths(folder)] == ["good.jsonl", "older.jsonl"]


def test_remove_deletes_the_file(folder):
    store.remove(folder, "good")
    assert [path.name for path in store.paths(folder)] == ["old.json"]

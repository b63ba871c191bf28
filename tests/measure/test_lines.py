"""The file under a record: what is there stays there, whatever stops the writing."""

import os
from array import array

import pytest

from wingbeat.errors import StorageError
from wingbeat.measure import lines


def test_a_line_comes_back_and_any_changed_byte_is_noticed():
    line = lines.write("round", {"a": [1, "ü"]})
    assert lines.read(line) == ("round", {"a": [1, "ü"]})
    for place in range(len(line)):
        changed = line[:place] + bytes([line[place] ^ 1]) + line[place + 1 :]
        with pytest.raises(ValueError, match=r"checksum|cut short"):
            lines.read(changed)


def test_arrays_come_back_in_either_order_of_bytes(monkeypatch):
    arrays = {"a": array("i", [1, -2]), "b": array("f", [0.5]), "c": array("d", []), "d": array("d", [0.1, 2])}
    assert lines.unpack(lines.pack(arrays)) == arrays
    packed = lines.pack(arrays)
    monkeypatch.setattr(lines.sys, "byteorder", "big")
    assert lines.unpack(packed)["a"][0] == 1 << 24
    assert lines.unpack(lines.pack(arrays)) == arrays


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_appending_to_a_full_disk_is_an_error(tmp_path):
    (tmp_path / "run").symlink_to("/dev/full")
    with pytest.raises(StorageError, match="No space left"):
        lines.append(tmp_path / "run", b"line\n")


@pytest.mark.parametrize(("stop", "error"), [(KeyboardInterrupt, KeyboardInterrupt), (OSError, StorageError)])
def test_an_append_that_is_stopped_leaves_the_file_as_it_was(tmp_path, monkeypatch, stop, error):
    path = tmp_path / "new" / "run"
    lines.append(path, b"first\n")

    def fail(descriptor):
        raise stop

    monkeypatch.setattr(lines.os, "fsync", fail)
    with pytest.raises(error):
        lines.append(path, b"second\n")
    assert path.read_bytes() == b"first\n"

import pytest

from wingbeat.measure import columns
from wingbeat.measure.columns import CycleColumns, Rows, floats, integers

ROWS = [[5], [], [7, 8, 9], [1, 2]]


def test_rows_read_like_lists_of_lists():
    rows = Rows(ROWS)
    assert rows == ROWS
    assert [rows[index] for index in range(-4, 4)] == ROWS + ROWS
    assert (len(rows), list(rows.flat), list(rows.counts())) == (4, [5, 7, 8, 9, 1, 2], [1, 0, 3, 2])
    assert Rows.of(rows.flat, rows.ends) == rows
    assert rows != Rows(ROWS[:3])
    with pytest.raises(IndexError):
        rows[4]
    with pytest.raises(ValueError, match="do not fill"):
        Rows.of(integers([1, 2]), integers([1]))


def cycles(**changes):
    rows = {name: Rows(ROWS) for name in columns.ROWS}
    given = {"ms": {"verify": floats([1, 2, 3, 0.1])}, "time": [1.0, 2.0, 3.0, 4.0], "width": [5, 5, 1, 5]}
    return CycleColumns(**{**given, "path": ["a", "b", "b", "a"], **rows, **changes})


def test_packed_columns_come_back():
    given = cycles()
    back = columns.unpack(columns.pack(given))
    assert list(back.ms["verify"]) == list(given.ms["verify"])
    assert (list(back.time), list(back.width), back.path) == (given.time, given.width, given.path)
    assert all(getattr(back, name) == ROWS for name in columns.ROWS)
    assert len(columns.unpack(columns.pack(CycleColumns()))) == 0
    assert len(columns.unpack(columns.pack(cycles(time=[]))).time) == 0


@pytest.mark.parametrize(
    "wrong",
    [{"width": [5]}, {"path": ["a"]}, {"ms": {"draft": [1.0]}}, {"time": [1.0]}, {"drafted": Rows([[1]])}],
)
def test_columns_of_unequal_length_are_refused(wrong):
    with pytest.raises(ValueError, match=r"equally long|do not fill"):
        columns.unpack(columns.pack(cycles(**wrong)))

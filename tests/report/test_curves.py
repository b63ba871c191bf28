"""Curves in characters: every point lands where its value says."""

from wingbeat.report.curves import draw


def test_points_land_where_their_values_say():
    chart = draw({"up": [(0, 0.0), (10, 1.0)], "flat": [(0, 0.5), (5, 0.5), (10, 0.5)]}, width=11, height=5).split("\n")
    body = [line.partition("|")[2] for line in chart[:5]]
    assert body == [" " * 10 + "1", "", "2    2    2", "", "1"]
    assert chart[0].startswith("   1.000 |")
    assert chart[4].startswith("   0.000 |")
    assert chart[5].endswith("+-----------")
    assert chart[6].split() == ["0", "10"]
    assert chart[7].split("  ")[-2:] == ["1 up", "2 flat"]


def test_one_point_and_none():
    assert "1" in draw({"loss": [(3, 2.0)]}, width=10, height=3).split("\n")[0]
    assert draw({"loss": []}) == ""

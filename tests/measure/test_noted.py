import pytest

from wingbeat.errors import UsageError
from wingbeat.measure import noted
from wingbeat.measure.record import Figure


@pytest.mark.parametrize(
    ("text", "figure"),
    [
        ("19", Figure(19.0, unit="ms")),
        ("19:17.47-19.10", Figure(19.0, 17.47, 19.1, unit="ms")),
        (".5x40", Figure(0.5, count=40, unit="ms")),
        (" 94:84-118x7 ", Figure(94.0, 84.0, 118.0, 7, "ms")),
    ],
)
def test_figures_are_read(text, figure):
    assert noted.figure(text, "ms") == figure


@pytest.mark.parametrize("text", ["", "fast", "19ms", "-3", "19:17", "19:17-", "1e3", "19:20-21", "19:18-17"])
def test_what_is_no_figure_is_refused(text):
    with pytest.raises(UsageError):
        noted.figure(text, "ms")


def test_only_what_was_noted_is_known():
    found = noted.figures({"tokens_per_second": "94", "verify_ms": None}, "0.6,0.4:0.3-0.5")
    assert found == {
        "tokens_per_second": Figure(94.0, unit="1/s"),
        "acceptance_1": Figure(0.6, unit="1"),
        "acceptance_2": Figure(0.4, 0.3, 0.5, unit="1"),
    }
    for nothing in ({}, {"verify_ms": None}):
        with pytest.raises(UsageError, match="at least one"):
            noted.figures(nothing, None)
    with pytest.raises(UsageError, match="share"):
        noted.figures({}, "60")


def test_arms_are_added_once_and_only_to_noted_runs():
    run = noted.new("good")
    noted.add_arm(run, "plain", {"tokens_per_second": Figure(89.0)})
    noted.add_arm(run, "eagle3", {"tokens_per_second": Figure(94.0)})
    assert run.arms == ["plain", "eagle3"]
    assert run.launches[0].figures["eagle3"]["tokens_per_second"].value == 94
    with pytest.raises(UsageError, match="already"):
        noted.add_arm(run, "plain", {})
    run.source = "wingbeat"
    with pytest.raises(UsageError, match="no noted run"):
        noted.add_arm(run, "ngram", {})

import json

import pytest
import scenarios
from scenarios import WORKLOAD, launches, measured, noted

from wingbeat.investigate.compare import compare
from wingbeat.investigate.side import side
from wingbeat.report.compare import document, render


def of(before, after, arm="eagle3"):
    return compare(side("good", before, arm), side("bad", after, arm))


def test_the_story_in_words():
    text = render(of(*scenarios.story()))
    lines = text.splitlines()
    assert max(map(len, lines)) <= 100
    assert lines[:6] == [
        "Before: good, arm eagle3: 1 launch, single figures (noted)",
        "After:  bad, arm eagle3: 1 launch, single figures (noted)",
        "",
        "Resolution: a rise of tok/s by 32% or a fall by 24% would show.",
        "SLOWER: tok/s -36.2% (94.0 to 60.0; 95% interval -51.6% to -15.8%).",
        "",
    ]
    words = " ".join(text.split())
    assert "Verify explains 94% of it (19.0 to 29.0 ms)." in words
    assert "Tokens per cycle did not move, as far as these runs can show (1.79 to 1.74)." in words
    assert "Plain decoding went from 89.0 to 82.5 tok/s (-7.3%, not certain)." in words
    assert "bad: a cycle costs at least 2.39 plain steps, so it needs more than 2.4" in words
    assert "Assumed: a standard deviation of 10%" in words
    assert "Context lengths are not known (good and bad)" in words


@pytest.mark.parametrize(
    ("after", "words"),
    [
        (launches(), "SAME within 3%: tok/s +0.0%"),
        (launches(verify=15.0), "FASTER: tok/s +27."),
        (launches(factors=(0.9, 1.0, 1.15)), "Even 200 launches a side would not tell"),
        (launches(factors=(1.0, 1.05, 1.12)), "launches a side would tell."),
        (launches(accepted=(2, 0, 0, 0)), "Tokens per cycle explains 100% of it (2.00 to 1.50)."),
    ],
)
def test_each_verdict_in_words(after, words):
    text = render(of(measured("good", launches()), measured("bad", after)))
    assert words in " ".join(text.split())
    assert max(map(len, text.splitlines())) <= 100
    assert "accepted at position" in text
    assert "cycle time, matched" in text


def test_another_experiment_in_words():
    other = measured("bad", launches(), workload={**WORKLOAD, "concurrency": 8})
    text = render(of(measured("good", launches()), other))
    assert "NOT COMPARABLE: the number of requests at once differs: concurrency 1 and 8." in text
    rows = [line for line in text.splitlines() if line.startswith(("tok/s", "tokens per cycle ", "cycle, ms"))]
    assert len(rows) == 1
    assert rows[0].split()[-1] == "same"


def test_the_document_says_the_same():
    found = of(*scenarios.story())
    figures = document(found)
    assert json.loads(json.dumps(figures, allow_nan=False)) == figures
    assert (figures["verdict"], figures["explained_by"]) == ("slower", ["verify_ms"])
    assert figures["resolution"] == pytest.approx(found.primary.change.half)
    rows = {row["name"]: row for row in figures["rows"]}
    assert (
        rows["verify_ms"]["change"]["low"] < rows["verify_ms"]["change"]["value"] < rows["verify_ms"]["change"]["high"]
    )
    assert figures["break_even"][1]["needed"] == pytest.approx(2.3925)
    assert figures["before"] == {"name": "good", "arm": "eagle3", "evidence": "figures", "launches": 1}


def test_an_unbounded_interval_is_null():
    single = noted("good", eagle3={"cycle_ms": (20, 0.0, 40)})
    assert document(of(single, single))["verdict"] == "cannot tell"

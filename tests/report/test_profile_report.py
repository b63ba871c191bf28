"""The profile's text and document, for tables that are written down."""

import json

import pytest

from wingbeat.measure.roofline import Ceilings, Parts, Prediction, Profile, Timing
from wingbeat.report import profile as report

SUBJECT = {
    "model": "tiny", "dtype": "bfloat16", "weights": "bfloat16", "device": "cpu", "threads": 2, "longest": 512,
    "limits": {"context": 512},
}  # fmt: skip
BEST = Ceilings(gb_per_s=40.0, gflop_per_s=1000.0, launch_us=1.5)


def cell(width, ms, part="verify", branches=1):
    size = 200_000_000 if part == "verify" else 20_000_000
    return Timing(part, "native", width, 128, branches, ms, ms - 1, ms + 1, size, 1_000_000_000 * width)


TIMINGS = (
    *(cell(width, 8.0 + 2 * width) for width in (1, 2, 4)), cell(2, 3.0, "draft"), cell(4, 5.0, "draft", branches=2),
)  # fmt: skip


def prediction(verify=12.0, tokens=1.6, **changes):
    predicted, observed = Parts(3.0, 12.0, 1.0), Parts(3.0, verify, 1.0)
    plain = Parts(0.0, 10.0, 1.0)
    base = {
        "arm": "eagle3", "acceptance": (tokens - 1,), "tokens_per_cycle": tokens, "predicted": predicted,
        "observed": observed, "plain_predicted": plain, "plain_observed": plain,
        "speed_up_predicted": tokens * 11 / predicted.cycle, "speed_up_observed": tokens * 11 / observed.cycle,
        "draft_from_run": False,
    }  # fmt: skip
    return Prediction(**{**base, **changes})


def text(*predictions):
    return report.render(Profile(SUBJECT, BEST, TIMINGS, predictions))


def line(text, label):
    return next(line for line in text.splitlines() if line.strip().startswith(label)).split()


def words(text):
    return " ".join(text.split())


def test_the_table_has_times_rates_and_the_least_time():
    shown = text()
    assert " ".join(line(shown, "2 tokens")) == "2 tokens 12 11-13 1.20 16.7 (42%) 167 (17%) 5"
    assert line(shown, "4 steps of 2")[4:6] == ["5", "4-6"]
    assert "least squares: 8.00 ms and 2.000 ms a token, within 0%" in shown
    assert "a step, within" not in shown  # one chain alone gives no line
    assert "takes a run with a plain arm" in words(shown)
    assert max(map(len, shown.splitlines())) <= 80


def test_a_prediction_that_holds():
    shown = text(prediction())
    assert line(shown, "verify  ")[1:] == ["12.00", "12.00", "+0%"]
    assert line(shown, "tokens per cycle needed")[4:] == ["1.45", "1.45", "+0%"]
    assert "needs 1.45 tokens per cycle to break even and has 1.60." in words(shown)
    assert "break even with a verify of 13.60 ms, and has 12.00." in words(shown)
    assert "is what the tables say, to within 0%" in words(shown)


def test_a_residual_names_the_part_that_it_lies_in():
    shown = words(text(prediction(verify=24.0)))
    assert "43% below what the tables say, most of it for verify: +12.00 ms a cycle in the run." in shown


def test_a_plain_arm_that_was_quicker_in_the_run_is_named():
    quick = prediction(plain_observed=Parts(0.0, 5.0, 1.0), speed_up_observed=1.6 * 6 / 16)
    assert "45% below what the tables say, most of it for plain decoding: -5.00 ms" in words(text(quick))


def test_where_no_verify_is_quick_enough_it_says_so():
    assert "Even a verify that takes no time would not" in words(text(prediction(observed=Parts(19.0, 1.0, 1.0))))


def test_a_draft_that_was_not_measured_is_marked():
    assert line(text(prediction(draft_from_run=True)), "draft (from the run)")[4:] == ["3.00", "3.00", "+0%"]


def test_more_than_the_ceiling_is_explained():
    slow = Ceilings(gb_per_s=1.0, gflop_per_s=1000.0, launch_us=1.5)
    assert "lay in the processor's caches" in words(report.render(Profile(SUBJECT, slow, TIMINGS, ())))
    assert "caches" not in text()


def test_weights_of_another_type_and_contexts_that_were_left_out_are_named():
    subject = {**SUBJECT, "weights": "int8", "longest": 8192}
    shown = words(report.render(Profile(subject, BEST, TIMINGS, ())))
    assert "tiny, bfloat16 with int8 weights on cpu" in shown
    assert "Contexts go up to 128 of the model's 8192 tokens; --context 8192" in shown
    assert "--context" not in text()


def test_the_document_holds_the_figures_of_the_text():
    document = json.loads(json.dumps(report.document(Profile(SUBJECT, BEST, TIMINGS, (prediction(verify=24.0),)))))
    assert document["timings"][1]["gb_per_s"] == pytest.approx(200 / 12)
    assert document["timings"][1]["bound_ms"] == pytest.approx(5.0)
    [fit] = document["fits"]
    assert (fit["part"], fit["path"], fit["context"], fit["slope"]) == ("verify", "native", 128, pytest.approx(2.0))
    [found] = document["predictions"]
    assert found["residual"] == pytest.approx(16 / 28 - 1)
    assert found["break_even"]["needed"] == pytest.approx(28 / 11)
    assert found["break_even_predicted"]["needed"] == pytest.approx(16 / 11)

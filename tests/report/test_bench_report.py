import json

import pytest

from wingbeat.measure.runner import Plan, measure
from wingbeat.measure.subjects import FakeArm, FakeSubject
from wingbeat.measure.workload import bundled
from wingbeat.report import bench
from wingbeat.report.table import columns

PLAIN = FakeArm(20.0)
FAST = FakeArm(24.0, draft_ms=5.0, drafted=4, accepted=(3, 1))
SLOW = FakeArm(28.0, draft_ms=1.0, drafted=4, accepted=(0,))


@pytest.fixture
def run(tmp_path):
    def run(requested=None, prompts=8, **arms):
        plan = Plan(bundled().take(prompts), tuple(arms))
        record = plan.record("bench", {"temperature": 0.0, "dtype": "bfloat16", "max_tokens": 60, **(requested or {})})
        measure(record, FakeSubject(arms, max_tokens=60), plan, tmp_path / "run.json")
        return record

    return run


def words(text):
    return " ".join(text.split())


def line(text, label):
    return next(line for line in text.splitlines() if line.strip().startswith(label)).split()


def test_the_table_shows_the_script(run):
    text = bench.render(run(plain=PLAIN, eagle3=FAST))
    assert line(text, "tok/s")[1:] == ["47.6", "100.0"]
    assert line(text, "speed-up")[1:] == ["-", "2.10"]
    assert line(text, "tokens per cycle")[3:] == ["1.00", "3.00"]
    assert line(text, "needed to break even")[4:] == ["-", "1.43"]
    assert line(text, "ms per cycle")[3:] == ["21.00", "30.00"]
    assert line(text, "draft")[1:] == ["0.00", "5.00"]
    assert line(text, "verify")[1:] == ["20.00", "24.00"]
    assert line(text, "rest")[1:] == ["1.00", "1.00"]
    assert line(text, "verify / decode")[3:] == ["-", "1.20"]
    assert line(text, "outputs as plain")[3:] == ["-", "8", "of", "8"]
    assert line(text, "1 ")[1:] == ["-", "100%", "(100%)"]
    assert line(text, "2 ")[1:] == ["-", "50%", "(50%)"]
    assert line(text, "3 ")[1:] == ["-", "50%", "(100%)"]


def test_the_conclusions_say_whether_it_pays(run):
    text = words(bench.render(run(plain=PLAIN, eagle3=FAST, ngram=SLOW)))
    assert "eagle3: speculation pays here, 2.10 times plain (faster on 8 of 8 prompts)." in text
    assert "needs 1.43 tokens per cycle to break even; it has 3.00." in text
    assert "ngram: speculation does not pay here, 0.70 times plain (faster on 0 of 8 prompts)." in text
    assert "All outputs are identical to plain decoding, token for token." in text


def test_what_cannot_be_told_is_not_told(run):
    text = words(bench.render(run(prompts=2, plain=PLAIN, eagle3=FAST)))
    assert "eagle3: cannot tell whether speculation pays (faster on 2 of 2 prompts; it takes 6 or more" in text


def test_an_arm_that_never_drafts_is_named(run):
    text = words(bench.render(run(plain=PLAIN, ngram=PLAIN)))
    assert "ngram: nothing was ever drafted; as fast as plain, within 2%" in text
    assert "accepted at position" not in text


@pytest.mark.parametrize(
    ("dtype", "gap", "judgement"),
    [
        ("bfloat16", 0.125, "the other 8 first differ at a near tie (logits of the two tokens at most 0.125 apart)"),
        ("float32", 0.125, "where the logits of the two tokens are 0.125 apart, which is no near tie: it may not be"),
        ("bfloat16", None, "where the logits of the two tokens were not compared: it may not be lossless"),
    ],
)
def test_differing_outputs_are_counted_and_judged(run, dtype, gap, judgement):
    wrong = FakeArm(24.0, drafted=4, accepted=(3,), differs_at=6)
    record = run({"dtype": dtype}, plain=PLAIN, eagle3=wrong, ngram=SLOW)
    for entry in record.measured():
        entry.differences["eagle3"][0].gap = gap
    text = words(bench.render(record))
    assert line(bench.render(record), "outputs as plain")[3:] == ["-", "0", "of", "8", "8", "of", "8"]
    assert "eagle3: 0 of 8 outputs are identical to plain" in text
    assert judgement in text
    assert "ngram: 8 of 8" not in text
    assert "All outputs are identical" not in text


def test_sampled_outputs_are_not_called_identical(run):
    text = bench.render(run({"temperature": 0.7}, plain=PLAIN, eagle3=FAST))
    assert "sampled" in text
    assert "identical" not in text


def test_warm_up_is_left_out(run):
    record = run(plain=PLAIN, eagle3=FAST)
    record.launches[0].rounds[0].arms["eagle3"].seconds *= 100
    assert bench.render(record) == bench.render(run(plain=PLAIN, eagle3=FAST))


def test_an_unfinished_run_says_so(run):
    record = run(plain=PLAIN, eagle3=FAST)
    record.launches[0].finished = False
    del record.launches[0].rounds[3:]
    text = words(bench.render(record))
    assert "2 of 8 prompts" in text
    assert "Not finished" in text
    del record.launches[0].rounds[1:]
    assert "nothing to show" in bench.render(record)


def test_many_arms_stay_within_80_columns_of_plain_text(run):
    arms = {f"eagle3:{steps}:4:16": FAST for steps in range(1, 9)}
    text = bench.render(run(plain=PLAIN, **arms))
    assert max(map(len, text.splitlines())) <= 80
    assert text.isascii()
    assert all(f"eagle3:{steps}:4:16" in text for steps in range(1, 9))


def test_the_document_holds_the_figures_of_the_table(run):
    document = json.loads(json.dumps(bench.document(run(plain=PLAIN, eagle3=FAST))))
    plain, fast = document["arms"]
    assert plain["against_plain"] is None
    assert fast["tokens_per_cycle"] == pytest.approx(3.0)
    assert fast["against_plain"]["verdict"]["answer"] == "faster"
    assert document["workload"]["prompts"] == 8
    assert document["finished"]


def test_columns_that_do_not_fit_go_below():
    text = columns(["", "aaaa", "bbbb"], [["x", "1", "2"], ["a heading that is long"]], width=10)
    heading = "a heading that is long"
    assert text.splitlines() == ["   aaaa", "x     1", heading, "", "   bbbb", "x     2", heading]

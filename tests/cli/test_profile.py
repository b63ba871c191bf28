"""`wingbeat profile` and `wingbeat plot` from the command line, on the default model and on scripts."""

import json
import sys

import pytest

from wingbeat.cli.main import main
from wingbeat.measure import store
from wingbeat.measure.runner import Plan, measure
from wingbeat.measure.subjects import FakeArm, FakeSubject
from wingbeat.measure.workload import bundled


@pytest.fixture
def wingbeat(monkeypatch, capsys, tmp_path):
    def wingbeat(*arguments):
        monkeypatch.setattr(sys, "argv", ["wingbeat", *map(str, arguments), "--store", str(tmp_path / "store")])
        try:
            main()
        except SystemExit as ended:
            return ended.code or 0, *capsys.readouterr()
        return 0, *capsys.readouterr()

    return wingbeat


def test_profile_measures_predicts_draws_and_traces(wingbeat, tmp_path):
    sizes = ["--widths", "1,3", "--contexts", "32,128", "--repeats", "1", "--limit", "1", "--max-tokens", "6"]
    more = ["--no-eager", "--trace", tmp_path / "trace.json", "--plot", tmp_path / "tables.png", "--json"]
    code, output, errors = wingbeat("profile", *sizes, *more, "--context", "512")
    assert code == 0, errors
    assert "forward of the target" in output
    assert "tokens per cycle needed" in output
    document = json.loads(output.splitlines()[-1])
    cells = {(one["part"], one["context"], one["width"]) for one in document["timings"]}
    assert {("verify", 32, 1), ("verify", 128, 3), ("draft", 128, 2)} <= cells
    [found] = document["predictions"]
    assert found["arm"] == "eagle3"
    assert not found["draft_from_run"]
    cycle, plain = (sum(found[name].values()) for name in ("observed", "plain_observed"))  # draft, verify, rest
    assert found["break_even"]["needed"] == pytest.approx(cycle / plain)
    assert any(event["name"] == "verify" for event in json.loads((tmp_path / "trace.json").read_text())["traceEvents"])
    assert (tmp_path / "tables.png").stat().st_size > 1000
    [path] = store.paths(tmp_path / "store")
    assert path.stem.startswith("profile-")
    code, output, errors = wingbeat("profile", "--run", path.stem, *sizes, "--no-eager", "--json", "--context", "512")
    assert code == 0, errors
    [again] = json.loads(output.splitlines()[-1])["predictions"]
    assert again["observed"] == found["observed"]
    assert store.paths(tmp_path / "store") == [path]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [(["--widths", "1;2"], "write them as 1,2,4"), (["--contexts", "600"], "exceed the engine's 512"),
     (["--run", "nothing"], "no run 'nothing'"), (["--plot", "a.bmp"], "must end in .png")],
)  # fmt: skip
def test_what_cannot_be_profiled_is_refused_before_it_is_run(wingbeat, tmp_path, arguments, message):
    code, output, errors = wingbeat("profile", *arguments, "--context", "512", "--dtype", "float32")
    assert code in (1, 2)
    assert message in errors
    assert output == ""
    assert not (tmp_path / "store").exists()


@pytest.fixture
def runs(tmp_path):
    arms = {"plain": FakeArm(20.0), "ngram": FakeArm(24.0, drafted=4, accepted=(3, 1))}
    plan = Plan(bundled().take(2), tuple(arms))
    for name in ("good", "bad"):
        measure(plan.record("bench", {}), FakeSubject(arms), plan, tmp_path / "store" / f"{name}.jsonl")


@pytest.mark.usefixtures("runs")
def test_plot_draws_runs_by_name_and_by_file(wingbeat, tmp_path):
    code, output, errors = wingbeat("plot", "good", tmp_path / "store" / "bad.jsonl", "--out", tmp_path / "two.svg")
    assert code == 0, errors
    assert output.strip() == str(tmp_path / "two.svg")
    assert "<svg" in (tmp_path / "two.svg").read_text()


@pytest.mark.usefixtures("runs")
def test_a_picture_of_an_unknown_kind_is_refused(wingbeat, tmp_path):
    code, _, errors = wingbeat("plot", "good", "--out", tmp_path / "two.bmp")
    assert code == 2
    assert "must end in .png, .svg, .pdf" in errors

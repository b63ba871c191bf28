import importlib.util
import json
import sys
from fnmatch import fnmatchcase
from pathlib import Path

import pytest
import scenarios
from scenarios import WORKLOAD, launches, measured, noted

from wingbeat.cli.main import main
from wingbeat.errors import UsageError
from wingbeat.investigate import mla, plan
from wingbeat.investigate.case import investigate
from wingbeat.investigate.causes import ALL
from wingbeat.investigate.side import side
from wingbeat.measure.record import load, save
from wingbeat.probe import registry
from wingbeat.report import investigate as report

ROOT = Path(__file__).parents[2]
DEAD_END = ROOT / "examples" / "dead_end"


def imported(path, monkeypatch):
    monkeypatch.syspath_prepend(str(path.parent))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def of(before, after, **named):
    return investigate(side("before", before, "eagle3"), side("after", after, "eagle3"), **named)


def finding(found, key):
    return next(one for one in found.findings if one.cause.key == key)


def known(record, settings=None, **fields):
    """The record with a fingerprint of these fields ("_" stands for ".") in every launch, and settings."""
    readings = {name.replace("__", "."): {"state": "value", "value": value} for name, value in fields.items()}
    for launch in record.launches:
        launch.fingerprint = readings
    record.requested = {**record.requested, **(settings or {})}
    return record


@pytest.fixture
def dead_end():
    good, bad = (load(DEAD_END / f"{name}.jsonl") for name in ("good", "bad"))
    return investigate(side("good", good, "eagle3"), side("bad", bad, "eagle3"))


def test_the_dead_end_is_the_record_of_its_script(monkeypatch):
    made = imported(DEAD_END / "make.py", monkeypatch).records()
    assert made == (load(DEAD_END / "good.jsonl"), load(DEAD_END / "bad.jsonl"))


def test_the_dead_end_rules_out_what_was_checked_by_its_values(dead_end):
    checked = {
        "patches": {"packages.patched": []},
        "clocks": {"load.gpu.7.clock.sm": {"min": 2290, "median": 2320, "max": 2340, "n": 8}},
        "link": {
            "load.gpu.0.pcie.generation": {"min": 5, "median": 5, "max": 5, "n": 8},
            "load.gpu.7.pcie.width": {"min": 16, "median": 16, "max": 16, "n": 8},
        },
        "driver": {"nvidia.driver": "590.48.01", "nvidia.module": "590.48.01"},
        "reboot": {"boot_id": "6f0c4b7e-5d0a-4d62-9a55-0a4f6f1c2b11"},
        "nccl": {"loaded.nccl": "libnccl.so.2.27.5"},
        "torch": {"torch.loaded": "2.10.0+cu128"},
    }
    for key, values in checked.items():
        one = finding(dead_end, key)
        assert one.verdict == "ruled out", key
        decided = {fact.name: (fact.before, fact.after) for fact in one.decided}
        assert {name: decided[name] for name in values} == {name: (value, value) for name, value in values.items()}
    text = report.render(dead_end)
    assert "gpu.0.pstate and 7 more: P0" in text
    for words in ("2320", "590.48.01", "libnccl.so.2.27.5", "2.10.0+cu128"):
        assert f"{words} on both sides" in " ".join(text.split())


def test_the_dead_end_leaves_two_explanations_and_says_how_to_decide(dead_end):
    assert dead_end.outcome == "nothing observable changed"
    assert not dead_end.accused
    left = {}
    for one in dead_end.left:
        left.setdefault(one.cause.family, set()).add(one.cause.key)
    assert left.keys() == {"measurement conditions", "verify's code path"}
    assert left["verify's code path"] == {"captured", "attention", "all_reduce"}
    assert {"context", "observer", "warmup", "averaging"} <= left["measurement conditions"]
    assert dead_end.moves.with_it("verify") == "moved"
    assert dead_end.moves.still("tokens") == dead_end.moves.still("plain") == "stayed"
    assert dead_end.found.break_even[1].needed == pytest.approx(82.5 * 29 / 1000)
    keys = [one.key for one in dead_end.experiments]
    assert keys[:2] == ["repeat", "context"]
    assert set(keys) == {"repeat", "context", "captured", "kernel", "collective", "artefact", "paths"}
    assert {"library", "code", "launch"} <= {one.cause.key for one in dead_end.unseen}


def test_the_dead_end_in_words(dead_end):
    words = " ".join(report.render(dead_end).split())
    assert words.startswith("NOTHING OBSERVABLE CHANGED that explains it. What is left: 1. verify's code path; 2. meas")
    assert "Hardly moved, beside that: tokens per cycle 1.786 to 1.74; plain decoding 89 to 82.5 tok/s." in words
    assert "bad: to break even, a cycle needs more than 2.4 tokens; it has 1.74, so that speculation costs." in words
    assert "takes at least 9.9 ms in every verify" in words
    assert "Repeat the old configuration today" in words
    assert max(map(len, report.render(dead_end).splitlines())) <= 100
    page = report.markdown(dead_end)
    assert "| driver | nvidia.driver: 590.48.01 on both sides" in page
    figures = report.document(dead_end)
    assert json.loads(json.dumps(figures, allow_nan=False)) == figures
    assert figures["left"].keys() == {"measurement conditions", "verify's code path"}


def test_expanding_costs_what_the_configuration_says():
    config = mla.Latent(layers=61, rank=512, rope=64, nope=128, value=128, heads=16)
    rates = mla.RATES["RTX PRO 6000"]
    assert mla.expanding_ms(config, 8192, rates) == pytest.approx(10, rel=0.05)
    assert mla.expanding_ms(config, 16384, rates) == pytest.approx(2 * mla.expanding_ms(config, 8192, rates))
    assert mla.notes({}, 10.0) == []


def test_without_fingerprints_nothing_is_ruled_out_by_values_or_called_the_same():
    found = of(*scenarios.story())
    assert not found.accused
    assert not any(one.decided for one in found.findings)
    assert finding(found, "driver").decided == []
    assert "Checked, and the same" not in report.render(found)


def clocked(factor, clock, **named):
    record = measured("run", launches(factors=[factor * by for by in (0.995, 1, 1.005)]))
    return known(record, gpu__count=1, load__gpu__0__clock__sm={"median": clock}, **named)


def test_a_change_is_a_cause_only_where_direction_and_size_fit():
    base = clocked(1.0, 2000)
    assert finding(of(base, clocked(1.3, 1500)), "clocks").verdict == "consistent"
    small = finding(of(base, clocked(1.3, 1900)), "clocks")
    assert (small.verdict, "at most" in small.reason) == ("ruled out", True)
    wrong = finding(of(base, clocked(1.3, 2600)), "clocks")
    assert (wrong.verdict, "makes a run faster" in wrong.reason) == ("ruled out", True)
    other = finding(of(base, known(measured("run", launches(accepted=(1, 0))), gpu__count=1,
                                   load__gpu__0__clock__sm={"median": 1500})), "clocks")  # fmt: skip
    assert (other.verdict, "did not follow" in other.reason) == ("ruled out", True)


def test_no_change_and_no_certainty_accuse_nobody():
    same = of(clocked(1.0, 2000, nvidia__driver="1"), clocked(1.0, 2000, nvidia__driver="2"))
    assert (same.outcome, same.accused, same.experiments) == ("no change", [], [])
    assert finding(same, "driver").verdict == "inconclusive"
    groups = of(measured("a", launches(factors=(1, 1, 1.3))), measured("b", launches(factors=(1, 1.3, 1.3))))
    assert (groups.outcome, groups.accused[0].cause.key) == ("cause", "launch")
    noisy = of(measured("a", launches()), measured("b", launches(factors=(0.9, 1.0, 1.15))))
    assert (noisy.outcome, noisy.accused) == ("cannot tell", [])


def test_other_conditions_are_named_first():
    warm = measured("warm", launches(accepted=(1, 0)), workload={**WORKLOAD, "sampling": {"temperature": 1.0}})
    found = of(measured("cold", launches()), warm)
    assert found.found.obstacles
    assert found.accused[0].cause.key == "sampling"


def test_longer_contexts_explain_only_what_equal_contexts_do_not_show():
    def steep(context):
        return 10 + context / 50

    short, long = (measured("run", launches(verify=steep, start=start)) for start in (100, 2000))
    assert of(short, long).accused[0].cause.key == "context"
    slower = measured("run", launches(verify=lambda context: 1.6 * steep(context), start=160))
    found = finding(of(short, slower), "context")
    assert (found.verdict, "at equal context lengths too" in found.reason) == ("ruled out", True)


def test_a_wider_verify_is_told_from_the_rest():
    wide = measured("wide", launches(verify=32.0, accepted=(2, 1, 0, 1)))
    for launch in wide.launches:
        for entry in launch.rounds:
            entry.arms["eagle3"].cycles.width = [8] * 60
    assert of(measured("narrow", launches()), wide).accused[0].cause.key == "width"


def test_putting_it_back_confirms_or_rules_out():
    before, after = clocked(1.0, 2000), clocked(1.3, 1500)
    back, not_back = side("restored", clocked(1.02, 2000), "eagle3"), side("other", clocked(1.3, 1500), "eagle3")
    confirmed = of(before, after, tried={"clocks": back})
    assert (confirmed.outcome, confirmed.accused[0].verdict, confirmed.experiments) == ("cause", "confirmed", [])
    assert report.render(confirmed).startswith("CONFIRMED: clocks.")
    assert finding(of(before, after, tried={"clocks": not_back}), "clocks").verdict == "ruled out"
    with pytest.raises(UsageError, match="no cause is called colour"):
        of(before, after, tried={"colour": back})


def test_several_causes_are_told_apart_by_the_fewest_runs():
    assert plan.separating([("code",), ("driver",)]) == ["code", "driver"]
    assert plan.separating([("code", "repeat"), ("repeat",)]) == ["repeat", "code"]
    assert plan.separating([("context", "repeat"), ("greedy", "repeat"), ("batch", "repeat")]) != ["repeat"]
    two = of(clocked(1.0, 2000, git__commit="a"), clocked(1.3, 1500, git__commit="b"))
    assert (two.outcome, [one.cause.key for one in two.accused]) == ("several causes", ["clocks", "code"])
    assert {one.key for one in two.experiments} == {"load", "code"}


def test_what_changed_while_a_side_ran_is_told():
    record = clocked(1.0, 2000, cpu__governor="performance")
    for launch in record.launches:
        launch.fingerprint_after = {**launch.fingerprint, "cpu.governor": {"state": "value", "value": "powersave"}}
    found = of(record, clocked(1.3, 2000, cpu__governor="performance"))
    assert [change.name for change in found.drift[0]] == ["cpu.governor"]
    assert "before: cpu.governor performance -> powersave" in report.render(found)


@pytest.mark.parametrize("cause", ALL, ids=lambda cause: cause.key)
def test_every_cause_asks_for_what_exists(cause):
    assert {*cause.experiments} <= plan.EXPERIMENTS.keys()
    assert cause.question.endswith("?")
    assert cause.predicts
    assert cause.watches
    patterns = [watch.pattern for watch in cause.watches] + [one for many in cause.decides for one in many.split("|")]
    fields = [name.replace("*", "0") for name in registry.FIELDS]
    for pattern in patterns:
        own = pattern.startswith(("run.", "setting.", "calibration."))
        example = pattern.replace("[!D]*", "PROTO").replace("D[!E]*", "DMABUF").replace("*", "0")
        assert own or registry.spec(example) or any(fnmatchcase(name, pattern) for name in fields), pattern


def test_the_planted_causes_are_found_and_nobody_is_accused_wrongly(monkeypatch):
    planted = imported(ROOT / "benchmarks" / "planted.py", monkeypatch)
    assert len(planted.CAUSED) >= 40
    assert len(planted.INNOCENT) >= 12
    right = [planted.first(planted.run(case)) in case.right for case in planted.CAUSED]
    wrong = [case.thread for case in planted.INNOCENT if planted.run(case).accused]
    assert sum(right) / len(right) >= planted.LEAST_RIGHT
    assert len(wrong) / len(planted.INNOCENT) <= planted.MOST_WRONG


def run(monkeypatch, capsys, *arguments):
    monkeypatch.setattr(sys, "argv", ["wingbeat", *map(str, arguments)])
    code = 0
    try:
        main()
    except SystemExit as end:
        code = end.code or 0
    done = capsys.readouterr()
    return code, done.out, done.err


def test_the_command(monkeypatch, capsys, tmp_path):
    good, bad, slow = DEAD_END / "good.jsonl", DEAD_END / "bad.jsonl", tmp_path / "slow.jsonl"
    code, out, _ = run(monkeypatch, capsys, "investigate", good, bad)
    assert (code, "NOTHING OBSERVABLE CHANGED" in out) == (2, True)
    code, out, _ = run(monkeypatch, capsys, "investigate", good, bad, "--format", "json")
    assert json.loads(out)["outcome"] == "nothing observable changed"
    run(monkeypatch, capsys, "investigate", good, bad, "--format", "markdown", "--out", tmp_path / "a.md")
    assert (tmp_path / "a.md").read_text().startswith("# good and bad\n")
    for name, record in (("fast", clocked(1.0, 2000)), ("slow", clocked(1.3, 1500))):
        save(record, tmp_path / f"{name}.jsonl")
    code, out, _ = run(monkeypatch, capsys, "investigate", tmp_path / "fast.jsonl", slow)
    assert (code, "clocks" in out.splitlines()[0]) == (1, True)
    code, out, _ = run(monkeypatch, capsys, "investigate", slow, tmp_path / "fast.jsonl", "--tried", f"clocks={slow}")
    assert (code, "CONFIRMED: clocks" in out) == (1, True)
    assert run(monkeypatch, capsys, "investigate", slow, slow)[0] == 4
    assert run(monkeypatch, capsys, "investigate", good, bad, "--tried", "clocks")[0] == 4


def test_explain_says_whether_it_pays_and_what_would_have_to_change(monkeypatch, capsys, tmp_path):
    code, out, _ = run(monkeypatch, capsys, "explain", DEAD_END / "bad.jsonl")
    words = " ".join(out.split())
    assert code == 0
    assert words.startswith("SPECULATION COSTS here")
    assert "So a cycle has to yield more than 2.39 tokens; it yields 1.74." in words
    assert "Verify alone costs 2.39 plain steps." in words
    assert "2.39 tokens per cycle instead of 1.74" in words
    assert "a verify of 21.1 ms at most" in words
    save(measured("run", launches()), tmp_path / "run.jsonl")
    figures = json.loads(run(monkeypatch, capsys, "explain", tmp_path / "run.jsonl", "--json")[1])
    assert figures["verdict"] == "pays"
    assert figures["acceptance"] == [0.75, 0.25]
    assert figures["verify_ratio"] == pytest.approx(20 / 16, rel=1e-3)
    assert {part["name"]: round(part["share"], 3) for part in figures["parts"]} == {
        "draft": 0.087, "verify": 0.87, "host": 0.043,
    }  # fmt: skip
    assert figures["missing"] == []


def test_explain_does_not_guess_without_plain_decoding(monkeypatch, capsys, tmp_path):
    save(noted("run", eagle3={"tokens_per_second": 60, "tokens_per_cycle": 1.1}), tmp_path / "run.jsonl")
    _, out, _ = run(monkeypatch, capsys, "explain", tmp_path / "run.jsonl")
    assert out.startswith("CANNOT TELL")
    assert "plain decoding was not measured in this run" in " ".join(out.split())
    save(noted("plain", plain={"tokens_per_second": 60}), tmp_path / "plain.jsonl")
    assert run(monkeypatch, capsys, "explain", tmp_path / "plain.jsonl")[0] == 2


def test_the_same_files_under_another_name_are_no_cause():
    def named(path, weights, factors):
        files = {"model__weights": weights, "model__config": "c", "head__weights": "h", "head__config": "c"}
        return known(measured("run", launches(factors=factors)), {"model": path, "head": path}, **files)

    before = named("/old/model", "w", (0.99, 1.0, 1.01))
    renamed = of(before, named("/new/model", "w", (1.29, 1.3, 1.31)))
    assert finding(renamed, "target").verdict == finding(renamed, "head").verdict == "ruled out"
    assert "the same files under another name" in finding(renamed, "target").reason
    assert finding(of(before, named("/new/model", "x", (1.29, 1.3, 1.31))), "target").verdict == "consistent"


UNEVEN = (0.7, 1.0, 1.4, 1.1)  # by how much the machine is slower in one launch than in another


def test_a_change_shows_beside_plain_decoding_where_the_machine_varies():
    before = known(measured("a", launches(UNEVEN)), {"path": "captured"})
    after = known(measured("b", launches(UNEVEN[::-1], verify=26.0)), {"path": "extend"})
    found = of(before, after)
    assert (found.found.verdict, found.moves.machine is None) == ("cannot tell", False)
    assert (found.moves.with_it("verify"), found.moves.still("plain")) == ("moved", "stayed")
    assert [one.cause.key for one in found.accused] == ["captured"]
    text = report.render(found)
    assert "beside plain decoding in the same launches" in text
    assert "Beside plain decoding of the same launches: 1.39 to 1.10" in " ".join(text.split())


def test_a_machine_that_varies_is_no_change_beside_plain_decoding():
    before = known(measured("a", launches(UNEVEN)), {"path": "captured"})
    found = of(before, known(measured("b", launches((1.2, 1.5, 0.9, 1.1))), {"path": "extend"}))
    assert (found.outcome, found.moves.total, found.accused) == ("cannot tell", None, [])


def test_what_slows_plain_decoding_as_much_is_not_seen_beside_it():
    before = known(measured("a", launches()), {"threads": 2, "device": "cpu"})
    found = of(before, known(measured("b", launches((1.98, 2.0, 2.02))), {"threads": 1, "device": "cpu"}))
    assert (found.moves.machine, found.moves.with_it("plain")) == (None, "moved")
    assert found.accused[0].cause.key == "cores"

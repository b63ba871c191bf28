import json
import subprocess
import sys

import matplotlib
import pytest
import scenarios
from scenarios import WORKLOAD, launches, measured

from wingbeat.cli.main import main
from wingbeat.measure.record import save


@pytest.fixture
def store(tmp_path, monkeypatch):
    good, bad = scenarios.story()
    runs = {
        "good": good,
        "bad": bad,
        "base": measured("base", launches()),
        "again": measured("again", launches(), created="2026-01-02T00:00:00+00:00"),
        "slow": measured("slow", launches(verify=30.0), created="2026-01-03T00:00:00+00:00"),
        "noisy": measured("noisy", launches(factors=(0.9, 1.0, 1.15))),
        "warm": measured("warm", launches(), workload={**WORKLOAD, "sampling": {"temperature": 1.0}}),
    }
    for name, run in runs.items():
        save(run, tmp_path / f"{name}.jsonl")
    monkeypatch.setenv("WINGBEAT_STORE", str(tmp_path))
    return tmp_path


def run(monkeypatch, capsys, *arguments):
    monkeypatch.setattr(sys, "argv", ["wingbeat", "compare", *map(str, arguments)])
    with pytest.raises(SystemExit) as end:
        main()
    done = capsys.readouterr()
    return end.value.code, done.out, done.err


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["base", "again"], 0, "SAME"),
        (["slow", "base"], 0, "FASTER"),
        (["base", "slow"], 1, "SLOWER"),
        (["good", "bad"], 1, "SLOWER"),
        (["base", "noisy"], 2, "CANNOT TELL"),
        (["base", "warm"], 3, "NOT COMPARABLE"),
        (["base:plain", "base:eagle3"], 0, "FASTER"),
        (["base", "noisy", "--same-within", "50"], 0, "SAME within 50%"),
        (["slow", "--history"], 1, "history (3 runs)"),
    ],
)
@pytest.mark.usefixtures("store")
def test_exit_codes(monkeypatch, capsys, arguments, code, words):
    found, out, _ = run(monkeypatch, capsys, *arguments)
    assert found == code
    assert words in out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["base", "nope"], "no run 'nope'"),
        (["base"], "name two runs"),
        (["base", "again", "--history"], "name two runs"),
        (["base", "base"], "RUN:ARM (plain, eagle3)"),
        (["base:eagle3", "base:ngram"], "there are plain, eagle3"),
        (["base", "again", "--nonsense"], "--nonsense"),
        (["base", "again", "--same-within", "x"], "--same-within"),
        ([], "before"),
    ],
)
@pytest.mark.usefixtures("store")
def test_wrong_usage_ends_with_4(monkeypatch, capsys, arguments, words):
    code, out, err = run(monkeypatch, capsys, *arguments)
    assert code == 4
    assert words in err
    assert not out


def test_json_and_files(store, monkeypatch, capsys):
    code, out, _ = run(monkeypatch, capsys, store / "base.jsonl", "slow", "--json")
    figures = json.loads(out)
    assert (code, figures["verdict"], figures["explained_by"]) == (1, "slower", ["verify_ms"])


@pytest.mark.parametrize(
    ("arguments", "labels"),
    [
        (["base", "slow"], ["base: eagle3", "slow: eagle3"]),
        (["base:plain", "base:eagle3"], ["plain", "eagle3"]),
        (["good", "bad"], ["good: eagle3", "bad: eagle3"]),
        (["slow", "--history"], ["again: eagle3", "slow: eagle3"]),
    ],
)
@pytest.mark.usefixtures("store")
def test_a_picture_shows_the_arms_that_were_compared(tmp_path, monkeypatch, capsys, arguments, labels):
    monkeypatch.setitem(matplotlib.rcParams, "svg.fonttype", "none")
    _, out, err = run(monkeypatch, capsys, *arguments, "--plot", tmp_path / "both.svg")
    assert not err
    assert "Before:" in out
    drawn = (tmp_path / "both.svg").read_text()
    assert all(f">{label}</text>" in drawn for label in labels)
    assert not any(other in drawn for other in (">plain</text>", ": plain</text>") if "plain" not in labels)


@pytest.mark.usefixtures("store")
def test_a_picture_that_cannot_be_written_is_refused_first(monkeypatch, capsys):
    code, out, err = run(monkeypatch, capsys, "base", "slow", "--plot", "both.bmp")
    assert (code, out) == (4, "")
    assert "must end in .png" in err


def test_what_stands_before_the_damage_is_compared(store, monkeypatch, capsys):
    path = store / "slow.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:-3]) + lines[-3][:50])
    code, out, _ = run(monkeypatch, capsys, "base", "slow")
    assert code == 1
    assert "is damaged in launch 3" in " ".join(out.split())


def test_comparing_loads_no_torch(store):
    code = (
        "import sys; sys.argv[1:] = ['compare', 'base', 'slow']; from wingbeat.cli.main import main\n"
        "try: main()\nexcept SystemExit: pass\nassert not {'torch', 'transformers'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)

"""The command line as a person meets it: what it prints, and how it ends."""

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from wingbeat.cli.main import main
from wingbeat.measure.runner import Plan, measure
from wingbeat.measure.subjects import FakeArm, FakeSubject
from wingbeat.measure.workload import bundled

WINGBEAT = [sys.executable, "-c", "from wingbeat.cli.main import main; main()"]


def wingbeat(*arguments):
    return subprocess.run([*WINGBEAT, *map(str, arguments)], capture_output=True, text=True, timeout=120)


@pytest.fixture
def record(tmp_path):
    arms = {"plain": FakeArm(20.0), "ngram": FakeArm(24.0, drafted=4, accepted=(3, 1))}
    plan = Plan(bundled().take(8), tuple(arms))
    path = tmp_path / "run.jsonl"
    measure(plan.record("bench", {"temperature": 0.0}), FakeSubject(arms), plan, path)
    return path


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["bench", "--help"], ["runs", "show"]])
def test_help_and_record_commands_start_without_torch(arguments, record):
    arguments = [*arguments, str(record)] if arguments == ["runs", "show"] else arguments
    code = (
        "import atexit, sys; from wingbeat.cli.main import main;"
        "heavy = {'torch', 'numpy', 'transformers', 'safetensors', 'gguf'};"
        "atexit.register(lambda: print('HEAVY', heavy & set(sys.modules), file=sys.stderr)); main()"
    )
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "HEAVY set()" in done.stderr


def test_importing_wingbeat_imports_no_torch():
    code = "import sys, wingbeat; wingbeat.errors; assert 'torch' not in sys.modules; assert 'LLM' in dir(wingbeat)"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["bench", "--nonsense"], 2, "No such option: --nonsense"),
        (["fly"], 2, "fly"),
        (["generate"], 2, "prompt"),
        (["generate", "x", "--max-tokens", "many"], 2, "Invalid value for '--max-tokens'"),
        (["generate", "x", "--temperature", "-1"], 2, "temperature must be 0 or more"),
        (["generate", "x", "--model", "/no/such/model"], 1, "/no/such/model"),
        (["generate", "x", "--head", "/no/such/head"], 1, "no draft head at /no/such/head"),
        (["generate", "x", "--drafter", "owl"], 2, "Invalid value for '--drafter'"),
        (["generate", "x", "--dtype", "int3"], 2, "Invalid value for '--dtype'"),
        (["generate", "x", "--speculate", "0"], 2, "must be at least 1"),
        (["generate", "x", "--speculate", "much"], 2, "auto, off or a number"),
        (["generate", "-"], 2, "the prompt is empty"),
        (["chat", "--model", "/no/such/model"], 1, "/no/such/model"),
        (["bench", "--prompts", "/no/such/file"], 1, "cannot read the prompts /no/such/file"),
        (["bench", "--limit", "0"], 2, "Invalid value for '--limit'"),
        (["bench", "--arms", "plain,owl"], 2, "unknown drafter 'owl'"),
        (["bench", "--arms", "plain,eagle3:x"], 2, "cannot read the arm 'eagle3:x'"),
        (["bench", "--arms", "plain,plain"], 2, "named twice"),
        (["bench", "--rounds", "0"], 2, "Invalid value for '--rounds'"),
        (["bench", "--name", "../up"], 2, "cannot be named"),
        (["bench", "--launches", "0"], 2, "Invalid value for '--launches'"),
        (["bench-launch", "/no/such/record"], 1, "cannot read the record /no/such/record"),
        (["runs", "show", "/no/such/record"], 1, "no run '/no/such/record'"),
        (["runs", "new", "good"], 2, "Missing option '--arm'"),
        (["runs", "new", "good", "--arm", "plain"], 2, "at least one figure"),
        (["runs", "new", "good", "--arm", "plain", "--verify-ms", "19ms"], 2, "cannot read the figure '19ms'"),
    ],
)
def test_bad_input_is_a_clear_message_and_an_exit_code(arguments, code, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WINGBEAT_STORE", str(tmp_path))
    monkeypatch.setattr(sys, "argv", ["wingbeat", *arguments])
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))
    with pytest.raises(SystemExit) as ended:
        main()
    output, errors = capsys.readouterr()
    assert ended.value.code == code
    assert message in errors
    assert output == ""
    assert not list(tmp_path.iterdir())


def test_errors_of_our_own_are_one_line(tmp_path):
    done = wingbeat("runs", "show", tmp_path)
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("wingbeat: ")


def test_no_command_prints_the_help():
    done = wingbeat()
    assert "Commands:" in done.stdout + done.stderr


def test_a_saved_run_is_shown_with_its_figures_last(record):
    done = wingbeat("runs", "show", record, "--json")
    assert "tokens per cycle" in done.stdout
    assert "speculation pays here" in " ".join(done.stdout.split())
    document = json.loads(done.stdout.splitlines()[-1])
    assert document["record"] == str(record)
    assert [arm["arm"] for arm in document["arms"]] == ["plain", "ngram"]


def test_output_has_no_colour_in_a_pipe(record):
    assert "\x1b" not in wingbeat("runs", "show", record).stdout
    assert "\x1b" not in wingbeat("--help").stdout


def test_the_entry_point_is_installed():
    script = Path(sys.executable).with_name("wingbeat")
    assert os.access(script, os.X_OK)
    assert subprocess.run([script, "--version"], capture_output=True, text=True).stdout.startswith("wingbeat 0.")

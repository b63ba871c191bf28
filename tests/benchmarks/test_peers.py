"""The comparison with other engines, from scripted workers: what is run, kept, resumed and concluded."""

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
sys.path.insert(0, str(BENCHMARKS))

from peers import figures, tables  # noqa: E402
from peers.engines import engines, rehearsed  # noqa: E402
from peers.processes import PeerError, Worker, cpu_seconds  # noqa: E402

ANSWER = {"seconds", "tokens", "decode_seconds", "decode_tokens", "starts"}


def turn(speed, **more):
    """The answer of an arm that made 101 tokens, the last 100 at `speed`."""
    return {"seconds": 100 / speed + 1, "tokens": 101, "decode_seconds": 100 / speed, "decode_tokens": 100,
            "starts": [[1, 2]], **more}


def unit(of, **speeds):
    """A unit in which plain and llama.cpp had these speeds."""
    names = {"plain": figures.PLAIN, "eagle": figures.EAGLE, "llama": figures.LLAMA}
    return {"id": of, "set": of, "turns": {names[name]: turn(speed) for name, speed in speeds.items()}}


def command(folder, *more):
    questions = folder / "small.jsonl"
    questions.write_text("".join(json.dumps({"question_id": i, "turns": [f"question {i}"]}) + "\n" for i in range(4)))
    return subprocess.run(
        [sys.executable, str(BENCHMARKS / "peers.py"), "--rehearse", "--only", "llama.cpp", "--prompts", str(questions),
         "--limit", "2", "--tokens", "20", "--batch", "2", "--crowd-rounds", "1", "--out", str(folder / "out.json"),
         *more],
        capture_output=True, text=True,
    )


def reaches(group, wanted):
    """Whether every process of a group is before long in one of the states."""
    for _ in range(1000):
        stats = subprocess.run(["ps", "-eo", "pgid=,stat="], capture_output=True, text=True).stdout.splitlines()
        if all(state[0] in wanted for pgid, state in map(str.split, stats) if int(pgid) == group):
            return True
        time.sleep(0.01)
    return False


@pytest.fixture(scope="module")
def rehearsal(tmp_path_factory):
    folder = tmp_path_factory.mktemp("peers")
    done = command(folder, "--plot", str(folder / "plot.png"))
    return done, folder, json.loads((folder / "out.json").read_text())


def test_every_prompt_runs_on_every_arm_in_turn(rehearsal):
    done, folder, record = rehearsal
    assert done.returncode == 0, done.stderr
    assert [one["id"] for one in record["units"]] == ["small/0#0", "small/1#0", "crowd 0#0"]
    first, second, crowd = record["units"]
    assert list(first["turns"]) == list(second["turns"])[::-1]
    assert set(first["turns"]) >= {figures.PLAIN, figures.EAGLE, figures.FORWARDS, figures.LLAMA, figures.LLAMA_Q8}
    assert set(crowd["turns"]) == {figures.PLAIN, figures.EAGLE}
    assert all(found.keys() >= ANSWER for label, found in first["turns"].items() if label != figures.FORWARDS)
    assert {found["tokens"] for label, found in first["turns"].items() if label != figures.FORWARDS} == {20}
    assert (folder / "plot.png").stat().st_size > 0


def test_an_engine_that_fails_is_left_out_with_the_reason(rehearsal):
    done, _, record = rehearsal
    assert "KeyError" in record["left_out"]["wingbeat int8"]
    assert "Left out: wingbeat int8: KeyError" in done.stdout


def test_a_run_goes_on_where_it_was_stopped_and_refuses_other_settings(rehearsal):
    _, folder, record = rehearsal
    lost, kept, crowd = record["units"]
    (folder / "out.json").write_text(json.dumps(record | {"units": [kept | {"mark": 1}, crowd]}))
    again = command(folder)
    now = {one["id"]: one for one in json.loads((folder / "out.json").read_text())["units"]}
    assert again.returncode == 0, again.stderr
    assert now[kept["id"]]["mark"] == 1
    assert now[lost["id"]]["turns"] == lost["turns"]
    refused = command(folder, "--tokens", "30")
    assert refused.returncode == 1
    assert "made with other tokens" in refused.stderr


def test_senseless_options_are_refused(tmp_path):
    assert command(tmp_path, "--limit", "0").returncode == 2
    shown = command(tmp_path, "--show")
    assert shown.returncode == 2
    assert "to show" in shown.stderr


def test_a_worker_off_turn_stands_still_and_is_ended_with_its_children(tmp_path):
    script = tmp_path / "busy.py"
    script.write_text(
        "import json, subprocess, sys\n"
        "subprocess.Popen([sys.executable, '-c', 'while True: pass'])\n"
        "print(json.dumps({'versions': {}}), flush=True)\n"
        "for line in sys.stdin: print(json.dumps({'got': json.loads(line)}), flush=True)\n"
    )
    worker = Worker([sys.executable, str(script)], {}, {}, tmp_path / "log")
    group = worker._process.pid
    assert worker.turn({"arm": "x"}) == {"got": {"arm": "x"}}
    assert reaches(group, {"T"})
    before = cpu_seconds(group)
    time.sleep(0.1)
    assert cpu_seconds(group) == before
    worker.close()
    assert reaches(group, {"Z"})  # ended, though perhaps not yet collected


def test_a_worker_that_does_not_start_says_why(tmp_path):
    with pytest.raises(PeerError, match="code 3; see"):
        Worker([sys.executable, "-c", "raise SystemExit(3)"], {}, {}, tmp_path / "log")


def test_ratios_are_taken_within_units_and_means_over_sets():
    units = [unit("a", plain=90, eagle=180, llama=100), unit("a", plain=110, eagle=110, llama=100),
             unit("a", plain=100, eagle=100, llama=100), unit("b", plain=100, eagle=300)]
    assert figures.ratios(units, figures.PLAIN, figures.LLAMA) == {"a": pytest.approx([0.9, 1.1, 1.0])}
    by_name = {line.name: line for line in figures.lines(units, 16)}
    plain, eagle = by_name["plain / llama.cpp bf16"], by_name["EAGLE-3 / plain"]
    assert (plain.value, plain.verdict) == (pytest.approx(1.0), "floor met")
    assert (eagle.value, eagle.verdict) == (pytest.approx((1 + 3) / 2), "floor met")
    assert by_name["int8 plain / llama.cpp Q8_0"].verdict == "not measured"


@pytest.mark.parametrize(("cost", "verdict"), [(1.0, "aim met"), (1.2, "floor met"), (1.4, "BELOW FLOOR")])
def test_a_cost_must_be_low(cost, verdict):
    assert figures.Line("2", "verify", {"a": [cost]}, 1.35, 1.10).verdict == verdict


def test_a_crowd_counts_its_prompts_too_and_a_single_prompt_only_what_follows_the_first_token():
    alone = turn(50.0)
    crowd = alone | {"decode_tokens": 0, "decode_seconds": 0.0, "starts": [[1], [2]]}
    assert figures.speed(alone) == 50
    assert figures.speed(crowd) == pytest.approx(101 / 3)
    assert figures.speed(crowd | {"starts": [[1]]}) is None


def test_bandwidth_and_time_outside_forwards():
    turns = {
        figures.PLAIN: turn(100.0, decode_bytes=20e9), figures.TIMED: turn(100.0, forward_seconds=0.95),
        figures.FORWARDS: {"read_gb_s": 25.0, "verify_ms": {"1": 10.0, "8": 12.0}, "draft_ms": {"4": 2.0}},
    }
    found = {line.name: line.value for line in figures.lines([{"id": "a", "set": "a", "turns": turns}], 16)}
    assert found["bandwidth in decode / read bandwidth"] == pytest.approx(0.8)
    assert found["verify of 8 / decode of 1"] == pytest.approx(1.2)
    assert found["draft step (of 4) / decode"] == pytest.approx(0.05)
    assert found["share outside model forwards"] == pytest.approx(0.05)


def test_the_best_of_several_settings_of_a_peer_is_compared():
    turns = {figures.EAGLE: turn(100.0), "vLLM EAGLE-3 of 2": turn(50.0), "vLLM EAGLE-3 of 3": turn(40.0)}
    found = {line.name: line.value for line in figures.lines([{"id": "a", "set": "a", "turns": turns}], 16)}
    assert found["EAGLE-3 / vLLM EAGLE-3 of 2"] == pytest.approx(2.0)


def test_tables_align_numbers():
    assert tables._table([("", "tok/s"), ("a", "9.0"), ("bb", "10.0")]) == "    tok/s\na     9.0\nbb   10.0"


def test_every_label_is_of_one_engine():
    labels = [label for engine in engines([2, 3]) for label in engine.arms]
    assert len(labels) == len(set(labels))
    assert all(rehearsed(engine).arms == engine.arms for engine in engines([2]))

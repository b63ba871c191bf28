"""`wingbeat bench` on the default model: the whole way from a prompt to the table."""

import json
import signal
import subprocess
import sys
import time

import pytest

from wingbeat.measure import record as records

BENCH = [sys.executable, "-c", "from wingbeat.cli.main import main; main()", "bench"]


def test_bench_measures_the_default_model(tmp_path):
    path = tmp_path / "good.jsonl"
    arguments = ["--limit", "1", "--max-tokens", "6", "--dtype", "float32", "--context", "512", "--launches", "2"]
    arguments += ["--name", "good", "--store", str(tmp_path), "--json"]
    done = subprocess.run([*BENCH, *arguments], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "All outputs are identical to plain decoding" in done.stdout
    document = json.loads(done.stdout.splitlines()[-1])
    plain = document["arms"][0]
    assert plain["arm"] == "plain"
    assert plain["tokens_per_cycle"] == 1
    assert plain["tokens_per_second"]["median"] > 0
    run = records.load(path)
    assert (run.name, run.requested["dtype"], run.finished) == ("good", "float32", True)
    assert len({launch.pid for launch in run.launches}) == 2
    assert [launch.rounds[1].order[0] for launch in run.launches] == ["plain", "eagle3"]
    launch = run.launches[0]
    assert all(launch.calibration[moment]["memory_read"] > 0 for moment in ("before", "after"))
    assert launch.effective["plain"]["draft"]["drafter"] == "none"
    assert launch.effective["ngram"]["limits"]["context"] == 512
    for fingerprint in (launch.fingerprint, launch.fingerprint_after):
        known = ("torch.threads", "boot_id", "model.weights", "head.weights")
        assert {name: fingerprint[name]["state"] for name in known} == dict.fromkeys(known, "value")
    assert [entry.warmup for entry in launch.rounds] == [True, False]
    assert all("extend" not in entry.arms["plain"].cycles.ms for entry in launch.rounds)
    for facts in (facts for entry in launch.rounds for facts in entry.arms.values()):
        assert sum(sum(row) for row in facts.cycles.committed) == facts.requests[0].new_tokens
        assert facts.requests[0].ttft_ms >= facts.prefill_ms
        assert facts.cycles.contexts[0] == [facts.requests[0].prompt_tokens - 1]
        parts = sum(sum(column) for name, column in facts.cycles.ms.items() if name != "cycle")
        assert parts == pytest.approx(sum(facts.cycles.ms["cycle"]), rel=1e-4)
        assert sum(facts.cycles.ms["cycle"]) + facts.prefill_ms <= 1000 * facts.seconds * 1.001


def test_what_a_launch_refuses_ends_the_bench_and_leaves_nothing(tmp_path):
    done = subprocess.run(
        [*BENCH, "--temperature", "-1", "--store", str(tmp_path)], capture_output=True, text=True, timeout=300
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.strip() == "wingbeat: temperature must be 0 or more, not -1.0"
    assert not list(tmp_path.iterdir())


def rounds_of(path):
    """Rounds of the first launch so far; a file that is being written may end in half a line."""
    run = records.load(path, partial=True) if path.exists() and path.stat().st_size else None
    return len(run.launches[0].rounds) if run and run.launches else 0


def test_ctrl_c_in_the_middle_leaves_the_finished_rounds(tmp_path):
    path = tmp_path / "run.jsonl"
    arguments = ["--arms", "plain,ngram", "--max-tokens", "8", "--context", "512", "--name", "run"]
    arguments += ["--store", str(tmp_path)]
    bench = subprocess.Popen([*BENCH, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 240
    while rounds_of(path) < 2:
        assert bench.poll() is None, bench.communicate()[1]
        assert time.monotonic() < deadline
        time.sleep(0.05)
    bench.send_signal(signal.SIGINT)
    _, errors = bench.communicate(timeout=120)
    assert bench.returncode == 130
    kept = records.load(path)
    assert not kept.launches[0].finished
    assert 2 <= len(kept.launches[0].rounds) < 25
    assert f"stopped after {len(kept.launches[0].rounds)} of 25 rounds; the record is {path}" in errors
    assert "Traceback" not in errors
    assert [file.name for file in tmp_path.iterdir()] == ["run.jsonl"]
    shown = subprocess.run([*BENCH[:-1], "runs", "show", str(path)], capture_output=True, text=True)
    assert "Not finished" in shown.stdout

"""`wingbeat bench` on the default model: the whole way from a prompt to the table."""

import json
import signal
import subprocess
import sys
import time

from wingbeat.measure import record as records

BENCH = [sys.executable, "-c", "from wingbeat.cli.main import main; main()", "bench"]


def test_bench_measures_the_default_model(tmp_path):
    path = tmp_path / "run.json"
    arguments = ["--limit", "2", "--max-tokens", "6", "--dtype", "float32", "--context", "512", "--out", path, "--json"]
    done = subprocess.run([*BENCH, *map(str, arguments)], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "All outputs are identical to plain decoding" in done.stdout
    document = json.loads(done.stdout.splitlines()[-1])
    plain = document["arms"][0]
    assert plain["arm"] == "plain"
    assert plain["tokens_per_cycle"] == 1
    assert plain["tokens_per_second"]["median"] > 0
    run = records.load(path)
    assert run.requested["dtype"] == "float32"
    launch = run.launches[0]
    assert launch.finished
    assert launch.effective["plain"]["draft"]["drafter"] == "none"
    assert launch.effective["ngram:4"]["limits"]["context"] == 512
    assert launch.fingerprint["torch.threads"]["state"] == "value"
    assert [entry.warmup for entry in launch.rounds] == [True, False, False]
    for facts in (facts for entry in launch.rounds for facts in entry.arms.values()):
        assert sum(sum(row) for row in facts.cycles.committed) == facts.requests[0].new_tokens
        assert facts.cycles.contexts[0] == [facts.requests[0].prompt_tokens - 1]
        parts = sum(sum(facts.cycles.ms[name]) for name in ("draft", "verify", "accept", "commit"))
        assert parts <= sum(facts.cycles.ms["cycle"]) * 1.001
        assert sum(facts.cycles.ms["cycle"]) + facts.prefill_ms <= 1000 * facts.seconds * 1.001


def test_ctrl_c_in_the_middle_leaves_the_finished_rounds(tmp_path):
    path = tmp_path / "run.json"
    arguments = ["--arms", "plain,ngram", "--max-tokens", "8", "--context", "512", "--out", str(path)]
    bench = subprocess.Popen([*BENCH, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 240
    while not (path.exists() and len(records.load(path).launches[0].rounds) >= 2):
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
    assert [file.name for file in tmp_path.iterdir()] == ["run.json"]
    shown = subprocess.run([*BENCH[:-1], "runs", "show", str(path)], capture_output=True, text=True)
    assert "Not finished" in shown.stdout

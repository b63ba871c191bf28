"""Launches as processes of their own: what is in the record however they end."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from fake_launch import ARMS

from wingbeat.errors import InterruptedRunError
from wingbeat.measure import launches
from wingbeat.measure import record as records
from wingbeat.measure.runner import Plan
from wingbeat.measure.workload import bundled

SCRIPT = Path(__file__).with_name("fake_launch.py")


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "run.jsonl"
    records.save(Plan(bundled().take(2), tuple(ARMS)).record("bench", {"launches": 3}), path)
    return path


def command(path, *ending):
    return [sys.executable, str(SCRIPT), str(path), *ending]


def test_every_launch_is_another_process(path):
    assert launches.run(command(path), 3, path) == 0
    run = records.load(path)
    assert run.finished
    assert len({launch.pid for launch in run.launches}) == 3
    assert [launch.rounds[1].order for launch in run.launches] == [[*ARMS], [*ARMS][::-1], [*ARMS]]


def test_a_launch_that_fails_ends_the_run_with_its_code(path):
    assert launches.run(command(path, "2", "fail"), 3, path) == 3
    run = records.load(path)
    assert [launch.finished for launch in run.launches] == [True, False]
    assert not run.finished


def test_a_launch_that_is_killed_leaves_the_others_and_its_own_rounds(path):
    with pytest.raises(InterruptedRunError, match=r"launch 2 of 3 was killed \(SIGKILL\); what was finished is in"):
        launches.run(command(path, "2", "die"), 3, path)
    assert [(launch.finished, len(launch.rounds)) for launch in records.load(path).launches] == [(True, 3), (False, 2)]


def test_ctrl_c_reaches_the_launch_and_is_waited_for(path):
    start = f"launches.run({command(path, '2', 'hang')}, 3, None)"
    code = f"import sys; from wingbeat.measure import launches; sys.exit({start})"
    parent = subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE)
    waiting = Path(f"{path}.waiting")
    deadline = time.monotonic() + 120
    while not waiting.exists():
        assert parent.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.02)
    parent.send_signal(signal.SIGINT)
    assert parent.wait(60) == 130, parent.stderr.read()
    assert [(launch.finished, len(launch.rounds)) for launch in records.load(path).launches] == [(True, 3), (False, 2)]

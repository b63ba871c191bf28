"""benchmarks/gpu.py: says when there is no GPU, and its stages run."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "gpu.py"


def run(*arguments: str) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, str(SCRIPT), *arguments], capture_output=True, text=True, check=False)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_it_says_so():
    done = run()
    assert (done.returncode, done.stderr) == (0, "")
    assert "no CUDA GPU" in done.stdout


def test_every_stage_runs():
    done = run("--rehearse")
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert not found["failed"]
    figures = found["figures"]
    assert set(figures["float32"]["identical"].values()) == {figures["float32"]["prompts"]}
    assert set(figures["rehearsal: forwards"]["captured"]) == {"1", "2", "4", "8", "16", "32"}
    assert all(len(cell["first_differences"]) == 0 for cell in figures["rehearsal: lossless"].values())
    arms = figures["rehearsal: cycles"]
    accepted, refused = (arms[name]["cycles"] for name in ("tree, accepted", "chain of 4, refused"))
    assert accepted < refused


def test_a_stage_that_fails_is_told_and_the_others_go_on(tmp_path):
    done = run("--rehearse", "--minutes", "0")
    assert done.returncode == 1
    found = json.loads(done.stdout.splitlines()[-1])
    assert "0 minutes were over" in found["failed"]["machine"]
    assert "FAILED float32: not begun" in done.stdout

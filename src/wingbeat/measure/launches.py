"""Starting launches: each a process of its own, which adds itself to the record's file."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

from wingbeat.errors import InterruptedRunError


def run(command: Sequence[str], count: int, path: Path) -> int:
    """Runs `command` `count` times, one after another, until one fails; returns the last exit code.

    Each writes its launch to the record `path`, its progress and errors to the terminal. Ctrl-C is handed on to it, and
    it is waited for. Raises InterruptedRunError where one is killed.
    """
    for number in range(1, count + 1):
        code = _run_one(command)
        if code < 0:
            name = signal.Signals(-code).name
            raise InterruptedRunError(f"launch {number} of {count} was killed ({name}); what was finished is in {path}")
        if code:
            return code
    return 0


def _run_one(command: Sequence[str]) -> int:
    """In a process group of its own, so that Ctrl-C comes from here, and once."""
    process = subprocess.Popen(command, process_group=0)
    try:
        return process.wait()
    except KeyboardInterrupt:
        process.send_signal(signal.SIGINT)
        return process.wait()
    finally:
        if process.poll() is None:
            process.kill()

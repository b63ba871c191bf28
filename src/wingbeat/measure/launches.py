"""Starting launches: each a process of its own, which adds itself to the record's file."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from wingbeat.errors import InterruptedRunError
from wingbeat.measure import record


@dataclass(frozen=True)
class Job:
    """A run whose launches are to come. path: its record, which is there; command: what starts a launch, less the path.

    environment: all variables of the process; cores: those that it may use. None: as this process has them.
    """

    path: Path
    command: Sequence[str]
    environment: Mapping[str, str] | None = None
    cores: frozenset[int] | None = None

    def launch(self) -> int:
        """Runs one launch; its exit code. As `run`."""
        return run([*self.command, str(self.path)], 1, self.path, self.environment, self.cores)


def by_turns(jobs: Sequence[Job], count: int) -> Iterator[Job]:
    """The jobs in the order in which to launch them, A B B A A B ..., each until `count` of its launches are finished.

    What was finished before counts; what an interrupted launch left is taken out of the record.
    """
    for number in range(count):
        yield from (job for job in jobs[:: 1 if number % 2 == 0 else -1] if _finished(job.path) <= number)


def _finished(path: Path) -> int:
    found = record.load(path, partial=True)
    whole = [launch for launch in found.launches if launch.finished]
    if len(whole) < len(found.launches) or found.damage:
        found.launches = whole
        record.save(found, path)
    return len(whole)


def run(
    command: Sequence[str],
    count: int,
    path: Path,
    environment: Mapping[str, str] | None = None,
    cores: frozenset[int] | None = None,
) -> int:
    """Runs `command` `count` times, one after another, until one fails; returns the last exit code.

    Each writes its launch to the record `path`, its progress and errors to the terminal. Ctrl-C is handed on to it, and
    it is waited for. environment, cores: as in `Job`. Raises InterruptedRunError where one is killed.
    """
    for number in range(1, count + 1):
        code = _run_one(command, environment, cores)
        if code < 0:
            name = signal.Signals(-code).name
            raise InterruptedRunError(f"launch {number} of {count} was killed ({name}); what was finished is in {path}")
        if code:
            return code
    return 0


def _run_one(command: Sequence[str], environment: Mapping[str, str] | None, cores: frozenset[int] | None) -> int:
    """In a process group of its own, so that Ctrl-C comes from here, and once."""
    limit = (lambda: os.sched_setaffinity(0, cores)) if cores else None
    process = subprocess.Popen(command, process_group=0, env=environment, preexec_fn=limit)
    try:
        return process.wait()
    except KeyboardInterrupt:
        process.send_signal(signal.SIGINT)
        return process.wait()
    finally:
        if process.poll() is None:
            process.kill()

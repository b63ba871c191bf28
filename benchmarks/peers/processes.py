"""Workers: processes that stand still (stopped, all of their children too) except while it is their turn."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

START_TIMEOUT, TURN_TIMEOUT = 1800, 900  # seconds
TICKS = os.sysconf("SC_CLK_TCK")


class PeerError(Exception):
    """An engine cannot be set up, started or run; the message is the reason that is reported."""


def cpu_seconds(group: int) -> float:
    """Processor time that the living processes of a process group have used."""
    ticks = 0
    for file in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = file.read_text().rpartition(")")[2].split()
        except OSError:  # it has just ended
            continue
        if int(fields[2]) == group:
            ticks += int(fields[11]) + int(fields[12])
    return ticks / TICKS


class Worker:
    """One engine in a process of its own. `idle_seconds` and `idle_cpu` add up over the times off turn.

    Raises PeerError where it does not start; what it printed is in `log`.
    """

    def __init__(
        self, command: Sequence[str], configuration: Mapping[str, Any], more: Mapping[str, str], log: Path
    ) -> None:
        self.log = log
        self.idle_seconds = self.idle_cpu = 0.0
        self._process = subprocess.Popen(
            [*command, json.dumps(configuration)], env=os.environ | dict(more), stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=log.open("w"), text=True, start_new_session=True,
        )
        try:
            self.versions: dict[str, str] = self._answer(START_TIMEOUT)["versions"]
        except BaseException:
            self.close()
            raise
        self._stop()

    def turn(self, job: Mapping[str, Any]) -> dict[str, Any]:
        """Runs a job while every other worker stands still. Raises PeerError."""
        self.idle_seconds += time.monotonic() - self._stopped_at
        self.idle_cpu += cpu_seconds(self._process.pid) - self._cpu_at_stop
        self._signal(signal.SIGCONT)
        try:
            assert self._process.stdin is not None
            self._process.stdin.write(json.dumps(job) + "\n")
            self._process.stdin.flush()
            return self._answer(TURN_TIMEOUT)
        except BrokenPipeError as error:
            raise PeerError(f"it has ended; see {self.log}") from error
        finally:
            self._stop()

    def close(self) -> None:
        """Ends the process and its children."""
        self._signal(signal.SIGKILL)  # ends stopped processes too, and there is nothing to be saved
        self._process.wait()

    def _signal(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, number)

    def _stop(self) -> None:
        self._signal(signal.SIGSTOP)
        self._stopped_at, self._cpu_at_stop = time.monotonic(), cpu_seconds(self._process.pid)

    def _answer(self, timeout: float) -> dict[str, Any]:
        ready, _, _ = select.select([self._process.stdout], [], [], timeout)
        if not ready:
            raise PeerError(f"no answer within {timeout} s; see {self.log}")
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise PeerError(f"it has ended with code {self._process.wait()}; see {self.log}")
        found: dict[str, Any] = json.loads(line)
        if "error" in found:
            raise PeerError(f"{found['error']} (see {self.log})")
        return found

"""What every worker does: load an engine once, then answer one job a line, without a word on its standard output.

A job is {"arm", "prompts": [token ids], "lengths": [new tokens]}. The answer holds
    seconds         of the whole of it, prompts included
    tokens          made, all prompts together
    decode_seconds  from when the first tokens were there to the end, and
    decode_tokens   those that came in that time (one prompt; 0 for several, whose phases overlap)
    starts          the first tokens of every output
and what else an engine can say. An arm is first run for a few tokens that do not count.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
import traceback
from collections.abc import Callable, Sequence
from typing import Any

START = 8  # tokens of an output that are kept
WARM_PROMPT, WARM_TOKENS = 16, 4
SET_PARENT_DEATH_SIGNAL = 1
Work = Callable[[dict[str, Any]], dict[str, Any]]


def answer(seconds: float, decode_seconds: float, first: int, outputs: Sequence[Sequence[int]]) -> dict[str, Any]:
    """The answer's fields. first: tokens that were there when decode_seconds began."""
    count = sum(map(len, outputs))
    alone = len(outputs) == 1
    return {
        "seconds": seconds, "tokens": count, "decode_seconds": decode_seconds if alone else 0.0,
        "decode_tokens": count - first if alone else 0, "starts": [list(output[:START]) for output in outputs],
    }


def serve(start: Callable[[dict[str, Any]], tuple[dict[str, str], Work]]) -> None:
    """start(configuration) gives versions and the function that does a job; both may raise, which is told."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # engines print what they like; it goes to the log
    ctypes.CDLL(None).prctl(SET_PARENT_DEATH_SIGNAL, signal.SIGKILL)

    def tell(call: Callable[[], dict[str, Any]]) -> bool:
        try:
            found = call()
        except Exception as error:
            traceback.print_exc()
            found = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(found), file=answers)
        return "error" not in found

    work: Work = dict

    def begin() -> dict[str, Any]:
        nonlocal work
        versions, work = start(json.loads(sys.argv[1]))
        return {"versions": versions}

    if tell(begin):
        for line in sys.stdin:
            job = json.loads(line)
            tell(lambda job=job: _warmed(work, job))


def _warmed(work: Work, job: dict[str, Any]) -> dict[str, Any]:
    if job.get("prompts"):
        short = [prompt[:WARM_PROMPT] for prompt in job["prompts"]]
        work(job | {"prompts": short, "lengths": [WARM_TOKENS] * len(short)})
    return work(job)

"""A worker that runs no model: its times follow from a script, so that a rehearsal needs nothing and takes no time.

Configuration: ms (a token, by arm; an arm that is not in it fails), prompt_ms, first (tokens at once, to begin with).
"""

from __future__ import annotations

from typing import Any

from serving_loop import Work, answer, serve

BYTES = 270_000_000  # a token


def start(given: dict[str, Any]) -> tuple[dict[str, str], Work]:
    """Nothing is loaded."""

    def work(job: dict[str, Any]) -> dict[str, Any]:
        arm = job["arm"]
        if arm == "forwards":
            return {"verify_ms": {1: 10.0, 8: 12.0}, "draft_ms": {4: 3.2}, "read_gb_s": 33.0}
        outputs = [[sum(prompt) % 251 + place for place in range(n)] for prompt, n in _pairs(job)]
        decode = given["ms"][arm] * (sum(map(len, outputs)) - 1) / 1000
        found = answer(decode + given["prompt_ms"] / 1000, decode, 1, outputs)
        found["cycles"] = found["decode_tokens"] // 2
        return found | {"forward_seconds": 0.95 * decode, "decode_bytes": BYTES * found["decode_tokens"]}

    return {"script": "1"}, work


def _pairs(job: dict[str, Any]) -> list[tuple[list[int], int]]:
    return list(zip(job["prompts"], job["lengths"], strict=True))


if __name__ == "__main__":
    serve(start)

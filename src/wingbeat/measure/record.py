"""The record of a run: what was asked for, what was done, and what every request and cycle cost.

    RunRecord ── launches ── rounds ── arms ── requests, cycles

A launch is one fresh process, a round one prompt on every arm, an arm one side of the comparison. The file is JSON,
versioned, written whole after every finished round, and readable without torch.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from wingbeat.errors import CorruptError, NotFoundError, StorageError, UnsupportedError

SCHEMA = 1
PLAIN = "plain"  # the name of the arm that drafts nothing; the others are compared with it


@dataclass
class CycleColumns:
    """One entry a cycle in every list; the lists of lists hold one entry for each request of the batch.

    ms: milliseconds by phase, "cycle" being the whole (0.0: the phase did not happen in this cycle); contexts: tokens
    in the cache; accepted: drafted tokens that were accepted, the target's own token not counted; committed: tokens
    added to the output; width: tokens verified for each request; path: how the forward ran.
    """

    ms: dict[str, list[float]] = field(default_factory=dict)
    contexts: list[list[int]] = field(default_factory=list)
    drafted: list[list[int]] = field(default_factory=list)
    accepted: list[list[int]] = field(default_factory=list)
    committed: list[list[int]] = field(default_factory=list)
    width: list[int] = field(default_factory=list)
    path: list[str] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.width)


@dataclass
class RequestFacts:
    """One finished request. tokens: the output's token ids; finish: "stop", "length" or "abort"."""

    prompt_tokens: int
    new_tokens: int
    finish: str
    output_hash: str
    tokens: list[int]

    @classmethod
    def of(cls, prompt_tokens: int, tokens: Sequence[int], finish: str) -> RequestFacts:
        """The facts of an output, with its hash."""
        return cls(prompt_tokens, len(tokens), finish, output_hash(tokens), list(tokens))


@dataclass
class ArmFacts:
    """What one arm did with the prompts of one round.

    seconds: from handing in the prompts to the last output; prefill_ms: the part of it before the first cycle.
    """

    seconds: float
    prefill_ms: float
    requests: list[RequestFacts]
    cycles: CycleColumns


@dataclass
class Difference:
    """Where an output first leaves the plain arm's.

    position: index of the output token; gap: how far apart the target's logits of the two tokens are there (None: not
    measured, as where outputs are sampled).
    """

    position: int
    gap: float | None


@dataclass
class Round:
    """One prompt, run on every arm in `order`. A warm-up round is kept, and left out of every figure.

    differences: for each arm beside the plain one, an entry for every output that is another than the plain arm's.
    """

    prompt: str
    category: str
    repeat: int
    warmup: bool
    order: list[str]
    arms: dict[str, ArmFacts]
    differences: dict[str, list[Difference]]


@dataclass
class Launch:
    """One process. effective: what each arm really ran with; finished: whether all its rounds are there."""

    started: str
    pid: int
    fingerprint: dict[str, Any]
    effective: dict[str, Any]
    rounds: list[Round] = field(default_factory=list)
    finished: bool = False


@dataclass
class RunRecord:
    """A run. requested: the settings as they were given; workload: name, sha256 and number of prompts."""

    kind: str
    created: str
    requested: dict[str, Any]
    workload: dict[str, Any]
    arms: list[str]
    launches: list[Launch] = field(default_factory=list)
    schema: int = SCHEMA

    def measured(self) -> list[Round]:
        """The rounds that count: all launches', without warm-up."""
        return [entry for launch in self.launches for entry in launch.rounds if not entry.warmup]


def output_hash(tokens: Sequence[int]) -> str:
    """The first 16 hexadecimal digits of the SHA-256 of the token ids."""
    return hashlib.sha256(",".join(map(str, tokens)).encode()).hexdigest()[:16]


def save(record: RunRecord, path: Path) -> None:
    """Writes the record to `path`, all or nothing.

    Raises StorageError (disk full, no permission, a missing folder's parent is a file); the old file is then untouched.
    """
    text = json.dumps(dataclasses.asdict(record), separators=(",", ":"))
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with draft.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    except OSError as error:
        raise StorageError(f"cannot save the record to {path}: {error.strerror}; choose another place") from error
    finally:
        with contextlib.suppress(OSError):
            draft.unlink()  # there is one only when something failed


def load(path: Path) -> RunRecord:
    """Reads a record of this or an older schema.

    Raises NotFoundError (no such file), CorruptError (not a record, or a damaged one) and UnsupportedError (written
    by a newer wingbeat).
    """
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise NotFoundError(f"cannot read the record {path}: {error.strerror}") from error
    except ValueError as error:
        raise CorruptError(f"{path} is not a record, or is cut short: {error}") from error
    schema = document.get("schema") if isinstance(document, dict) else None
    if not isinstance(schema, int):
        raise CorruptError(f"{path} is JSON but not a record: it has no schema number")
    if schema > SCHEMA:
        raise UnsupportedError(f"{path} has schema {schema}, this wingbeat reads up to {SCHEMA}; install a newer one")
    try:
        return _run(document)
    except (KeyError, TypeError, AttributeError) as error:
        raise CorruptError(f"{path} is damaged: {type(error).__name__}: {error}") from error


def _run(document: dict[str, Any]) -> RunRecord:
    return RunRecord(**{**document, "launches": [_launch(launch) for launch in document["launches"]]})


def _launch(launch: dict[str, Any]) -> Launch:
    return Launch(**{**launch, "rounds": [_round(entry) for entry in launch["rounds"]]})


def _round(entry: dict[str, Any]) -> Round:
    arms = {name: _arm(facts) for name, facts in entry["arms"].items()}
    differences = {name: [Difference(**one) for one in found] for name, found in entry["differences"].items()}
    return Round(**{**entry, "arms": arms, "differences": differences})


def _arm(facts: dict[str, Any]) -> ArmFacts:
    requests = [RequestFacts(**request) for request in facts["requests"]]
    return ArmFacts(facts["seconds"], facts["prefill_ms"], requests, CycleColumns(**facts["cycles"]))

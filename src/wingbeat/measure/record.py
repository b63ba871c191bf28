"""The record of a run: what was asked for, what was done, and what every request and cycle cost.

    RunRecord ── launches ── rounds ── arms ── requests, cycles
                     └────── figures, samples        where only these are known: noted or imported runs

A launch is one fresh process, a round one prompt on every arm, an arm one side of the comparison.

The file is JSON lines, each with a checksum (see `lines`): "run" first; then, for every launch, "launch", its "round"s
and "done". Lines are appended as things happen, so that a run that is killed loses the round it was in and no more.
It reads without torch and without numpy. Files of older schemas are read through `older`.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from wingbeat.errors import CorruptError, NotFoundError, UnsupportedError
from wingbeat.measure import columns, lines, older
from wingbeat.measure.columns import CycleColumns

SCHEMA = 2
PLAIN = "plain"  # the name of the arm that drafts nothing; the others are compared with it
# Names of figures and of columns of samples, with their units. Acceptance by position (unconditional): acceptance_1 ...
UNITS = {
    "tokens_per_second": "1/s", "tokens_per_cycle": "1", "cycle_ms": "ms", "draft_ms": "ms", "verify_ms": "ms",
    "accept_ms": "ms", "commit_ms": "ms", "extend_ms": "ms", "host_ms": "ms", "ttft_ms": "ms", "tpot_ms": "ms",
    "draft_steps": "1", "acceptance": "1", "context": "1", "running": "1", "time_s": "s",
}  # fmt: skip


@dataclass
class RequestFacts:
    """One finished request. tokens: the output's token ids; finish: "stop", "length" or "abort".

    ttft_ms: from handing the prompt in to the end of the cycle with the first token (None: not known).
    """

    prompt_tokens: int
    new_tokens: int
    finish: str
    output_hash: str
    tokens: list[int]
    ttft_ms: float | None = None

    @classmethod
    def of(cls, prompt_tokens: int, tokens: Sequence[int], finish: str, ttft_ms: float | None = None) -> RequestFacts:
        """The facts of an output, with its hash."""
        return cls(prompt_tokens, len(tokens), finish, output_hash(tokens), list(tokens), ttft_ms)


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
class Figure:
    """A single figure of an arm, as somebody noted it or a tool printed it.

    low, high: the range it was seen in; count: of how many values it is the average. None: not known.
    """

    value: float
    low: float | None = None
    high: float | None = None
    count: int | None = None
    unit: str = ""


@dataclass
class Launch:
    """One process, as far as it is known: what is not known is absent.

    fingerprint, fingerprint_after: at its start and at its end (see `probe`). effective: what each arm really ran with.
    finished: whether all its rounds are there. calibration: figures of the machine "before" and "after" (see
    `calibrate`). figures: by arm and name (see UNITS), where a run was noted or imported. samples: by arm and name,
    values over time, all columns of an arm equally long (None: a missing value).
    """

    started: str = ""
    pid: int | None = None
    fingerprint: dict[str, Any] = field(default_factory=dict)
    effective: dict[str, Any] = field(default_factory=dict)
    rounds: list[Round] = field(default_factory=list)
    finished: bool = False
    fingerprint_after: dict[str, Any] = field(default_factory=dict)
    calibration: dict[str, dict[str, float]] = field(default_factory=dict)
    figures: dict[str, dict[str, Figure]] = field(default_factory=dict)
    samples: dict[str, dict[str, list[float | None]]] = field(default_factory=dict)


@dataclass
class RunRecord:
    """A run. requested: the settings as they were given.

    workload: as far as known, name, sha256 and number of prompts, concurrency (how many run at once), sampling (a
    dict). source: "wingbeat" (measured here), "noted" (typed in) or an importer's name. damage: what is wrong with
    the file, where only the part before the damage was read; it is not saved.
    """

    kind: str
    created: str
    requested: dict[str, Any]
    workload: dict[str, Any]
    arms: list[str]
    launches: list[Launch] = field(default_factory=list)
    schema: int = SCHEMA
    name: str = ""
    source: str = "wingbeat"
    damage: str = ""

    def measured(self) -> list[Round]:
        """The rounds that count: all launches', without warm-up."""
        return [entry for launch in self.launches for entry in launch.rounds if not entry.warmup]

    @property
    def finished(self) -> bool:
        """Whether all launches that were asked for are there, each with all its rounds."""
        return all(launch.finished for launch in self.launches) and len(self.launches) >= self.asked_launches

    @property
    def asked_launches(self) -> int:
        return int(self.requested.get("launches", 1))


def output_hash(tokens: Sequence[int]) -> str:
    """The first 16 hexadecimal digits of the SHA-256 of the token ids."""
    return hashlib.sha256(",".join(map(str, tokens)).encode()).hexdigest()[:16]


def save(record: RunRecord, path: Path) -> None:
    """Writes the whole record to `path`, all or nothing.

    Raises StorageError (disk full, no permission, a missing folder's parent is a file); the old file is then untouched.
    """
    lines.write_whole(path, _lines(record))


class Journal:
    """Appends a launch to the record's file as it happens. Nothing is written before the first round.

    Where there is no file yet, the first round brings the rest of the record with it. Raises StorageError as `save`.
    """

    def __init__(self, record: RunRecord, launch: Launch, path: Path) -> None:
        self.launch, self.path = launch, path
        self._pending = b"" if path.exists() else b"".join(_lines(record))
        self._pending += _launch_line(launch)

    def add(self, entry: Round) -> None:
        """Writes a round that has ended."""
        self._append(_round_line(entry))

    def end(self) -> None:
        """Writes what is known at the end of the launch."""
        self._append(_done_line(self.launch))

    def _append(self, line: bytes) -> None:
        lines.append(self.path, self._pending + line)
        self._pending = b""


def load(path: Path, partial: bool = False) -> RunRecord:
    """Reads a record of this or an older schema.

    partial: of a damaged file, return what stands before the damage, which `damage` then names. Raises NotFoundError
    (no such file), CorruptError (not a record, or a damaged one; the message says in which launch) and
    UnsupportedError (written by a newer wingbeat).
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise NotFoundError(f"cannot read the record {path}: {error.strerror}") from error
    if not content.startswith(lines.START):
        return _load_older(content, path)
    reader = _Reader()
    try:
        with lines.collector_paused():
            for line in content.splitlines(keepends=True):
                reader.read(line)
    except _DAMAGE as error:
        damage = f"{path} is damaged in {reader.place()}: {_reason(error)}"
        if not partial or reader.record is None:
            raise CorruptError(f"{damage}; `wingbeat runs show` reads what stands before it") from error
        reader.record.damage = damage
    except UnsupportedError as error:
        raise UnsupportedError(f"{path} {error}") from error
    assert reader.record is not None, "the first line makes the record or is an error"
    return reader.record


_DAMAGE = (KeyError, IndexError, TypeError, AttributeError, ValueError, zlib.error)


def _reason(error: Exception) -> str:
    return str(error) if type(error) is ValueError else f"{type(error).__name__}: {error}"


class _Reader:
    """Builds a record from its lines."""

    def __init__(self) -> None:
        self.record: RunRecord | None = None
        self._in_launch = False

    def place(self) -> str:
        """Where in the record the next line belongs."""
        if self.record is None:
            return "its first line"
        launches = self.record.launches
        if not self._in_launch:
            return f"launch {len(launches) + 1}, at its start"
        done = len(launches[-1].rounds)
        return f"launch {len(launches)}, after {done} round{'s' * (done != 1)}"

    def read(self, line: bytes) -> None:
        """Takes the next line in."""
        kind, body = lines.read(line)
        if kind == "run" and self.record is None:
            _check_schema(body["schema"])
            self.record = RunRecord(**body)
            return
        if self.record is None:
            raise ValueError(f"it begins with {kind!r}, not with 'run'")
        launches = self.record.launches
        if kind == "launch":
            launches.append(_launch(body))
        elif kind == "round":
            launches[-1].rounds.append(_round(body))
        elif kind == "done":
            launches[-1] = dataclasses.replace(launches[-1], **body)
        else:
            raise ValueError(f"a line {kind!r} has no place there")
        self._in_launch = kind != "done"


def _check_schema(schema: int) -> None:
    if schema > SCHEMA:
        raise UnsupportedError(f"has schema {schema}, this wingbeat reads up to {SCHEMA}; install a newer one")


def _load_older(content: bytes, path: Path) -> RunRecord:
    """A file of schema 1: one JSON document."""
    try:
        document = json.loads(content)
    except ValueError as error:
        raise CorruptError(f"{path} is not a record, or is cut short: {error}") from error
    schema = document.get("schema") if isinstance(document, dict) else None
    if not isinstance(schema, int):
        raise CorruptError(f"{path} is JSON but not a record: it has no schema number")
    try:
        _check_schema(schema)
        document = older.from_1(document, path.stem)
        launches = [_launch(launch) for launch in document["launches"]]
        return RunRecord(**{**document, "launches": launches})
    except UnsupportedError as error:
        raise UnsupportedError(f"{path} {error}") from error
    except _DAMAGE as error:
        raise CorruptError(f"{path} is damaged: {_reason(error)}") from error


def _lines(record: RunRecord) -> Iterator[bytes]:
    own = {name: value for name, value in vars(record).items() if name not in ("launches", "damage")}
    yield lines.write("run", {**own, "schema": SCHEMA})
    for launch in record.launches:
        yield _launch_line(launch)
        yield from map(_round_line, launch.rounds)
        yield _done_line(launch)


_AT_THE_END = ("finished", "fingerprint_after", "calibration")


def _launch_line(launch: Launch) -> bytes:
    own = {name: value for name, value in vars(launch).items() if name not in ("rounds", *_AT_THE_END)}
    before = {moment: found for moment, found in launch.calibration.items() if moment == "before"}
    figures = {arm: {name: vars(one) for name, one in named.items()} for arm, named in launch.figures.items()}
    return lines.write("launch", {**own, "calibration": before, "figures": figures})


def _done_line(launch: Launch) -> bytes:
    return lines.write("done", {name: getattr(launch, name) for name in _AT_THE_END})


def _round_line(entry: Round) -> bytes:
    arms = {
        arm: {
            **vars(facts),
            "requests": [vars(request) for request in facts.requests],
            "cycles": columns.pack(facts.cycles),
        }
        for arm, facts in entry.arms.items()
    }
    differences = {arm: [vars(one) for one in found] for arm, found in entry.differences.items()}
    return lines.write("round", {**vars(entry), "arms": arms, "differences": differences})


def _launch(body: dict[str, Any]) -> Launch:
    noted = body.get("figures", {})
    figures = {arm: {name: Figure(**one) for name, one in named.items()} for arm, named in noted.items()}
    rounds = [_round(entry) for entry in body.get("rounds", ())]
    return Launch(**{**body, "figures": figures, "rounds": rounds})


def _round(entry: dict[str, Any]) -> Round:
    arms = {name: _arm(facts) for name, facts in entry["arms"].items()}
    differences = {name: [Difference(**one) for one in found] for name, found in entry["differences"].items()}
    return Round(**{**entry, "arms": arms, "differences": differences})


def _arm(facts: dict[str, Any]) -> ArmFacts:
    requests = [RequestFacts(**request) for request in facts["requests"]]
    return ArmFacts(facts["seconds"], facts["prefill_ms"], requests, columns.unpack(facts["cycles"]))

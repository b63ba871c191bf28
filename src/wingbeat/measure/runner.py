"""Running the arms of a comparison so that drift hits all of them alike, and saving as it goes."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from wingbeat.errors import InterruptedRunError, UsageError, WingbeatError
from wingbeat.measure.record import PLAIN, ArmFacts, Difference, Journal, Launch, Round, RunRecord
from wingbeat.measure.subjects import Subject
from wingbeat.measure.workload import Prompt, Workload

SAMPLING = ("temperature", "seed", "max_tokens")  # the settings that a workload's sampling is made of


@dataclass(frozen=True)
class Plan:
    """rounds: how often each prompt meets every arm; warmup: rounds on the first prompt that do not count; launch: how
    many launches came before, as every second one begins with the arms backwards."""

    workload: Workload
    arms: tuple[str, ...]
    rounds: int = 1
    warmup: int = 1
    launch: int = 0

    def __post_init__(self) -> None:
        if not self.arms or len(set(self.arms)) != len(self.arms):
            raise UsageError(f"name each arm once, and at least one: got {', '.join(self.arms) or 'none'}")
        if self.rounds < 1 or self.warmup < 0:
            raise UsageError(f"a run needs 1 round or more (got {self.rounds}), warm-up 0 or more (got {self.warmup})")

    def __len__(self) -> int:
        """The number of rounds, warm-up included."""
        return self.warmup + self.rounds * len(self.workload.prompts)

    def turns(self) -> Iterator[Turn]:
        """The rounds in order. The arms run forwards and backwards in turn: A B B A A B B A ..."""
        for repeat in range(self.warmup):
            yield Turn(self.workload.prompts[0], repeat, True, self.arms)
        count = self.launch
        for prompt in self.workload.prompts:
            for repeat in range(self.rounds):
                yield Turn(prompt, repeat, False, self.arms if count % 2 == 0 else self.arms[::-1])
                count += 1

    def record(self, kind: str, requested: dict[str, Any]) -> RunRecord:
        """The empty record of a run by this plan; the prompts run one at a time."""
        workload = {
            "name": self.workload.name,
            "sha256": self.workload.digest,
            "prompts": len(self.workload.prompts),
            "concurrency": 1,
            "sampling": {name: requested[name] for name in SAMPLING if name in requested},
        }
        requested = {**requested, "rounds": self.rounds, "warmup": self.warmup}
        return RunRecord(kind, now(), requested, workload, list(self.arms))


@dataclass(frozen=True)
class Turn:
    """One round to come: a prompt and the order of the arms on it."""

    prompt: Prompt
    repeat: int
    warmup: bool
    order: tuple[str, ...]


def measure(
    record: RunRecord, subject: Subject, plan: Plan, path: Path, progress: Callable[[Turn], None] = lambda turn: None
) -> None:
    """Adds one launch (this process) to `record`, and to its file `path` as it happens, round by round.

    progress: called when a round has been saved. Raises InterruptedRunError on Ctrl-C; the finished rounds are then in
    the record and in the file. Raises StorageError where the file cannot be written.
    """
    launch = Launch(
        started=now(),
        pid=os.getpid(),
        fingerprint=subject.fingerprint(),
        effective={arm: subject.effective(arm) for arm in plan.arms},
        calibration={"before": subject.calibrate()},
    )
    journal = Journal(record, launch, path)
    record.launches.append(launch)
    try:
        for turn in plan.turns():
            entry = _round(subject, turn)
            journal.add(entry)
            launch.rounds.append(entry)
            progress(turn)
        launch.calibration["after"] = subject.calibrate()
        launch.fingerprint_after = subject.fingerprint()
        launch.finished = True
        journal.end()
    except KeyboardInterrupt as stop:
        done = len(launch.rounds)
        kept = f"the record is {path}" if done else "nothing to save yet"
        raise InterruptedRunError(f"stopped after {done} of {len(plan)} rounds; {kept}") from stop
    except WingbeatError as error:
        if launch.rounds:
            error.add_note(f"the {len(launch.rounds)} rounds before it are in {path}")
        raise


def _round(subject: Subject, turn: Turn) -> Round:
    prompt, order = turn.prompt, list(turn.order)
    arms = {arm: subject.run(arm, [prompt.text]) for arm in order}
    others = [arm for arm in order if arm != PLAIN and PLAIN in arms]
    differences = {arm: _differences(subject, prompt.text, arms[arm], arms[PLAIN]) for arm in others}
    return Round(prompt.id, prompt.category, turn.repeat, turn.warmup, order, arms, differences)


def _differences(subject: Subject, prompt: str, ours: ArmFacts, plain: ArmFacts) -> list[Difference]:
    found = []
    for one, other in zip(ours.requests, plain.requests, strict=True):
        if one.tokens != other.tokens:
            at = first_difference(one.tokens, other.tokens)
            rivals = one.tokens[at : at + 1] + other.tokens[at : at + 1]
            gap = subject.gap(prompt, other.tokens[:at], rivals) if len(rivals) == 2 else None
            found.append(Difference(at, gap))
    return found


def first_difference(ours: Sequence[int], theirs: Sequence[int]) -> int:
    """The first index at which two different sequences differ (the shorter one's length if it is a prefix)."""
    pairs = zip(ours, theirs, strict=False)
    return next((index for index, (a, b) in enumerate(pairs) if a != b), min(len(ours), len(theirs)))


def now() -> str:
    """The present time, as records keep it: ISO 8601, UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")

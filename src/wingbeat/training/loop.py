"""The training loop: batches in a reproducible order, a schedule, checkpoints, and held-out acceptance on the way.

What a step does depends on the seed and the step's number alone (or, with `minutes`, on the time spent), so a run
that was stopped goes on from its last checkpoint as if it had not been.
"""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, distributed, nn
from torch.nn.parallel import DistributedDataParallel

from wingbeat.errors import UsageError
from wingbeat.model.draft_head import DraftHead
from wingbeat.training.acceptance import Acceptance, Tally, held_out
from wingbeat.training.capture import Captured, Sample, length_batches
from wingbeat.training.checkpoint import load_checkpoint, save_checkpoint
from wingbeat.training.loss import Outcome, Teacher, collate, draft_loss

Item = Captured | Sample
Fetch = Callable[[Sequence[Any]], list[Captured]]  # what makes a batch's states, when they are not at hand
WINDOW = 512  # samples among which batches of similar length are formed


@dataclass(frozen=True, kw_only=True)
class TrainSettings:
    """How to train.

    steps: of training-time test, at the end; step k weighs decay**k. curriculum: (share of the run, steps) pairs from
    which another number of steps holds. The run lasts `epochs` passes, or `minutes` when given; the rate falls to
    `floor` (a share of `rate`) by its end. batch_tokens: padded tokens of one process's batch; accumulate: batches a
    step. held_out: share kept for evaluation. bfloat16: of the matrix products; weights and optimiser stay float32.
    """

    steps: int = 7
    decay: float = 0.8
    curriculum: tuple[tuple[float, int], ...] = ()
    rate: float = 2e-3
    warmup: float = 0.02
    floor: float = 0.0
    betas: tuple[float, float] = (0.9, 0.95)
    weight_decay: float = 0.0
    clip: float = 0.5
    batch_tokens: int = 1024
    accumulate: int = 1
    epochs: float = 3.0
    minutes: float | None = None
    seed: int = 0
    held_out: float = 0.02
    evaluate_every: int = 500
    checkpoint_seconds: float = 180.0
    bfloat16: bool = True

    def __post_init__(self) -> None:
        if self.steps < 1 or self.accumulate < 1 or self.batch_tokens < 1 or self.rate <= 0:
            raise UsageError("steps, accumulate, batch tokens and learning rate must be positive")

    @staticmethod
    def parse_curriculum(text: str) -> tuple[tuple[float, int], ...]:
        """ "0:1,0.25:3" -> ((0.0, 1), (0.25, 3)). Raises UsageError."""
        pairs = [part.partition(":") for part in text.split(",") if part]
        try:
            return tuple((float(share), int(steps)) for share, _, steps in pairs)
        except ValueError as error:
            raise UsageError(f"cannot read the curriculum {text!r}; write share:steps,... such as 0:1,0.3:3") from error

    def rate_at(self, progress: float) -> float:
        """Learning rate at a share of the run in 0..1: a straight warm-up, then a cosine down to `floor` of it."""
        if progress < self.warmup:
            return self.rate * (progress + 1e-3) / (self.warmup + 1e-3)
        wave = 0.5 * (1 + math.cos(math.pi * min(1.0, (progress - self.warmup) / (1 - self.warmup))))
        return self.rate * (self.floor + (1 - self.floor) * wave)

    def steps_at(self, progress: float) -> int:
        """Steps of training-time test at a share of the run."""
        current = self.steps if not self.curriculum else self.curriculum[0][1]
        for begin, steps in self.curriculum:
            current = steps if progress >= begin else current
        return current


@dataclass(frozen=True)
class Point:
    """One point of the curves. seconds: spent so far, evaluation included; tokens: of text, seen by all processes."""

    step: int
    seconds: float
    tokens: int
    rate: float
    loss: float
    acceptance: Acceptance


Report = Callable[[Point], None]


@dataclass
class Progress:
    """What a checkpoint keeps beside weights and optimiser state."""

    step: int = 0
    epoch: int = 0
    batch: int = 0  # of the epoch's batches, those that are used up
    seconds: float = 0.0
    tokens: int = 0
    losses: list[float] = field(default_factory=list)  # one a step
    points: list[Point] = field(default_factory=list)


Stop = Callable[[Progress], bool]


class Learner(nn.Module):
    """The head and its loss as one module, so that gradients of several processes can be averaged."""

    def __init__(self, head: DraftHead, teacher: Teacher, bfloat16: bool) -> None:
        super().__init__()
        self.head, self.teacher, self.is_mixed = head, teacher, bfloat16

    def forward(self, samples: Sequence[Captured], weights: Sequence[float]) -> tuple[Tensor, Outcome]:
        device = self.head.fc.weight.device
        with torch.autocast(device.type, torch.bfloat16, enabled=self.is_mixed):
            outcome = draft_loss(self.head, self.teacher, collate(samples).to(device), weights)
        return outcome.loss, outcome

    @torch.no_grad()
    def tally(self, batches: Iterable[list[Captured]], steps: int) -> Tally:
        """Acceptance of a chain of `steps` on some batches."""
        counts = Tally(steps)
        for samples in batches:
            counts.add(collate(samples), self(samples, [1.0] * steps)[1])
        return counts


def epoch_batches(lengths: Sequence[int], batch_tokens: int, seed: int) -> list[list[int]]:
    """One pass over the samples in a shuffled order that `seed` fixes, as batches of similar length."""
    generator = torch.Generator().manual_seed(seed)
    order = torch.randperm(len(lengths), generator=generator).tolist()
    batches: list[list[int]] = []
    for begin in range(0, len(order), WINDOW):
        window = order[begin : begin + WINDOW]
        groups = length_batches([lengths[index] for index in window], batch_tokens)
        batches += [[window[index] for index in group] for group in groups]
    return [batches[index] for index in torch.randperm(len(batches), generator=generator).tolist()]


class Trainer:
    """Trains `head` on `samples`. In a process group, each process takes its share of every step's batches.

    samples: captured ones, or, with `fetch`, those that it turns into captured ones when their batch comes.
    """

    def __init__(
        self, head: DraftHead, teacher: Teacher, samples: Sequence[Item], settings: TrainSettings, directory: Path,
        fetch: Fetch | None = None,
    ) -> None:
        self.fetch: Fetch = fetch or list
        kept, tested = held_out(len(samples), settings.held_out)
        self.samples, self.tested = [samples[i] for i in kept], [samples[i] for i in tested]
        self.tested = [sample for sample in self.tested if sample.greedy] or self.tested
        self.settings, self.directory, self.progress = settings, directory, Progress()
        self.rank, self.world = (distributed.get_rank(), distributed.get_world_size()) if _grouped() else (0, 1)
        self.learner = Learner(head, teacher, settings.bfloat16)
        self.parallel = DistributedDataParallel(self.learner) if self.world > 1 else None
        trained = [parameter for parameter in head.parameters() if parameter.requires_grad]
        self.optimiser = torch.optim.AdamW(
            trained, lr=settings.rate, betas=settings.betas, weight_decay=settings.weight_decay, fused=True
        )
        self.parameters = trained
        self.lengths = [len(sample.tokens) for sample in self.samples]
        self.batches = self._epoch_batches()
        if len(self.batches) < self._per_step:
            raise UsageError(f"the text is too short to train on: {len(samples)} samples; give more conversations")
        self.planned = max(1, math.ceil(settings.epochs * len(self.batches) / self._per_step))

    @property
    def _per_step(self) -> int:
        return self.world * self.settings.accumulate

    def _epoch_batches(self) -> list[list[int]]:
        seed = self.settings.seed * 100003 + self.progress.epoch
        return epoch_batches(self.lengths, self.settings.batch_tokens, seed)

    def _next_batches(self) -> list[list[int]]:
        """The batches of one step, for all processes."""
        progress = self.progress
        if progress.batch + self._per_step > len(self.batches):
            progress.epoch, progress.batch = progress.epoch + 1, 0
            self.batches = self._epoch_batches()
        progress.batch += self._per_step
        return self.batches[progress.batch - self._per_step : progress.batch]

    @property
    def device(self) -> torch.device:
        return self.parameters[0].device

    def fraction(self) -> float:
        """Share of the run that is done."""
        if self.settings.minutes is not None:
            return self.progress.seconds / (60 * self.settings.minutes)
        return self.progress.step / self.planned

    def resume(self) -> bool:
        """Goes on from the directory's checkpoint; False when it has none. Raises MismatchError for another run's."""
        state = load_checkpoint(self.directory, self._identity())
        if state is None:
            return False
        self.learner.head.load_state_dict(state["head"])
        self.optimiser.load_state_dict(state["optimiser"])
        self.progress = state["progress"]
        self.batches = self._epoch_batches()
        return True

    def _identity(self) -> dict[str, object]:
        head = self.learner.head
        return {
            "settings": dataclasses.asdict(self.settings), "samples": len(self.samples), "tokens": sum(self.lengths),
            "world": self.world, "head": dataclasses.asdict(head.config), "words": head.draft_to_target.tolist(),
        }

    def save(self) -> None:
        """Writes the checkpoint (first process only)."""
        if self.rank == 0:
            state = {
                "head": self.learner.head.state_dict(), "optimiser": self.optimiser.state_dict(),
                "progress": self.progress, "identity": self._identity(),
            }
            save_checkpoint(self.directory, state)

    def train(self, report: Report = lambda point: None, stop: Stop = lambda progress: False) -> Progress:
        """Runs to the end of the schedule, or until `stop` says so (asked before each step); saves on the way and then.

        In a process group the first process's clock and `stop` decide for all. `is_done` tells which end it was.
        """
        begin = saved = time.monotonic()
        before = self.progress.seconds
        while not self._is_over(stop):
            self._step()
            self.progress.seconds = before + time.monotonic() - begin
            if self.progress.step % self.settings.evaluate_every == 0:
                self._record(report)
            if time.monotonic() - saved > self.settings.checkpoint_seconds:
                self.save()
                saved = time.monotonic()
        if self.is_done:
            self._record(report)
        self.save()
        return self.progress

    @property
    def is_done(self) -> bool:
        """Whether the schedule has come to its end."""
        return self.fraction() >= 1

    def _is_over(self, stop: Callable[[Progress], bool]) -> bool:
        stopped = stop(self.progress)
        if self.world > 1:
            first = torch.tensor([self.progress.seconds, stopped], dtype=torch.float64, device=self.device)
            distributed.broadcast(first, 0)
            self.progress.seconds, stopped = first[0].item(), bool(first[1])
        return stopped or self.is_done

    def _step(self) -> None:
        settings, progress = self.settings, self.progress
        fraction = self.fraction()
        rate = settings.rate_at(fraction)
        weights = [settings.decay**k for k in range(settings.steps_at(fraction))]
        for group in self.optimiser.param_groups:
            group["lr"] = rate
        batches = self._next_batches()
        total = 0.0
        for index in range(settings.accumulate):
            batch = batches[index * self.world + self.rank]
            total += self._backward([self.samples[i] for i in batch], weights, index == settings.accumulate - 1)
        nn.utils.clip_grad_norm_(self.parameters, settings.clip)
        self.optimiser.step()
        self.optimiser.zero_grad()
        progress.step += 1
        progress.tokens += sum(self.lengths[i] for batch in batches for i in batch)
        progress.losses.append(total)

    def _backward(self, samples: Sequence[Item], weights: Sequence[float], last: bool) -> float:
        quiet = self.parallel.no_sync() if self.parallel is not None and not last else nullcontext()
        with quiet:
            loss, _ = (self.parallel or self.learner)(self.fetch(samples), weights)
            (loss / self.settings.accumulate).backward()
        return loss.item() / self.settings.accumulate

    def _record(self, report: Report) -> None:
        progress = self.progress
        recent = progress.losses[-self.settings.evaluate_every :]
        acceptance = self.evaluate()
        rate = self.settings.rate_at(min(1.0, self.fraction()))
        loss = sum(recent) / max(1, len(recent))
        point = Point(progress.step, progress.seconds, progress.tokens, rate, loss, acceptance)
        progress.points.append(point)
        if self.rank == 0:
            report(point)

    @torch.no_grad()
    def evaluate(self, samples: Sequence[Item] | None = None) -> Acceptance:
        """Acceptance on held-out samples (or the given ones), always at the full number of steps."""
        samples = self.tested if samples is None else samples
        batches = length_batches([len(sample.tokens) for sample in samples], self.settings.batch_tokens)
        mine = (self.fetch([samples[index] for index in batch]) for batch in batches[self.rank :: self.world])
        tally = self.learner.tally(mine, self.settings.steps)
        for part in (tally.counts, tally.cycles) if self.world > 1 else ():
            total = part.to(self.device)
            distributed.all_reduce(total)
            part.copy_(total)
        return tally.result()


def _grouped() -> bool:
    return distributed.is_available() and distributed.is_initialized()

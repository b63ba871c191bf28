"""What `wingbeat train head` puts together: target, text, head, training, files and card."""

from __future__ import annotations

import gc
import itertools
import os
import shlex
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wingbeat.cli import train_text
from wingbeat.errors import InterruptedRunError, MismatchError, UsageError

if TYPE_CHECKING:
    from wingbeat.model.draft_head import DraftHead
    from wingbeat.model.target import Target
    from wingbeat.training.capture import Captured, Sample
    from wingbeat.training.loop import Fetch, Point, Progress, Trainer, TrainSettings
    from wingbeat.training.vocab import DraftVocab


DRAFT_VOCAB = 8192


@dataclass(frozen=True)
class Wanted:
    """The head that was asked for.

    draft_vocab: None keeps the words of a head that training goes on from. lengths: tokens that an answer and a
    conversation are cut to, for text without shards.
    """

    model: str | None
    init: str
    draft_vocab: int | None
    taps: str | None
    form: str
    device: str
    lengths: tuple[int, int]


def run(source: Sequence[Path], out: Path, wanted: Wanted, settings: TrainSettings, resume: bool) -> None:
    """Trains, saves head and card into `out` (checkpoints in out/checkpoint), and draws the curves."""
    device = _join_group(wanted.device)
    try:
        _run(source, out, replace(wanted, device=device), settings, resume)
    finally:
        _leave_group()


def _run(source: Sequence[Path], out: Path, wanted: Wanted, settings: TrainSettings, resume: bool) -> None:
    import torch

    from wingbeat.model.weights import save_head
    from wingbeat.training.capture import describe_target
    from wingbeat.training.card import write_card
    from wingbeat.training.loop import Trainer
    from wingbeat.training.vocab import teacher_for

    target, tokens = train_text.target_and_tokens(wanted.model, "bfloat16", wanted.device)
    taps = train_text.numbers(wanted.taps, int) if wanted.taps else target.config.default_taps
    is_captured = [path.is_dir() for path in source]
    if any(is_captured) and not all(is_captured):
        raise UsageError("give captured directories or text files, not both")
    items: Sequence[Sample | Captured]
    items, fetch = _captured(source, describe_target(target, taps)) if all(is_captured) else (
        _online(source, target, tokens, taps, wanted.lengths)
    )
    vocab, head = _start(target, items, taps, wanted, settings.seed)
    teacher = teacher_for(target, head, torch.bfloat16 if settings.bfloat16 else torch.float32)
    trainer = Trainer(head, teacher, items, settings, out / "checkpoint", fetch)
    if resume and not trainer.resume():
        raise UsageError(f"{out} holds no checkpoint to resume; leave out --resume")
    done = trainer.train(_report, stop=_when_interrupted())
    if not trainer.is_done:
        raise InterruptedRunError(f"stopped after step {done.step}; go on with --resume")
    if trainer.rank == 0:
        save_head(head, out, form=wanted.form, dtype=torch.bfloat16)
        write_card(out, head.config, _recipe(wanted, source, vocab, trainer), settings, done)
        _finish(out, done)


def _when_interrupted() -> Callable[[object], bool]:
    """Lets Ctrl-C (or a polite kill) end training after the step in progress; a second one ends it at once."""
    asked: list[int] = []

    def ask(number: int, frame: object) -> None:
        asked.append(number)
        signal.signal(number, signal.SIG_DFL)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, ask)
    return lambda progress: bool(asked)


def _join_group(device: str) -> str:
    """Joins the process group that torchrun describes, if any; returns this process's device."""
    if "WORLD_SIZE" not in os.environ:
        return device
    from torch import distributed

    distributed.init_process_group("nccl" if device.startswith("cuda") else "gloo")
    return f"cuda:{os.environ.get('LOCAL_RANK', '0')}" if device.startswith("cuda") else device


def _leave_group() -> None:
    if "WORLD_SIZE" not in os.environ:
        return
    from torch import distributed

    gc.collect()  # a trainer holds on to the group's threads
    distributed.destroy_process_group()


def _captured(directories: Sequence[Path], expected: dict[str, object]) -> tuple[list[Captured], None]:
    """The samples of shards; nothing need be fetched."""
    from wingbeat.training.capture import CaptureStore

    stores = [CaptureStore.open(directory) for directory in directories]
    for store in stores:
        if store.meta != expected:
            raise MismatchError(f"{store.directory} was captured from another target or other taps; capture again")
    return list(itertools.chain.from_iterable(stores)), None


def _online(
    files: Sequence[Path], target: Target, tokens: Any, taps: Sequence[int], lengths: tuple[int, int]
) -> tuple[list[Sample], Fetch]:
    """Text, and the function that runs the target over a batch of it when its turn comes."""
    from wingbeat.training.capture import run_target

    return train_text.samples(files, tokens, *lengths), lambda batch: run_target(target, batch, taps)


def _start(
    target: Target, items: Sequence[Sample | Captured], taps: Sequence[int], wanted: Wanted, seed: int
) -> tuple[DraftVocab, DraftHead]:
    from wingbeat.model.config import HeadConfig
    from wingbeat.training.initial import KINDS, continue_head, new_head
    from wingbeat.training.vocab import choose_vocab, count_tokens, coverage_of

    counts = count_tokens(((item.tokens, item.mask) for item in items), target.config.vocab_size)
    if wanted.init not in KINDS:
        from wingbeat.model.weights import load_head

        former = load_head(Path(wanted.init), target)
        if former.config.taps != tuple(taps):
            raise MismatchError(f"{wanted.init} reads taps {former.config.taps}, not {tuple(taps)}; choose them alike")
        known = coverage_of(counts, former.draft_to_target)
        vocab = choose_vocab(counts, wanted.draft_vocab) if wanted.draft_vocab else known
        head = continue_head(former, target, vocab.ids)
    else:
        vocab = choose_vocab(counts, wanted.draft_vocab or min(DRAFT_VOCAB, target.config.vocab_size))
        config = HeadConfig.for_target(target.config, len(vocab.ids), taps=tuple(taps))
        head = new_head(target, config, vocab.ids, wanted.init, seed)
    print(f"draft vocabulary of {len(vocab.ids)} words covers {vocab.coverage:.2%} of the answers", file=sys.stderr)
    return vocab, head


def _recipe(wanted: Wanted, source: Sequence[Path], vocab: DraftVocab, trainer: Trainer) -> Any:
    from wingbeat.training.card import Recipe

    return Recipe(
        target=wanted.model or "SmolLM2-135M-Instruct", command=_command(trainer.world),
        text=", ".join(path.name for path in source), initial=wanted.init, coverage=vocab.coverage,
        samples=len(trainer.samples), tokens=sum(trainer.lengths), processes=trainer.world,
    )


def _command(processes: int) -> str:
    """The command line, as one would type it again."""
    several = ["torchrun", "--no-python", "--nproc-per-node", str(processes)] if processes > 1 else []
    return shlex.join([*several, "wingbeat", *sys.argv[1:]])


def _report(point: Point) -> None:
    places = " ".join(f"{share:.3f}" for share in point.acceptance.unconditional)
    given = " ".join(f"{share:.3f}" for share in point.acceptance.conditional)
    print(
        f"step {point.step}  {point.seconds:.0f} s  {point.tokens / max(point.seconds, 1e-9):.0f} tokens/s  "
        f"loss {point.loss:.3f}  held out: {places} (conditional {given})  tokens per cycle "
        f"{point.acceptance.expected:.3f}, walked {point.acceptance.walked:.3f}",
        file=sys.stderr, flush=True,
    )


def _finish(out: Path, done: Progress) -> None:
    from wingbeat.report.curves import draw

    steps = len(done.points[-1].acceptance.unconditional) if done.points else 0
    accepted = {
        f"position {k + 1}": [(point.step, point.acceptance.unconditional[k]) for point in done.points]
        for k in range(steps)
    }
    print(draw({"loss": list(enumerate(done.losses, start=1))}))
    print(f"\nHeld-out acceptance by position (unconditional)\n{draw(accepted)}")
    if done.points:
        last = done.points[-1].acceptance
        print(f"\nTokens per cycle: {last.expected:.3f} expected, {last.walked:.3f} walked. Head: {out}")

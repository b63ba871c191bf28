"""The model card of a trained head: what it is for, what it learned from, how, and what came of it."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from wingbeat.model.config import HeadConfig
from wingbeat.training.acceptance import Acceptance
from wingbeat.training.checkpoint import replace_file
from wingbeat.training.loop import Progress, TrainSettings


@dataclasses.dataclass(frozen=True)
class Recipe:
    """What the card tells beside the settings. command: the exact one; coverage: share of the answers' tokens that are
    draft words; samples, tokens: of the text, without what was held out."""

    target: str
    command: str
    text: str
    initial: str
    coverage: float
    samples: int
    tokens: int
    processes: int


def write_card(directory: Path, config: HeadConfig, recipe: Recipe, settings: TrainSettings, done: Progress) -> None:
    """Writes README.md beside the head. Raises StorageError."""
    text = card(config, recipe, settings, done)
    replace_file(directory / "README.md", lambda path: _write(path, text))


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")


def card(config: HeadConfig, recipe: Recipe, settings: TrainSettings, done: Progress) -> str:
    """The card as Markdown."""
    last = done.points[-1] if done.points else None
    curriculum = ", ".join(f"{steps} from {share:.0%}" for share, steps in settings.curriculum) or "none"
    facts = {
        "Target": recipe.target,
        "Shape": f"hidden {config.hidden_size}, one layer, {config.num_heads} heads, {config.num_kv_heads} key/value "
        f"heads, taps (inputs of layers) {list(config.taps)}",
        "Draft vocabulary": f"{config.draft_vocab_size} words, {recipe.coverage:.2%} of the answers' tokens",
        "Text": f"{recipe.text}; {recipe.samples} conversations, {recipe.tokens} tokens; "
        f"{settings.held_out:.1%} more held out",
        "Start": recipe.initial,
        "Training-time test": f"{settings.steps} steps, weights {settings.decay:g}^k; curriculum: {curriculum}",
        "Optimiser": f"AdamW, rate {settings.rate:g} (warm-up {settings.warmup:.0%}, cosine to {settings.floor:g}), "
        f"betas {settings.betas}, weight decay {settings.weight_decay:g}, gradient norm at most {settings.clip:g}",
        "Batches": f"{settings.batch_tokens} tokens x {settings.accumulate} x {recipe.processes} processes",
        "Precision": "float32 weights, " + ("bfloat16" if settings.bfloat16 else "float32") + " products",
        "Length": f"{done.step} steps, {done.tokens} tokens seen, {done.seconds / 60:.0f} minutes",
    }
    rows = "\n".join(f"| {name} | {value} |" for name, value in facts.items())
    return (
        f"# An EAGLE-3 draft head for {recipe.target}\n\n"
        "It proposes tokens that the target then verifies: the target's output is unchanged, only sooner.\n\n"
        f"| | |\n| --- | --- |\n{rows}\n\n"
        + (f"## Held-out acceptance\n\n{acceptance_table(last.acceptance)}\n\n" if last else "")
        + f"## Made with\n\n```\n{recipe.command}\n```\n"
    )


def acceptance_table(acceptance: Acceptance) -> str:
    """Acceptance by position as a Markdown table, with the tokens per cycle under it."""
    lines = ["| position | unconditional | conditional |", "| --- | --- | --- |"]
    pairs = zip(acceptance.unconditional, acceptance.conditional, strict=True)
    lines += [f"| {place} | {all_right:.3f} | {given:.3f} |" for place, (all_right, given) in enumerate(pairs, start=1)]
    steps = len(acceptance.unconditional)
    return "\n".join(lines) + (
        f"\n\nTokens per cycle with a chain of {steps}: {acceptance.expected:.3f} expected over all positions, "
        f"{acceptance.walked:.3f} decoding the text cycle after cycle (both greedy)."
    )

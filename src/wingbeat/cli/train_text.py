"""What `wingbeat train` puts together for text: an engine that writes it, a tokenizer, progress on stderr."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wingbeat.errors import UsageError

if TYPE_CHECKING:
    from wingbeat.engine.llm import LLM
    from wingbeat.engine.tokenizer import Tokenizer
    from wingbeat.model.target import Target
    from wingbeat.training.capture import Sample
    from wingbeat.training.data import Conversation, WritePlan


def numbers(text: str, kind: Callable[[str], Any]) -> tuple[Any, ...]:
    """ "2,15,27" -> (2, 15, 27). Raises UsageError."""
    try:
        return tuple(kind(part) for part in text.split(","))
    except ValueError as error:
        raise UsageError(f"cannot read {text!r} as numbers; write them with commas between") from error


class Meter:
    """Progress with tokens per second: a line that is rewritten on a terminal, plain lines elsewhere."""

    def __init__(self, title: str, total: int) -> None:
        self.title, self.total, self.begin = title, total, time.monotonic()

    def show(self, count: int, tokens: int) -> None:
        """count: of `total`; tokens: since the meter began."""
        rate = tokens / max(1e-9, time.monotonic() - self.begin)
        end = "\n" if not sys.stderr.isatty() or count >= self.total else ""
        line = f"{self.title} {count}/{self.total}, {tokens} tokens, {rate:.0f} tokens/s"
        print(f"\r{line}" if sys.stderr.isatty() else line, end=end, file=sys.stderr, flush=True)


def load(model: str | None, dtype: str, device: str, batch: int) -> LLM:
    """An engine that decodes plainly; of each `batch` conversations a quarter at once, so that short ones make room."""
    from wingbeat.engine.llm import LLM
    from wingbeat.engine.settings import DraftSettings, Limits

    limits = Limits(max_batch=max(1, batch // 4))
    return LLM(model, draft=DraftSettings(drafter="none"), dtype=dtype, device=device, limits=limits)


def write(plan: WritePlan, out: Path, llm: LLM, source: Sequence[Conversation] | None) -> None:
    """Has `llm` write conversations into `out`."""
    from wingbeat.engine.request import SamplingParams
    from wingbeat.training.data import write_text

    def generate(
        prompts: Sequence[list[int]], temperatures: Sequence[float], max_tokens: int, seed: int
    ) -> list[tuple[str, bool]]:
        params = [
            SamplingParams(temperature=heat, top_p=0.95, seed=seed * 4096 + place, max_tokens=max_tokens)
            for place, heat in enumerate(temperatures)
        ]
        return [(done.text, done.finish == "stop") for done in llm.generate(prompts, params)]

    meter, total = Meter("written", plan.count), 0

    def progress(count: int, tokens: int) -> None:
        nonlocal total
        total += tokens
        meter.show(count, total)

    opening = llm.tokenizer.open_turn() if source is None else source
    count = write_text(out, plan, generate, llm.tokenizer, opening, progress)
    print(f"{count} conversations in {out}")


def target_and_tokens(model: str | None, dtype: str, device: str) -> tuple[Target, Tokenizer]:
    """The target and its tokenizer, without an engine."""
    from wingbeat.engine.llm import DTYPES
    from wingbeat.engine.tokenizer import Tokenizer
    from wingbeat.model.weights import load_target, locate_model

    path = locate_model(model)
    return load_target(path, DTYPES[dtype], device), Tokenizer(path)


def samples(paths: Sequence[Path], tokens: Tokenizer, answer_tokens: int, longest: int) -> list[Sample]:
    """The tokenised conversations of some files, without repetitions. Raises UsageError when there are none."""
    from wingbeat.training.data import deduplicate, read_conversations, tokenise

    conversations = deduplicate(item for path in paths for item in read_conversations(path))
    found = [sample for item in conversations for sample in tokenise(item, tokens, answer_tokens, longest)]
    if not found:
        raise UsageError(f"no answers in {', '.join(map(str, paths))}; let `wingbeat train data --prompts` answer them")
    return found


def capture(target: Target, found: list[Sample], out: Path, taps: Sequence[int], shard_samples: int) -> None:
    """Captures with progress; says what the directory then holds."""
    from wingbeat.training.capture import capture as run

    meter = Meter("captured", len(found))
    store = run(target, found, out, taps, shard_samples, meter.show)
    print(f"{store.num_samples} conversations, {store.num_tokens} tokens in {out}")

"""The prompts of a run: the bundled ones, or a file of questions (JSON lines with question_id, category, turns)."""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wingbeat.errors import CorruptError, NotFoundError, UsageError

BUNDLED = Path(__file__).with_name("prompts.jsonl")


@dataclass(frozen=True)
class Prompt:
    """One question; `id` is unique in its workload, `category` may be empty."""

    id: str
    category: str
    text: str


@dataclass(frozen=True)
class Workload:
    """Prompts in a fixed order, with the name of where they came from."""

    name: str
    prompts: tuple[Prompt, ...]

    @property
    def digest(self) -> str:
        """SHA-256 of ids and texts in order: equal digests mean equal prompts."""
        lines = (json.dumps([prompt.id, prompt.text]) for prompt in self.prompts)
        return hashlib.sha256("\n".join(lines).encode()).hexdigest()

    def take(self, count: int) -> Workload:
        """The first `count` prompts, taken in turn from the categories; all of them if there are fewer.

        Raises UsageError for a count below one.
        """
        if count < 1:
            raise UsageError(f"a workload of {count} prompts cannot be run; take at least 1")
        rank = {}
        seen: dict[str, int] = defaultdict(int)
        for prompt in self.prompts:
            rank[prompt.id] = seen[prompt.category]
            seen[prompt.category] += 1
        chosen = set(sorted(rank, key=lambda name: rank[name])[:count])
        return Workload(self.name, tuple(prompt for prompt in self.prompts if prompt.id in chosen))


def bundled() -> Workload:
    """The prompts that come with wingbeat: eight kinds, three of each."""
    return Workload("bundled", read(BUNDLED).prompts)


def read(path: Path) -> Workload:
    """Reads a question file; the first turn of each question is its prompt, blank lines are skipped.

    Raises NotFoundError (no such file), CorruptError (a line that is not a question, with its number; an id that
    occurs twice) and UsageError (no question at all).
    """
    try:
        lines = path.read_text(encoding="utf-8").split("\n")  # not splitlines: U+2028 may stand in a string
    except OSError as error:
        raise NotFoundError(f"cannot read the prompts {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise CorruptError(f"{path} is not UTF-8 text: {error.reason} at byte {error.start}") from error
    prompts: dict[str, Prompt] = {}
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        prompt = _question(line, f"{path}, line {number}", default_id=str(number))
        if prompt.id in prompts:
            raise CorruptError(f"{path}, line {number}: question_id {prompt.id!r} occurs a second time")
        prompts[prompt.id] = prompt
    if not prompts:
        raise UsageError(f"{path} holds no questions; each line should be an object with 'turns': [\"...\"]")
    return Workload(path.name, tuple(prompts.values()))


def _question(line: str, where: str, default_id: str) -> Prompt:
    try:
        question: Any = json.loads(line)
    except ValueError as error:
        raise CorruptError(f"{where}: not JSON: {error}") from error
    turns = question.get("turns") if isinstance(question, dict) else None
    if not isinstance(turns, list) or not turns or not isinstance(turns[0], str) or not turns[0].strip():
        raise CorruptError(f"{where}: 'turns' must be a list that starts with the question's text")
    return Prompt(str(question.get("question_id", default_id)), str(question.get("category", "")), turns[0])

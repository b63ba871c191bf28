"""Training text: reading conversations, having the target write or answer them, and turning them into tokens.

Text generation and tokenisation are handed in, so that nothing here knows an engine or a tokenizer. A conversation is
a line of JSON: `messages` (role, content), `conversations` (from, value), `turns` (what the user says, one turn after
the other), `prompt` (with an answer in `completion` or `response`, or without) or `user` and `assistant`.
"""

from __future__ import annotations

import gzip
import hashlib
import itertools
import json
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import torch

from wingbeat.errors import CorruptError, NotFoundError, StorageError, UsageError
from wingbeat.training.capture import Sample

ROLES = {"human": "user", "user": "user", "gpt": "assistant", "assistant": "assistant", "system": "system"}
SHORTEST = 4  # tokens of an answer: fewer give no chain to learn from

Message = dict[str, str]


@dataclass(frozen=True)
class Conversation:
    """messages in order; it is open when the last one is the user's. temperature: of the answers (None: unknown).
    finished: the last answer ended by itself, so that its end token belongs to it."""

    messages: tuple[Message, ...]
    temperature: float | None = None
    finished: bool = True

    @property
    def is_open(self) -> bool:
        return self.messages[-1]["role"] == "user"

    @property
    def key(self) -> str:
        """Equal for conversations whose user says the same (spaces and case apart)."""
        said = [" ".join(message["content"].lower().split()) for message in self.messages if message["role"] == "user"]
        return hashlib.sha256("\0".join(said).encode()).hexdigest()

    def line(self) -> str:
        """As a line of JSON, as `read_conversations` takes it."""
        finish = "stop" if self.finished else "length"
        entry = {"messages": list(self.messages), "temperature": self.temperature, "finish": finish}
        return json.dumps(entry, ensure_ascii=False) + "\n"


class Tokens(Protocol):
    """What this module needs of a tokenizer."""

    def encode(self, prompt: list[Message]) -> list[int]:
        """The ids of messages in the chat template, up to where the assistant's answer begins."""

    def continuation(self, text: str) -> list[int]:
        """The ids of text that goes on, without any begin token."""

    @property
    def end(self) -> int:
        """The token that ends an answer."""


def read_conversations(path: Path) -> list[Conversation]:
    """Reads JSON lines (.jsonl, or .gz of it). Raises NotFoundError, or CorruptError naming the line."""
    if not path.exists():
        raise NotFoundError(f"no text at {path}; give a file of JSON lines")
    try:
        data = path.read_bytes()
        text = (gzip.decompress(data) if path.suffix == ".gz" else data).decode()
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise CorruptError(f"{path} cannot be read: {error}") from error
    lines = enumerate(text.split("\n"), start=1)  # not splitlines: U+2028 may stand in a string
    return [_parse_line(line, f"{path}, line {number}") for number, line in lines if line.strip()]


def _parse_line(line: str, place: str) -> Conversation:
    try:
        entry = json.loads(line)
        messages = _messages(entry)
        return Conversation(tuple(messages), entry.get("temperature"), entry.get("finish", "stop") == "stop")
    except (ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
        known = "messages, conversations, turns, prompt, or user and assistant"
        raise CorruptError(f"{place}: no conversation ({error!r}); a line needs {known}") from error


def _messages(entry: dict[str, Any]) -> list[Message]:
    if "messages" in entry:
        messages = [{"role": ROLES[item["role"]], "content": str(item["content"])} for item in entry["messages"]]
    elif "conversations" in entry:
        messages = [{"role": ROLES[item["from"]], "content": str(item["value"])} for item in entry["conversations"]]
    elif "turns" in entry:
        messages = [{"role": "user", "content": str(turn)} for turn in entry["turns"]]
    else:
        answer = entry.get("assistant", entry.get("completion", entry.get("response")))
        messages = [{"role": "user", "content": str(entry["user"] if "user" in entry else entry["prompt"])}]
        messages += [] if answer is None else [{"role": "assistant", "content": str(answer)}]
    if not any(message["role"] == "user" for message in messages):
        raise ValueError("nobody asks anything")
    return messages


def deduplicate(conversations: Iterable[Conversation], seen: set[str] | None = None) -> Iterator[Conversation]:
    """Leaves out conversations whose user says what another's said before; `seen` holds their keys and grows."""
    seen = set() if seen is None else seen
    for conversation in conversations:
        if conversation.key not in seen:
            seen.add(conversation.key)
            yield conversation


def tokenise(conversation: Conversation, tokens: Tokens, longest_answer: int, longest: int) -> Iterator[Sample]:
    """The samples of one conversation: one, or several where the template rewrites what was said before.

    longest_answer, longest: tokens an answer and a sample are cut to. Answers under 4 tokens are not worth a sample.
    """
    greedy = conversation.temperature in (None, 0.0)
    ids: list[int] = []
    mask: list[bool] = []
    for place, message in enumerate(conversation.messages):
        if message["role"] != "assistant" or place == 0:
            continue
        prompt = tokens.encode(list(conversation.messages[:place]))
        if prompt[: len(ids)] != ids:
            yield from _sample(ids, mask, greedy, longest)
            ids, mask = [], []
        is_last = place == len(conversation.messages) - 1
        answer = tokens.continuation(message["content"])
        answer += [tokens.end] if conversation.finished or not is_last else []
        kept = answer[:longest_answer]
        mask += [False] * (len(prompt) - len(ids)) + [True] * len(kept)
        ids = prompt + kept
    yield from _sample(ids, mask, greedy, longest)


def _sample(ids: list[int], mask: list[bool], greedy: bool, longest: int) -> Iterator[Sample]:
    if sum(mask[:longest]) >= SHORTEST:
        yield Sample(torch.tensor(ids[:longest]), torch.tensor(mask[:longest]), greedy)


class Generate(Protocol):
    """Text generation, handed in: one (text, ended by itself) for each prompt, in order."""

    def __call__(
        self, prompts: Sequence[list[int]], temperatures: Sequence[float], max_tokens: int, seed: int
    ) -> list[tuple[str, bool]]: ...


@dataclass(frozen=True, kw_only=True)
class WritePlan:
    """How the target writes text. batch: conversations at once. temperatures: of the answers, taken in turn.
    question_tokens, answer_tokens: at most. attempts: batches without a single new question before giving up."""

    count: int
    batch: int = 16
    temperatures: tuple[float, ...] = (0.0, 0.0, 0.0, 0.5, 0.7)
    question_temperature: float = 0.9
    question_tokens: int = 160
    answer_tokens: int = 512
    attempts: int = 20
    seed: int = 0


def write_text(
    path: Path,
    plan: WritePlan,
    generate: Generate,
    tokens: Tokens,
    source: Sequence[int] | Sequence[Conversation],
    progress: Callable[[int, int], None] = lambda count, size: None,
) -> int:
    """Appends conversations to `path` until it holds `plan.count`; goes on from what a killed run left.

    source: the token ids of an open user turn (the target then invents the questions), or conversations to answer
    (`plan.count` beyond their number is cut). progress(conversations so far, answer tokens of the last batch).
    Returns how many the file holds. Raises StorageError when writing fails, UsageError when nothing new comes.
    """
    have = _recover(path)
    seen = {conversation.key for conversation in have}
    count = len(have)
    asked = iter(_given(source, seen)) if not _is_ids(source) else None
    for attempt in itertools.count():
        if count >= plan.count:
            return count
        seed = plan.seed * 1000003 + 7919 * count + attempt
        size = min(plan.batch, plan.count - count)
        if asked is None:
            questions = _invent(plan, generate, list(source), size, seed)  # type: ignore[arg-type]
            batch = list(deduplicate(questions, seen))
        else:
            batch = list(itertools.islice(asked, size))
            if not batch:
                return count
        answered = _answer(plan, generate, tokens, batch, (count, seed))
        if not answered and attempt >= plan.attempts:
            raise UsageError(f"the model writes nothing new after {attempt} tries; {count} conversations are in {path}")
        _append(path, answered)
        count += len(answered)
        written = sum(len(tokens.continuation(item.messages[-1]["content"])) for item in answered)
        progress(count, written)
    return count


def _is_ids(source: Sequence[int] | Sequence[Conversation]) -> bool:
    return bool(source) and isinstance(source[0], int)


def _given(source: Sequence[Any], seen: set[str]) -> Iterator[Conversation]:
    for conversation in source:
        turns = tuple(message for message in conversation.messages if message["role"] != "assistant")
        yield from deduplicate([Conversation(turns)], seen)


def _invent(plan: WritePlan, generate: Generate, opening: list[int], size: int, seed: int) -> Iterator[Conversation]:
    texts = generate([opening] * size, [plan.question_temperature] * size, plan.question_tokens, seed)
    for text, ended in texts:
        if ended and text.strip():
            yield Conversation(({"role": "user", "content": text.strip()},))


def _answer(
    plan: WritePlan, generate: Generate, tokens: Tokens, batch: list[Conversation], place: tuple[int, int]
) -> list[Conversation]:
    """Answers each turn of every conversation in the batch; those with an empty answer are left out."""
    first, seed = place
    temperatures = [plan.temperatures[(first + index) % len(plan.temperatures)] for index in range(len(batch))]
    said: list[list[Message]] = [[] for _ in batch]
    ended = [True] * len(batch)
    for turn in range(max((len(item.messages) for item in batch), default=0)):
        open_ones = [i for i, item in enumerate(batch) if turn < len(item.messages) and ended[i]]
        for index in open_ones:
            said[index].append(batch[index].messages[turn])
        asked = [i for i in open_ones if said[i][-1]["role"] == "user"]
        prompts = [tokens.encode(said[i]) for i in asked]
        texts = generate(prompts, [temperatures[i] for i in asked], plan.answer_tokens, seed + turn) if asked else []
        for index, (text, by_itself) in zip(asked, texts, strict=True):
            said[index].append({"role": "assistant", "content": text})
            ended[index] = by_itself
    kept = [index for index in range(len(batch)) if all(message["content"].strip() for message in said[index])]
    return [Conversation(tuple(said[index]), temperatures[index], ended[index]) for index in kept]


def _recover(path: Path) -> list[Conversation]:
    """What a file holds already; half a line at its end, left by a run that was killed, is cut off."""
    if not path.exists():
        return []
    whole = path.read_bytes()
    end = whole.rfind(b"\n") + 1
    if end < len(whole):
        with path.open("r+b") as stream:
            stream.truncate(end)
    return read_conversations(path)


def _append(path: Path, conversations: Sequence[Conversation]) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a") as stream:
            stream.writelines(conversation.line() for conversation in conversations)
    except OSError as error:
        raise StorageError(f"cannot write {path}: {error}; free some space or choose another file") from error

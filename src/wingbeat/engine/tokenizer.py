"""Text to token ids and back, with the model's chat template. A thin layer over transformers' tokenizers."""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any

from wingbeat.errors import CorruptError, PromptError, UsageError

CACHE = Path.home() / ".cache" / "wingbeat" / "tokenizers"
Prompt = str | Sequence[int] | Sequence[Mapping[str, str]]


class Tokenizer:
    """The tokenizer beside a model: path is its directory or .gguf file.

    cache: where the tokenizer of a .gguf file is kept once it has been read, which takes seconds.
    """

    def __init__(self, path: Path, cache: Path = CACHE) -> None:
        from transformers import AutoTokenizer
        from transformers.utils import logging

        logging.disable_progress_bar()
        try:
            if path.suffix == ".gguf":
                self._inner = _from_gguf(path, cache)
            else:
                self._inner = AutoTokenizer.from_pretrained(str(path))
        except (OSError, ValueError, KeyError) as error:
            raise CorruptError(f"no usable tokenizer at {path}: {error}") from error
        self.end_ids = self._find_end_ids(path)

    def _find_end_ids(self, path: Path) -> frozenset[int]:
        ids = {self._inner.eos_token_id}
        generation = path / "generation_config.json"
        if generation.is_file():
            stated = json.loads(generation.read_text()).get("eos_token_id")
            ids |= set(stated) if isinstance(stated, list) else {stated}
        return frozenset(token for token in ids if token is not None)

    @property
    def chat_template(self) -> str | None:
        return self._inner.chat_template

    def encode(self, prompt: Prompt, raw: bool = False) -> list[int]:
        """Token ids of a text (as a user's turn, or as it is with `raw`), of messages, or of ids themselves."""
        if not prompt:
            raise PromptError("the prompt is empty; give it some text")
        if isinstance(prompt, str):
            if raw or self.chat_template is None:
                return list(self._inner(prompt)["input_ids"])
            return self._apply_template([{"role": "user", "content": prompt}])
        if all(isinstance(item, Mapping) for item in prompt):
            return self._apply_template([dict(message) for message in prompt])  # type: ignore[arg-type]
        if all(isinstance(item, int) for item in prompt):
            return list(prompt)  # type: ignore[arg-type]
        raise PromptError("a prompt is text, a list of messages or a list of token ids")

    def _apply_template(self, messages: list[dict[str, str]]) -> list[int]:
        if self.chat_template is None:
            raise UsageError("this model has no chat template; give text or token ids")
        return list(self._inner.apply_chat_template(messages, add_generation_prompt=True, return_dict=False))

    def continuation(self, text: str) -> list[int]:
        """Token ids of text that goes on from other text: no begin token."""
        return list(self._inner(text, add_special_tokens=False)["input_ids"])

    @property
    def end(self) -> int:
        """The token that ends an answer. Raises UsageError for a model without one."""
        if self._inner.eos_token_id is None:
            raise UsageError("this model names no end token")
        return int(self._inner.eos_token_id)

    def open_turn(self) -> list[int]:
        """Token ids of the chat template up to where the user begins to speak: a model goes on with a question."""
        if self.chat_template is None:
            raise UsageError("this model has no chat template; give it prompts to answer")
        place = "\x00question\x00"
        turn = self._inner.apply_chat_template([{"role": "user", "content": place}], tokenize=False)
        before, found, _ = str(turn).partition(place)
        if not found:
            raise UsageError("this model's chat template hides where the user's turn begins; give it prompts to answer")
        return self.continuation(before)

    def decode(self, tokens: Sequence[int]) -> str:
        return str(self._inner.decode(list(tokens), skip_special_tokens=True, clean_up_tokenization_spaces=False))


def _from_gguf(path: Path, cache: Path) -> Any:
    """The tokenizer inside a .gguf file, by way of the cache."""
    from transformers import AutoTokenizer

    facts = path.stat()
    identity = f"{path.resolve()} {facts.st_size} {facts.st_mtime_ns} {version('transformers')}"
    kept = cache / hashlib.sha256(identity.encode()).hexdigest()[:16]
    if kept.is_dir():
        return AutoTokenizer.from_pretrained(str(kept))
    tokenizer = AutoTokenizer.from_pretrained(str(path.parent), gguf_file=path.name)
    with suppress(OSError):  # a cache that cannot be written, or that another process has just written, is no error
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache) as folder:
            tokenizer.save_pretrained(f"{folder}/whole")
            Path(folder, "whole").rename(kept)
    return tokenizer

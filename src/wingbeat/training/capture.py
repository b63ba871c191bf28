"""Runs the target over tokenised text and keeps what a draft head learns from, in shards on disk.

A shard is a safetensors file: tokens [T] int32, mask [T] bool (True: a token that the target wrote), lengths [S]
int32 (one a sample, summing to T), greedy [S] bool (the answers are the target's most probable words),
taps [T, num_taps * H] bfloat16, hidden [T, H] bfloat16 (after the final norm). The target's probabilities are not
stored: `target.logits(hidden)` gives them back. `manifest.json` names every finished shard with its checksum; it is
rewritten after each, so a run that is killed loses one shard at most.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from wingbeat.errors import CorruptError, MismatchError, NotFoundError, UsageError
from wingbeat.model.layers import ForwardInputs
from wingbeat.model.target import Target
from wingbeat.training.checkpoint import replace_file, write_json

MANIFEST = "manifest.json"


@dataclass(frozen=True)
class Sample:
    """One tokenised conversation. tokens [T] int64; mask [T] bool, True where the target wrote the token;
    greedy: it wrote them at temperature 0."""

    tokens: Tensor
    mask: Tensor
    greedy: bool = True

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.tokens.numpy().astype(np.int32).tobytes() + self.mask.numpy().tobytes()).hexdigest()


@dataclass(frozen=True)
class Captured:
    """A sample with the target's states. taps [T, num_taps * H], hidden [T, H], both bfloat16."""

    tokens: Tensor
    mask: Tensor
    taps: Tensor
    hidden: Tensor
    greedy: bool = True


@torch.inference_mode()
def run_target(target: Target, samples: Sequence[Sample], taps: Sequence[int]) -> list[Captured]:
    """One batch through the target, padded on the right (later columns are never seen by earlier tokens)."""
    config, device = target.config, target.device
    rows, width = len(samples), max(len(sample.tokens) for sample in samples)
    tokens = torch.zeros(rows, width, dtype=torch.int64)
    for row, sample in enumerate(samples):
        tokens[row, : len(sample.tokens)] = sample.tokens
    starts = torch.zeros(rows, dtype=torch.int64, device=device)
    inputs = ForwardInputs.in_a_row(tokens.to(device), starts, width)
    shape = (rows, config.num_kv_heads, width, config.head_dim)
    keys, values = torch.empty(2, *shape, dtype=target.dtype, device=device)
    out = target(inputs, [(keys, values)] * config.num_layers, taps)  # no layer needs another's cache
    tapped, hidden = out.taps.to("cpu", torch.bfloat16), out.hidden.to("cpu", torch.bfloat16)
    return [
        Captured(sample.tokens, sample.mask, tapped[row, :size], hidden[row, :size], sample.greedy)
        for row, (sample, size) in enumerate((sample, len(sample.tokens)) for sample in samples)
    ]


def length_batches(lengths: Sequence[int], batch_tokens: int) -> list[list[int]]:
    """Indices grouped by similar length, each group at most `batch_tokens` once padded (one sample at least)."""
    batches: list[list[int]] = []
    width = 0
    for index in sorted(range(len(lengths)), key=lambda i: lengths[i]):
        width = max(width, lengths[index])
        if not batches or width * (len(batches[-1]) + 1) > batch_tokens:
            batches.append([])
            width = lengths[index]
        batches[-1].append(index)
    return batches


def capture_samples(
    target: Target, samples: Sequence[Sample], taps: Sequence[int], batch_tokens: int = 4096
) -> list[Captured]:
    """The states of `samples`, in their order."""
    captured: dict[int, Captured] = {}
    for batch in length_batches([len(sample.tokens) for sample in samples], batch_tokens):
        captured.update(zip(batch, run_target(target, [samples[i] for i in batch], taps), strict=True))
    return [captured[index] for index in range(len(samples))]


class CaptureStore:
    """A directory of shards. Reads memory-mapped; one shard is written at a time."""

    def __init__(self, directory: Path, meta: dict[str, object], shards: list[dict[str, object]]) -> None:
        self.directory, self.meta, self.shards = directory, meta, shards

    @classmethod
    def open(cls, directory: Path) -> CaptureStore:
        """Raises NotFoundError without a manifest, CorruptError when it cannot be read."""
        path = directory / MANIFEST
        if not path.exists():
            raise NotFoundError(f"{directory} holds no captured text (no {MANIFEST}); run `wingbeat train capture`")
        try:
            manifest = json.loads(path.read_text())
            return cls(directory, manifest["meta"], manifest["shards"])
        except (ValueError, KeyError) as error:
            raise CorruptError(f"{path} cannot be read ({error}); capture into a new directory") from error

    @property
    def num_samples(self) -> int:
        return sum(int(str(shard["samples"])) for shard in self.shards)

    @property
    def num_tokens(self) -> int:
        return sum(int(str(shard["tokens"])) for shard in self.shards)

    def append(self, captured: Sequence[Captured], digest: str) -> None:
        """Writes one shard and then the manifest; raises StorageError when there is no room."""
        name = f"shard-{len(self.shards):05d}.safetensors"
        tensors = {
            "tokens": torch.cat([item.tokens for item in captured]).to(torch.int32),
            "mask": torch.cat([item.mask for item in captured]),
            "lengths": torch.tensor([len(item.tokens) for item in captured], dtype=torch.int32),
            "greedy": torch.tensor([item.greedy for item in captured]),
            "taps": torch.cat([item.taps for item in captured]),
            "hidden": torch.cat([item.hidden for item in captured]),
        }
        checksum = replace_file(self.directory / name, lambda path: save_file(tensors, path))
        total = int(tensors["lengths"].sum())
        entry = {"file": name, "samples": len(captured), "tokens": total, "sha256": checksum, "text": digest}
        self.shards.append(entry)
        write_json(self.directory / MANIFEST, {"meta": self.meta, "shards": self.shards})

    def read(self, index: int, verify: bool = True) -> list[Captured]:
        """One shard's samples; raises CorruptError when its bytes are not those that were written."""
        entry = self.shards[index]
        path = self.directory / str(entry["file"])
        if not path.exists():
            raise NotFoundError(f"shard {path} is missing; delete {self.directory} and capture again")
        if verify and file_checksum(path) != entry["sha256"]:
            raise CorruptError(f"shard {path} does not match its checksum; delete {self.directory} and capture again")
        try:
            tensors = load_file(path)
        except SafetensorError as error:
            raise CorruptError(f"shard {path} cannot be read ({error}); capture again") from error
        sizes = tensors["lengths"].tolist()
        parts = [tensors[name].split(sizes) for name in ("tokens", "mask", "taps", "hidden")]
        greedy = tensors["greedy"].tolist()
        return [Captured(tokens.long(), *rest) for tokens, *rest in zip(*parts, greedy, strict=True)]

    def __iter__(self) -> Iterator[Captured]:
        for index in range(len(self.shards)):
            yield from self.read(index)


def file_checksum(path: Path) -> str:
    """sha256 of a file, read in pieces."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def describe_target(target: Target, taps: Sequence[int]) -> dict[str, object]:
    """What must agree between captured text and the target that a head is trained for."""
    config = target.config
    embedding = target.embed_tokens.weight
    probe = embedding[:: max(1, len(embedding) // 64)].float().sum(-1).cpu()  # differs between any two real models
    return {
        "taps": list(taps), "hidden_size": config.hidden_size, "vocab_size": config.vocab_size,
        "num_layers": config.num_layers, "weights": hashlib.sha256(probe.numpy().tobytes()).hexdigest()[:16],
    }


def capture(
    target: Target,
    samples: Sequence[Sample],
    directory: Path,
    taps: Sequence[int],
    shard_samples: int = 256,
    progress: Callable[[int, int], None] = lambda samples, tokens: None,
) -> CaptureStore:
    """Captures `samples` into `directory`, continuing where an earlier run of the same text stopped.

    Memory: one shard (`shard_samples` samples). progress(samples, tokens) is called after each shard.
    Raises UsageError without text, MismatchError when the directory holds other text, another target or other taps.
    """
    if not samples:
        raise UsageError("no text to capture; give conversations with at least one answer")
    if not taps:
        raise UsageError("a head needs at least one tap of the target; name the layers whose input it reads")
    if outside := [tap for tap in taps if not 0 <= tap <= target.config.num_layers]:
        raise UsageError(f"no tap {outside[0]} in a target of {target.config.num_layers} layers; choose others")
    meta = describe_target(target, taps)
    directory.mkdir(parents=True, exist_ok=True)
    store = CaptureStore.open(directory) if (directory / MANIFEST).exists() else CaptureStore(directory, meta, [])
    if store.meta != meta:
        raise MismatchError(f"{directory} was captured from another target or other taps; use a new directory")
    for number, begin in enumerate(range(0, len(samples), shard_samples)):
        part = samples[begin : begin + shard_samples]
        digest = hashlib.sha256("".join(sample.digest for sample in part).encode()).hexdigest()
        if number >= len(store.shards):
            store.append(capture_samples(target, part, taps), digest)
        elif store.shards[number]["text"] != digest:
            raise MismatchError(f"{directory} holds other text than was given; use a new directory")
        progress(store.num_samples, store.num_tokens)
    return store

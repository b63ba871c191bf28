"""Tensors and JSON on disk: safetensors (one file or sharded) and `pytorch_model.bin`, read one tensor at a time."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from wingbeat.errors import CorruptError, MismatchError, NotFoundError

SINGLE_FILES = ("model.safetensors", "pytorch_model.bin")


@dataclass(frozen=True)
class Stored:
    """A tensor that is still on disk: its shape (torch order), the file that holds it and how to read it."""

    shape: tuple[int, ...]
    file: Path
    read: Callable[[], Tensor]


StoredTensors = dict[str, Stored]


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object. Raises NotFoundError where there is no file, CorruptError where it is no JSON object."""
    try:
        value = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        raise NotFoundError(f"{path.parent} has no {path.name}; is this a model directory?") from None
    except (ValueError, OSError) as error:
        raise CorruptError(f"{path} cannot be read as JSON ({error}); fetch it again") from error
    if not isinstance(value, dict):
        raise CorruptError(f"{path} holds no JSON object; fetch it again")
    return value


def weight_files(directory: Path) -> list[Path]:
    """The files that hold a directory's tensors: one, or the shards that its index names, safetensors first.

    Raises NotFoundError where there are none or a shard is missing.
    """
    for name in SINGLE_FILES:
        index = directory / f"{name}.index.json"
        if (directory / name).is_file():
            return [directory / name]
        if index.is_file():
            return _shards(index)
    others = sorted(directory.glob("*.safetensors"))
    if len(others) == 1:
        return others
    raise NotFoundError(f"{directory} has no weights: expected {' or '.join(SINGLE_FILES)}, or an index of shards")


def _shards(index: Path) -> list[Path]:
    names = read_json(index).get("weight_map")
    if not isinstance(names, dict) or not names:
        raise CorruptError(f"{index} has no weight_map; fetch it again")
    shards = [index.parent / name for name in sorted(set(names.values()))]
    if missing := [shard.name for shard in shards if not shard.is_file()]:
        raise NotFoundError(f"{index.parent} lacks the shards {', '.join(missing)}; the download is not complete")
    return shards


def open_tensors(directory: Path) -> StoredTensors:
    """Every tensor of a model directory, by the name it has in the file.

    Raises NotFoundError (no weights), CorruptError (damaged file), MismatchError (one name in two shards).
    """
    tensors: StoredTensors = {}
    for file in weight_files(directory):
        found = _open_safetensors(file) if file.suffix == ".safetensors" else _open_bin(file)
        if twice := tensors.keys() & found.keys():
            raise MismatchError(f"{min(twice)} is in {file.name} and in {tensors[min(twice)].file.name}")
        tensors |= found
    return tensors


def _open_safetensors(path: Path) -> StoredTensors:
    try:
        handle = safe_open(path, framework="pt")
        shapes = {name: tuple(handle.get_slice(name).get_shape()) for name in handle.keys()}  # noqa: SIM118
    except (SafetensorError, OSError, ValueError) as error:
        raise CorruptError(f"{path} is damaged or cut short ({error}); fetch it again") from error
    return {name: Stored(shape, path, partial(handle.get_tensor, name)) for name, shape in shapes.items()}


def _open_bin(path: Path) -> StoredTensors:
    try:
        values = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # the unpickler of a damaged file raises nearly anything
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise CorruptError(f"{path} is damaged, or holds more than tensors ({reason}); fetch it again") from error
    if not isinstance(values, dict) or not all(isinstance(value, Tensor) for value in values.values()):
        raise CorruptError(f"{path} is not a dictionary of tensors; save the state_dict alone")
    return {name: Stored(tuple(value.shape), path, partial(_same, value)) for name, value in values.items()}


def _same(value: Tensor) -> Tensor:
    return value

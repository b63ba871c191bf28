"""GGUF files: the header, read by the published layout, and tensors dequantised by the gguf library.

The library's own reader builds a Python object for every token and merge of the vocabulary, which takes longer
than loading the weights; here those arrays are skipped. Layout: ggml's docs/gguf.md, version 3, little endian.
"""

from __future__ import annotations

import math
import mmap
import struct
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType, dequantize
from torch import Tensor

from wingbeat.errors import CorruptError, UnsupportedError
from wingbeat.model.weights.files import Stored, StoredTensors

SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
STRING, ARRAY = 8, 9
JOINED_ROWS = 32
SHORT = 64  # arrays of scalars up to this length are kept: per-layer numbers, not the vocabulary


@dataclass(frozen=True)
class GgufFile:
    """metadata by key (arrays of strings and long arrays are left out); tensors by GGUF name, torch shapes."""

    metadata: dict[str, Any]
    tensors: StoredTensors


class _Cursor:
    """A position in the mapped file; reading past the end is a struct.error."""

    def __init__(self, data: mmap.mmap) -> None:
        self.data, self.at = data, 0

    def scalar(self, code: str) -> Any:
        (value,) = struct.unpack_from("<" + code, self.data, self.at)
        self.at += struct.calcsize("<" + code)
        return value

    def skip(self, size: int) -> None:
        self.at += size
        if self.at > len(self.data):
            raise struct.error("past the end")

    def string(self) -> str:
        start, size = self.at + 8, self.scalar("Q")
        self.skip(size)
        return self.data[start:self.at].decode("utf-8", "replace")

    def value(self, kind: int) -> Any:
        if kind == STRING:
            return self.string()
        if kind == ARRAY:
            return self._array(self.scalar("I"), self.scalar("Q"))
        return self.scalar(SCALARS[kind])

    def _array(self, kind: int, count: int) -> list[Any] | None:
        if kind == STRING:
            for _ in range(count):
                self.skip(self.scalar("Q"))
            return None
        if count <= SHORT:
            return [self.value(kind) for _ in range(count)]
        self.skip(count * struct.calcsize(SCALARS[kind]))
        return None


def open_gguf(path: Path) -> GgufFile:
    """Reads the header and maps the tensors. Raises CorruptError (cut short, not GGUF) and UnsupportedError."""
    try:
        with path.open("rb") as file:
            data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        return _read_header(_Cursor(data), path)
    except (struct.error, KeyError, ValueError, IndexError, OSError, OverflowError, RecursionError) as error:
        raise CorruptError(f"{path} is damaged or cut short ({error}); fetch it again") from error


def _read_header(cursor: _Cursor, path: Path) -> GgufFile:
    magic, version = cursor.data[:4], struct.unpack_from("<I", cursor.data, 4)[0]
    if magic != b"GGUF":
        raise CorruptError(f"{path} is not a GGUF file (it starts with {magic!r})")
    if version not in (2, 3):
        raise UnsupportedError(f"{path}: GGUF version {version} is not implemented (versions 2 and 3, little endian)")
    cursor.skip(8)
    num_tensors, num_keys = cursor.scalar("Q"), cursor.scalar("Q")
    metadata = {}
    for _ in range(num_keys):
        key = cursor.string()
        metadata[key] = cursor.value(cursor.scalar("I"))
    infos = [_tensor_info(cursor) for _ in range(num_tensors)]
    alignment = metadata.get("general.alignment", 32)
    if not isinstance(alignment, int) or alignment <= 0:
        raise ValueError(f"alignment {alignment!r}")
    base = -(-cursor.at // alignment) * alignment
    tensors = {name: _stored(cursor.data, path, shape, kind, base + offset) for name, shape, kind, offset in infos}
    return GgufFile(metadata, tensors)


def _tensor_info(cursor: _Cursor) -> tuple[str, tuple[int, ...], int, int]:
    """Name, shape in torch order (GGUF counts the fastest axis first), type, offset."""
    name = cursor.string()
    sizes = [cursor.scalar("Q") for _ in range(cursor.scalar("I"))]
    return name, tuple(reversed(sizes)), cursor.scalar("I"), cursor.scalar("Q")


def _stored(data: mmap.mmap, path: Path, shape: tuple[int, ...], kind: int, start: int) -> Stored:
    quantisation = GGMLQuantizationType(kind)
    block, block_bytes = GGML_QUANT_SIZES[quantisation]
    row_bytes = shape[-1] // block * block_bytes
    size = row_bytes * int(np.prod(shape[:-1], dtype=np.int64))
    if shape[-1] % block or start + size > len(data):
        raise ValueError(f"a tensor needs bytes {start} to {start + size}, the file has {len(data)}")
    read = partial(_dequantise, data, start, (*shape[:-1], row_bytes), quantisation)
    return Stored(shape, path, read)


def _dequantise(data: mmap.mmap, start: int, shape: tuple[int, ...], quantisation: GGMLQuantizationType) -> Tensor:
    """A tensor as float32; shape is that of the bytes."""
    count = int(np.prod(shape, dtype=np.int64))
    together = math.gcd(count // shape[-1], JOINED_ROWS)  # blocks stand alone: longer rows, fewer calls in the library
    rows = np.frombuffer(data, np.uint8, count, start).reshape(-1, together * shape[-1])
    try:
        with np.errstate(all="ignore"):  # NaN and infinity are found, and named, by whoever loads the tensor
            values = dequantize(rows, quantisation)
    except NotImplementedError as error:
        raise UnsupportedError(f"GGUF tensors of type {quantisation.name} are not implemented") from error
    return torch.from_numpy(np.array(values, dtype=np.float32, copy=not values.flags.writeable)).view(*shape[:-1], -1)


def reread(stored: Stored, change: Callable[[Tensor], Tensor]) -> Stored:
    """The same stored tensor, with `change` applied whenever it is read."""
    return Stored(stored.shape, stored.file, lambda: change(stored.read()))

"""The lines of a record's file: each a JSON object with a checksum of its own, arrays packed into text; how they get
onto the disk so that nothing is lost that was there.
"""

from __future__ import annotations

import contextlib
import gc
import hashlib
import json
import os
import sys
import zlib
from array import array
from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from wingbeat.errors import StorageError

START = b'{"check":"'
DIGITS = 16
SIZES = {"i": 4, "f": 4, "d": 8}  # bytes of a number of each array type
LENGTH = len(START) + DIGITS + 2  # of a line's start: up to the checksum's end, a quote and a comma


def write(kind: str, body: Mapping[str, Any]) -> bytes:
    """One line: {"check": first 16 hexadecimal digits of the SHA-256 of all that follows it, kind: body}."""
    rest = f'"{kind}":{json.dumps(body, separators=(",", ":"))}}}\n'.encode()
    return _start(rest) + rest


def read(line: bytes) -> tuple[str, Any]:
    """Kind and body of a line with its line end. Raises ValueError saying what is wrong with it."""
    if not line.endswith(b"\n"):
        raise ValueError("it is cut short")
    rest = line[LENGTH:]
    if line[:LENGTH] != _start(rest):
        raise ValueError("it was changed: its checksum does not fit")
    [(kind, body)] = json.loads(b"{" + rest).items()
    return kind, body


def _start(rest: bytes) -> bytes:
    """How a line with this rest begins."""
    return START + hashlib.sha256(rest).hexdigest()[:DIGITS].encode() + b'",'


def pack(arrays: Mapping[str, array[Any]]) -> dict[str, Any]:
    """Arrays as a JSON object: [name, array type, length] of each, and their little-endian bytes, compressed."""
    shapes = [[name, column.typecode, len(column)] for name, column in arrays.items()]
    content = b"".join(_little_endian(column).tobytes() for column in arrays.values())
    return {"columns": shapes, "data": b64encode(zlib.compress(content)).decode()}


def unpack(packed: Mapping[str, Any]) -> dict[str, array[Any]]:
    """The reverse of `pack`. Raises KeyError, ValueError or zlib.error for what `pack` did not write."""
    content = zlib.decompress(b64decode(packed["data"]))
    arrays: dict[str, array[Any]] = {}
    begin = 0
    for name, typecode, length in packed["columns"]:
        end = begin + length * SIZES[typecode]
        arrays[name] = _little_endian(array(typecode, content[begin:end]))
        begin = end
    return arrays


def _little_endian(column: array[Any]) -> array[Any]:
    """From this machine's order of bytes to the file's, or back."""
    if sys.byteorder == "little":
        return column
    swapped = column[:]
    swapped.byteswap()
    return swapped


def write_whole(path: Path, content: Iterable[bytes]) -> None:
    """Writes a file, all or nothing. Raises StorageError; the old file is then untouched."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with draft.open("wb") as file:
            file.writelines(content)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    except OSError as error:
        raise _not_saved(path, error) from error
    finally:
        with contextlib.suppress(OSError):
            draft.unlink()  # there is one only when something failed


def append(path: Path, content: bytes) -> None:
    """Adds to a file, or begins it. Raises StorageError; whatever stops it, the file is then as it was."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        before = path.stat().st_size if path.exists() else 0
    except OSError as error:
        raise _not_saved(path, error) from error
    try:
        with path.open("ab") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
    except BaseException as error:
        with contextlib.suppress(OSError):
            os.truncate(path, before)
        if isinstance(error, OSError):
            raise _not_saved(path, error) from error
        raise


def _not_saved(path: Path, error: OSError) -> StorageError:
    return StorageError(f"cannot save the record to {path}: {error.strerror}; choose another place")


@contextlib.contextmanager
def collector_paused() -> Iterator[None]:
    """Without garbage collection, which looks at all that was read so far again and again: half of the time of it."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()

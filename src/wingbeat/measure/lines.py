"""The lines of a record's file: each a JSON object with a checksum of its own, and arrays packed into text."""

from __future__ import annotations

import hashlib
import json
import sys
import zlib
from array import array
from base64 import b64decode, b64encode
from collections.abc import Mapping
from typing import Any

START = b'{"check":"'
DIGITS = 16
REST = len(START) + DIGITS + 2  # where the checked part of a line begins: after the checksum, a quote and a comma


def write(kind: str, body: Mapping[str, Any]) -> bytes:
    """One line: {"check": first 16 hexadecimal digits of the SHA-256 of all that follows it, kind: body}."""
    rest = f'"{kind}":{json.dumps(body, separators=(",", ":"))}}}\n'.encode()
    return START + _check(rest) + b'",' + rest


def read(line: bytes) -> tuple[str, Any]:
    """Kind and body of a line with its line end. Raises ValueError saying what is wrong with it."""
    if not line.endswith(b"\n"):
        raise ValueError("it is cut short")
    if not line.startswith(START) or line[len(START) : len(START) + DIGITS] != _check(line[REST:]):
        raise ValueError("it was changed: its checksum does not fit")
    [(kind, body)] = json.loads(b"{" + line[REST:]).items()
    return kind, body


def _check(rest: bytes) -> bytes:
    return hashlib.sha256(rest).hexdigest()[:DIGITS].encode()


def pack(arrays: Mapping[str, array[Any]]) -> dict[str, Any]:
    """Arrays as a JSON object: [name, array type, length] of each, and their little-endian bytes, compressed."""
    shapes = [[name, column.typecode, len(column)] for name, column in arrays.items()]
    content = b"".join(_little_endian(column).tobytes() for column in arrays.values())
    return {"columns": shapes, "data": b64encode(zlib.compress(content)).decode()}


def unpack(packed: Mapping[str, Any]) -> dict[str, array[Any]]:
    """The reverse of `pack`. Raises ValueError or zlib.error for what `pack` did not write."""
    content = memoryview(zlib.decompress(b64decode(packed["data"])))
    arrays: dict[str, array[Any]] = {}
    begin = 0
    for name, typecode, length in packed["columns"]:
        column: array[Any] = array(typecode)
        end = begin + length * column.itemsize
        column.frombytes(content[begin:end])
        arrays[name] = _little_endian(column)
        begin = end
    return arrays


def _little_endian(column: array[Any]) -> array[Any]:
    """From this machine's order of bytes to the file's, or back."""
    if sys.byteorder == "little":
        return column
    swapped = column[:]
    swapped.byteswap()
    return swapped

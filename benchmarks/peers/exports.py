"""The default model in the forms that other engines read: a Hugging Face directory, and GGUF in bfloat16 and Q8_0."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from interop_vllm import export_target

from peers.processes import PeerError
from wingbeat.model.weights import locate_model


def folder_of(cache: Path) -> Path:
    """Where the forms of the model that is installed now are kept."""
    path = locate_model(None)
    facts = path.stat()
    identity = f"{path.resolve()} {facts.st_size} {facts.st_mtime_ns}"
    return cache / hashlib.sha256(identity.encode()).hexdigest()[:12]


def hf_directory(cache: Path) -> Path:
    """The model as a Hugging Face directory in bfloat16."""
    return _once(folder_of(cache) / "hf", lambda place: export_target(None, place))


def gguf_file(cache: Path, kind: str) -> Path:
    """The model as a GGUF file whose matrices are all of `kind` ("BF16" or "Q8_0"); vectors are float32."""
    return _once(folder_of(cache) / f"{kind}.gguf", lambda place: requantise(locate_model(None), place, kind))


def head_of(head: str | None) -> Path:
    """The draft head's directory; None is the one that ships with wingbeat. Raises PeerError where there is none."""
    from wingbeat.engine.llm import SHIPPED_HEAD

    place = Path(head) if head else SHIPPED_HEAD
    if not place.exists():
        raise PeerError(f"there is no draft head at {place}")
    return place


def _once(place: Path, make: Callable[[Path], None]) -> Path:
    """Makes a file or folder under another name first, so that what stands there is whole."""
    if place.exists():
        return place
    print(f"writing {place} ...", flush=True)
    place.parent.mkdir(parents=True, exist_ok=True)
    half = place.with_name("half-" + place.name)
    if half.is_dir():
        shutil.rmtree(half)
    make(half)
    return half.rename(place)


def requantise(source: Path, place: Path, kind: str) -> None:
    """Writes a GGUF file anew: keys as they are, every matrix dequantised and stored as `kind`."""
    import gguf

    reader = gguf.GGUFReader(source)
    architecture = reader.get_field(gguf.Keys.General.ARCHITECTURE).contents()
    writer = gguf.GGUFWriter(place, architecture)
    file_type = {"BF16": gguf.LlamaFileType.MOSTLY_BF16, "Q8_0": gguf.LlamaFileType.MOSTLY_Q8_0}[kind]
    dropped = {gguf.Keys.General.ARCHITECTURE, gguf.Keys.General.FILE_TYPE}
    for field in reader.fields.values():
        if field.name not in dropped and not field.name.startswith("GGUF."):
            held = field.types[-1] if field.types[0] == gguf.GGUFValueType.ARRAY else None
            writer.add_key_value(field.name, field.contents(), field.types[0], sub_type=held)
    writer.add_file_type(file_type)
    for tensor in reader.tensors:
        _add(writer, tensor, gguf.GGMLQuantizationType[kind])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _add(writer: Any, tensor: Any, kind: Any) -> None:
    import gguf

    values = gguf.dequantize(tensor.data, tensor.tensor_type)
    if values.ndim < 2:
        kind = gguf.GGMLQuantizationType.F32
    writer.add_tensor(tensor.name, gguf.quantize(values, kind), raw_dtype=kind)

"""Loads a target from a Hugging Face directory or a GGUF file."""

from __future__ import annotations

from pathlib import Path

import torch

from wingbeat.errors import MismatchError, NotFoundError
from wingbeat.model.config import TargetConfig
from wingbeat.model.target import Target
from wingbeat.model.weights.assemble import build_empty, fill
from wingbeat.model.weights.files import StoredTensors, open_tensors
from wingbeat.model.weights.gguf_file import open_gguf
from wingbeat.model.weights.gguf_target import gguf_config, gguf_tensors
from wingbeat.model.weights.hf_config import read_hf_config

HARMLESS = ("rotary_emb.inv_freq",)  # buffers that older files carry; they follow from the configuration


def read_target_config(path: Path) -> TargetConfig:
    """The configuration of the target at `path` (directory or .gguf); no weight is read.

    Raises NotFoundError, CorruptError, MismatchError, UnsupportedError.
    """
    if is_gguf(path):
        return gguf_config(open_gguf(path), path)
    return read_hf_config(path)


def load_target(path: Path, dtype: torch.dtype, device: str = "cpu") -> Target:
    """The target at `path` (directory or .gguf), every weight as `dtype` on `device`, for inference only.

    Raises NotFoundError, CorruptError, MismatchError (missing, unexpected or wrongly shaped tensor),
    NonFiniteError, UnsupportedError.
    """
    config, tensors = open_target(path)
    _check_frame(config, tensors, path)
    target = build_empty(lambda: Target(config))
    fill(target, config, tensors, dtype, device)
    return target.to(device).eval()


def _check_frame(config: TargetConfig, tensors: StoredTensors, path: Path) -> None:
    """Raises MismatchError where layers or heads do not fit; before a module of a wild size is built."""
    held = len({name.split(".")[1] for name in tensors if name.startswith("layers.")})
    if held != config.num_layers:
        raise MismatchError(f"{path}: the configuration has {config.num_layers} layers, the weights have {held}")
    query = tensors.get("layers.0.self_attn.q_proj.weight")
    rows = config.num_heads * config.head_dim
    if query and query.shape[0] != rows:
        raise MismatchError(
            f"layers.0.self_attn.q_proj.weight in {path}: expected {rows} rows, "
            f"{config.num_heads} heads of {config.head_dim}, found {query.shape[0]}"
        )


def open_target(path: Path) -> tuple[TargetConfig, StoredTensors]:
    """The configuration and the stored tensors, under this project's names. Raises as `load_target` does."""
    if is_gguf(path):
        file = open_gguf(path)
        config = gguf_config(file, path)
        return config, gguf_tensors(file, config)
    config = read_hf_config(path)
    tensors = {name.removeprefix("model."): stored for name, stored in open_tensors(path).items()}
    dropped = {name for name in tensors if name.endswith(HARMLESS)}
    if config.tie_embeddings:
        dropped.add("lm_head.weight")  # some files hold the tied matrix twice
    return config, {name: stored for name, stored in tensors.items() if name not in dropped}


def is_gguf(path: Path) -> bool:
    """Whether `path` is a GGUF file rather than a directory. Raises NotFoundError where it is neither."""
    if path.is_dir():
        return False
    if path.is_file() and path.suffix == ".gguf":
        return True
    what = "is neither a directory nor a .gguf file" if path.exists() else "does not exist"
    raise NotFoundError(f"{path} {what}; name a Hugging Face model directory or a .gguf file")

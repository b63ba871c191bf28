"""A GGUF file's keys and tensor names in this project's terms."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from wingbeat.errors import MismatchError, UnsupportedError
from wingbeat.model.config import FAMILIES, RopeConfig, TargetConfig
from wingbeat.model.weights.assemble import read_finite
from wingbeat.model.weights.files import StoredTensors
from wingbeat.model.weights.gguf_file import GgufFile, reread
from wingbeat.model.weights.hf_config import as_mismatch, number, whole

ROPE_FACTORS = "rope_freqs.weight"
TOP = {"token_embd": "embed_tokens", "output_norm": "norm", "output": "lm_head"}
IN_LAYER = {
    "attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm",
    "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj", "attn_q_norm": "self_attn.q_norm", "attn_k_norm": "self_attn.k_norm",
    "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj",
}


def gguf_config(file: GgufFile, path: Path) -> TargetConfig:
    """The target's configuration. Raises MismatchError (a key is missing), UnsupportedError."""
    family = file.metadata.get("general.architecture")
    if family not in FAMILIES:
        raise UnsupportedError(f"{path}: architecture {family!r} is not implemented; known: {', '.join(FAMILIES)}")
    keys = {key.removeprefix(f"{family}."): value for key, value in file.metadata.items()}
    _refuse_unsupported(keys, path)
    heads, hidden = whole(keys, "attention.head_count", path), whole(keys, "embedding_length", path)
    head_dim = whole(keys, "attention.key_length", path, hidden // heads)
    if keys.get("rope.dimension_count", head_dim) != head_dim:
        raise UnsupportedError(f"{path}: a rotary embedding on part of the head is not implemented")
    if "token_embd.weight" not in file.tensors:
        raise MismatchError(f"{path} lacks token_embd.weight; is it a whole model?")
    with as_mismatch(path):
        return TargetConfig(
            family=family,
            vocab_size=file.tensors["token_embd.weight"].shape[0],
            hidden_size=hidden,
            intermediate_size=whole(keys, "feed_forward_length", path),
            num_layers=whole(keys, "block_count", path),
            num_heads=heads,
            num_kv_heads=whole(keys, "attention.head_count_kv", path, heads),
            head_dim=head_dim,
            rms_norm_eps=number(keys, "attention.layer_norm_rms_epsilon", path),
            rope=_rope(keys, file, path, head_dim),
            max_position=whole(keys, "context_length", path),
            tie_embeddings="output.weight" not in file.tensors,
            qkv_bias=family == "qwen2",
            qk_norm=family == "qwen3",
        )


def _refuse_unsupported(keys: dict[str, Any], path: Path) -> None:
    if keys.get("expert_count"):
        raise UnsupportedError(f"{path}: mixtures of experts are not implemented")
    if keys.get("attention.sliding_window"):
        raise UnsupportedError(f"{path}: sliding-window attention is not implemented")
    scaling = keys.get("rope.scaling.type", "none")
    if scaling not in ("none", "linear"):
        raise UnsupportedError(f"{path}: rope scaling {scaling!r} is not implemented; known: none, linear, factors")
    for key, value in keys.items():
        if isinstance(value, list) and not key.startswith(("general.", "tokenizer.")):
            raise UnsupportedError(f"{path}: {key} differs between layers, which is not implemented")


def _rope(keys: dict[str, Any], file: GgufFile, path: Path, head_dim: int) -> RopeConfig:
    theta = number(keys, "rope.freq_base", path, 10000.0)
    if ROPE_FACTORS in file.tensors:
        stored = file.tensors[ROPE_FACTORS]
        if stored.shape != (head_dim // 2,):
            raise MismatchError(
                f"{ROPE_FACTORS} in {path}: expected shape [{head_dim // 2}], found {list(stored.shape)}"
            )
        factors = read_finite(ROPE_FACTORS, stored, torch.float32)
        return RopeConfig(theta=theta, kind="factors", factors=tuple(factors.tolist()))
    if keys.get("rope.scaling.type") == "linear":
        return RopeConfig(theta=theta, kind="linear", factor=number(keys, "rope.scaling.factor", path, 1.0))
    return RopeConfig(theta=theta)


def gguf_tensors(file: GgufFile, config: TargetConfig) -> StoredTensors:
    """The tensors under this project's names, rope factors left out, q and k in the Hugging Face layout.

    GGUF stores Llama's q and k for the interleaved rotary embedding (rows of a head taken alternately from its
    halves); Qwen's are stored as they are.
    """
    tensors = {_rename(name): stored for name, stored in file.tensors.items() if name != ROPE_FACTORS}
    if config.family != "llama":
        return tensors
    undo = partial(_halves_apart, head_dim=config.head_dim)
    interleaved = re.compile(r"\.self_attn\.[qk]_proj\.")
    return {name: reread(stored, undo) if interleaved.search(name) else stored for name, stored in tensors.items()}


def _rename(name: str) -> str:
    if found := re.fullmatch(r"blk\.(\d+)\.(\w+)\.(weight|bias)", name):
        layer, part, kind = found.groups()
        return f"layers.{layer}.{IN_LAYER.get(part, part)}.{kind}"
    part, _, kind = name.rpartition(".")
    return f"{TOP.get(part, part)}.{kind}"


def _halves_apart(weight: Tensor, head_dim: int) -> Tensor:
    """[A * D, ...]: rows 0, 2, 4.. of each head to its first half, rows 1, 3, 5.. to its second."""
    pairs = weight.unflatten(0, (-1, head_dim // 2, 2))
    return pairs.transpose(1, 2).reshape(weight.shape)

"""Hugging Face `config.json` fields to a TargetConfig, and the rotary embedding both ways."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from wingbeat.errors import MismatchError, UnsupportedError
from wingbeat.model.config import RopeConfig, TargetConfig
from wingbeat.model.weights.files import read_json

FAMILY_OF = {"LlamaForCausalLM": "llama", "Qwen2ForCausalLM": "qwen2", "Qwen3ForCausalLM": "qwen3"}
ROPE_KINDS = ("default", "linear", "llama3", "factors")


def read_hf_config(directory: Path) -> TargetConfig:
    """The configuration of a target in a Hugging Face directory.

    Raises NotFoundError, CorruptError, MismatchError (a needed key is missing), UnsupportedError.
    """
    path = directory / "config.json"
    raw = read_json(path)
    family = _family(raw, path)
    refuse_unsupported(raw, path)
    heads = need(raw, "num_attention_heads", path)
    hidden = need(raw, "hidden_size", path)
    fallback = 128 if family == "qwen3" else hidden // heads  # what transformers takes where the key is missing
    return TargetConfig(
        family=family,
        vocab_size=need(raw, "vocab_size", path),
        hidden_size=hidden,
        intermediate_size=need(raw, "intermediate_size", path),
        num_layers=need(raw, "num_hidden_layers", path),
        num_heads=heads,
        num_kv_heads=raw.get("num_key_value_heads") or heads,
        head_dim=raw.get("head_dim") or fallback,
        rms_norm_eps=raw.get("rms_norm_eps", 1e-6),
        rope=read_rope(raw, path),
        max_position=raw.get("max_position_embeddings", 2048),
        tie_embeddings=bool(raw.get("tie_word_embeddings", False)),
        qkv_bias=family == "qwen2",
        qk_norm=family == "qwen3",
    )


def need(raw: dict[str, Any], key: str, path: Path) -> Any:
    """raw[key]. Raises MismatchError, naming the file, where it is missing or null."""
    if raw.get(key) is None:
        raise MismatchError(f"{path} has no {key!r}, without which the model's shape is not known")
    return raw[key]


def _family(raw: dict[str, Any], path: Path) -> str:
    name = (raw.get("architectures") or [None])[0]
    family = FAMILY_OF.get(name) if name else raw.get("model_type")
    if family not in FAMILY_OF.values():
        known = ", ".join(FAMILY_OF)
        raise UnsupportedError(f"{path}: architecture {name or family!r} is not implemented; known: {known}")
    return str(family)


def refuse_unsupported(raw: dict[str, Any], path: Path) -> None:
    """Raises UnsupportedError for whatever a decoder layer of ours would silently get wrong."""
    if raw.get("hidden_act", "silu") not in ("silu", "swish"):
        raise UnsupportedError(f"{path}: activation {raw['hidden_act']!r} is not implemented, only silu")
    for key in ("attention_bias", "mlp_bias"):
        if raw.get(key):
            raise UnsupportedError(f"{path}: {key} (a bias on o_proj or in the MLP) is not implemented")
    if raw.get("quantization_config"):
        raise UnsupportedError(f"{path}: quantised weights are not implemented here; use the original or a GGUF file")
    if _slides(raw):
        raise UnsupportedError(f"{path}: sliding-window attention is not implemented")


def _slides(raw: dict[str, Any]) -> bool:
    if layer_types := raw.get("layer_types"):
        return any(kind != "full_attention" for kind in layer_types)
    return bool(raw.get("sliding_window")) and bool(raw.get("use_sliding_window", True))


def read_rope(raw: dict[str, Any], path: Path) -> RopeConfig:
    """The rotary embedding of `rope_parameters` (transformers 5) or `rope_theta` and `rope_scaling` (before).

    A missing theta is 10000. Raises UnsupportedError for a kind that is not implemented, MismatchError where
    a kind's numbers are missing.
    """
    scaling = raw.get("rope_parameters") or raw.get("rope_scaling") or {}
    kind = scaling.get("rope_type") or scaling.get("type") or "default"
    if kind not in ROPE_KINDS or any(isinstance(value, dict) for value in scaling.values()):
        raise UnsupportedError(f"{path}: rope scaling {kind!r} is not implemented; known: {', '.join(ROPE_KINDS)}")
    if (scaling.get("partial_rotary_factor") or raw.get("partial_rotary_factor") or 1) != 1:
        raise UnsupportedError(f"{path}: a rotary embedding on part of the head is not implemented")
    theta = float(scaling.get("rope_theta") or raw.get("rope_theta") or 10000.0)
    if kind == "default":
        return RopeConfig(theta=theta)
    if kind == "factors":
        return RopeConfig(theta=theta, kind=kind, factors=tuple(need(scaling, "factors", path)))
    factor = float(need(scaling, "factor", path))
    if kind == "linear":
        return RopeConfig(theta=theta, kind=kind, factor=factor)
    original = scaling.get("original_max_position_embeddings") or need(raw, "max_position_embeddings", path)
    return RopeConfig(
        theta=theta, kind=kind, factor=factor, original_max_position=original,
        low_freq_factor=float(need(scaling, "low_freq_factor", path)),
        high_freq_factor=float(need(scaling, "high_freq_factor", path)),
    )


def rope_scaling(rope: RopeConfig) -> dict[str, Any] | None:
    """`rope_scaling` as files write it; None for the default kind. "factors" is a kind that only wingbeat reads."""
    if rope.kind == "default":
        return None
    if rope.kind == "factors":
        return {"rope_type": "factors", "factors": list(rope.factors)}
    scaling: dict[str, Any] = {"rope_type": rope.kind, "factor": rope.factor}
    if rope.kind == "llama3":
        scaling["low_freq_factor"] = rope.low_freq_factor
        scaling["high_freq_factor"] = rope.high_freq_factor
        scaling["original_max_position_embeddings"] = rope.original_max_position
    return scaling

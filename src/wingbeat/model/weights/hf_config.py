"""Hugging Face `config.json` fields to a TargetConfig, and the rotary embedding both ways."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from wingbeat.errors import MismatchError, UnsupportedError, UsageError
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
    heads, hidden = whole(raw, "num_attention_heads", path), whole(raw, "hidden_size", path)
    fallback = 128 if family == "qwen3" else hidden // heads  # what transformers takes where the key is missing
    with as_mismatch(path):
        return TargetConfig(
            family=family,
            vocab_size=whole(raw, "vocab_size", path),
            hidden_size=hidden,
            intermediate_size=whole(raw, "intermediate_size", path),
            num_layers=whole(raw, "num_hidden_layers", path),
            num_heads=heads,
            num_kv_heads=whole(raw, "num_key_value_heads", path, heads),
            head_dim=whole(raw, "head_dim", path, fallback),
            rms_norm_eps=number(raw, "rms_norm_eps", path, 1e-6),
            rope=read_rope(raw, path),
            max_position=whole(raw, "max_position_embeddings", path, 2048),
            tie_embeddings=bool(raw.get("tie_word_embeddings", False)),
            qkv_bias=family == "qwen2",
            qk_norm=family == "qwen3",
        )


@contextmanager
def as_mismatch(path: Path) -> Iterator[None]:
    """What a configuration class refuses is, in a file, a MismatchError that names the file."""
    try:
        yield
    except UsageError as error:
        raise MismatchError(f"{path}: {error}") from error


def section(raw: dict[str, Any], key: str, path: Path) -> dict[str, Any]:
    """raw[key], an object; {} where it is missing or null. Raises MismatchError, naming the file."""
    value = raw.get(key) or {}
    if not isinstance(value, dict):
        raise MismatchError(f"{path}: {key!r} is {value!r}, where an object is expected")
    return value


def architecture(raw: dict[str, Any], path: Path) -> str | None:
    """The first of `architectures`; None where there is none. Raises MismatchError, naming the file."""
    names = raw.get("architectures") or [None]
    if not isinstance(names, list) or not isinstance(names[0], str | None):
        raise MismatchError(f"{path}: 'architectures' is {names!r}, where a list of names is expected")
    return names[0]


def number(raw: dict[str, Any], key: str, path: Path, missing: float | None = None) -> float:
    """raw[key], a positive number; `missing`, where the key is missing or null and `missing` is not None.

    Raises MismatchError, naming the file.
    """
    value = missing if raw.get(key) is None else raw[key]
    if value is None:
        raise MismatchError(f"{path} has no {key!r}, without which the model is not known")
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not value > 0:
        raise MismatchError(f"{path}: {key!r} is {value!r}, where a positive number is expected")
    return value


def whole(raw: dict[str, Any], key: str, path: Path, missing: int | None = None) -> int:
    """As `number`, but a whole one."""
    value = number(raw, key, path, missing)
    if value != int(value):
        raise MismatchError(f"{path}: {key!r} is {value!r}, where a whole number is expected")
    return int(value)


def _family(raw: dict[str, Any], path: Path) -> str:
    name = architecture(raw, path)
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
    return bool(raw.get("sliding_window") and raw.get("use_sliding_window"))  # Qwen carries a window that is off


def read_rope(raw: dict[str, Any], path: Path) -> RopeConfig:
    """The rotary embedding of `rope_parameters` (transformers 5) or `rope_theta` and `rope_scaling` (before).

    A missing theta is 10000. Raises UnsupportedError for a kind that is not implemented, MismatchError where
    a kind's numbers are missing.
    """
    scaling = section(raw, "rope_parameters", path) or section(raw, "rope_scaling", path)
    kind = scaling.get("rope_type") or scaling.get("type") or "default"
    if kind not in ROPE_KINDS or any(isinstance(value, dict) for value in scaling.values()):
        raise UnsupportedError(f"{path}: rope scaling {kind!r} is not implemented; known: {', '.join(ROPE_KINDS)}")
    if (scaling.get("partial_rotary_factor") or raw.get("partial_rotary_factor") or 1) != 1:
        raise UnsupportedError(f"{path}: a rotary embedding on part of the head is not implemented")
    theta = float(scaling.get("rope_theta") or raw.get("rope_theta") or 10000.0)
    if kind == "default":
        return RopeConfig(theta=theta)
    if kind == "factors":
        return RopeConfig(theta=theta, kind=kind, factors=tuple(scaling.get("factors") or ()))
    factor = number(scaling, "factor", path)
    if kind == "linear":
        return RopeConfig(theta=theta, kind=kind, factor=factor)
    context = raw.get("max_position_embeddings")
    return RopeConfig(
        theta=theta, kind=kind, factor=factor,
        low_freq_factor=number(scaling, "low_freq_factor", path),
        high_freq_factor=number(scaling, "high_freq_factor", path),
        original_max_position=whole(scaling, "original_max_position_embeddings", path, context),
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

"""Plain facts about a target or a draft head on disk, for `wingbeat info`. No weight is read."""

from __future__ import annotations

import math
from pathlib import Path

from wingbeat.model.config import RopeConfig, TargetConfig
from wingbeat.model.weights.files import StoredTensors, open_tensors, read_json
from wingbeat.model.weights.head_config import HeadFacts, complete, is_head, read_head_facts
from wingbeat.model.weights.head_files import EMBEDDINGS
from wingbeat.model.weights.head_names import form_of, own_names
from wingbeat.model.weights.target_files import is_gguf, open_target

Facts = dict[str, object]


def describe(path: Path, target: TargetConfig | None = None) -> Facts:
    """What lies at `path` (model directory, head directory or .gguf): sizes, flags, taps, what was assumed.

    Values are JSON types. `target`, where given, fills in a head's default taps and is checked to fit it.
    Raises as `load_target` and `load_head` do, but does not look at the weights' values.
    """
    file = path / "config.json"
    if not is_gguf(path) and is_head(read_json(file), file):
        return _head(path, target)
    return _target(path)


def _target(path: Path) -> Facts:
    config, tensors = open_target(path)
    return {
        "kind": "target",
        "path": str(path),
        "family": config.family,
        "format": "GGUF" if path.is_file() else "Hugging Face",
        **_weight(tensors),
        "layers": config.num_layers,
        **_shape(config.hidden_size, config.intermediate_size, config.num_heads, config.num_kv_heads, config.head_dim),
        "vocabulary": config.vocab_size,
        "context": config.max_position,
        "rope": _rope(config.rope),
        "tied embeddings": config.tie_embeddings,
        "qkv bias": config.qkv_bias,
        "qk norm": config.qk_norm,
        "default taps": list(config.default_taps),
    }


def _head(path: Path, target: TargetConfig | None) -> Facts:
    facts = read_head_facts(path)
    taps: object = "the target's default: entry ids 2, N//2, N-3 of N layers"
    if facts.taps or target:
        config = complete(facts, target)
        taps, assumed = list(config.taps), config.assumed
    else:
        config, assumed = complete(_with_stand_in_taps(facts), None), facts.assumed
    stored = open_tensors(path)
    tensors = own_names(stored, path)
    flags = ("norm_before_residual", "norm_before_fc", "fc_norm", "norm_output", "qkv_bias", "qk_norm")
    return {
        "kind": "EAGLE-3 head",
        "path": str(path),
        "format": f"{facts.form} configuration, {form_of(set(stored))} tensor names",
        **_weight({name: entry for name, entry in tensors.items() if name not in ("d2t", "t2d")}),
        **_shape(config.hidden_size, config.intermediate_size, config.num_heads, config.num_kv_heads, config.head_dim),
        "target hidden size": config.target_hidden_size,
        "taps (entry ids)": taps,
        "vocabulary": config.vocab_size,
        "draft vocabulary": config.draft_vocab_size,
        "coverage of the vocabulary": config.draft_vocab_size / config.vocab_size,
        "embeddings": "its own" if EMBEDDINGS in tensors else "the target's",
        "context": config.max_position,
        "rope": _rope(config.rope),
        "flags": [flag for flag in flags if getattr(config, flag)],
        "assumed": list(assumed),
    }


def _with_stand_in_taps(facts: HeadFacts) -> HeadFacts:
    return HeadFacts(facts.path, facts.form, facts.fields, (0, 0, 0), facts.assumed)


def _weight(tensors: StoredTensors) -> Facts:
    """Parameters, and bytes: of the files, and of the parameters alone in bfloat16."""
    parameters = sum(math.prod(stored.shape) for stored in tensors.values())
    files = {stored.file for stored in tensors.values()}
    return {
        "parameters": parameters,
        "bytes on disk": sum(file.stat().st_size for file in files),
        "bytes in bfloat16": 2 * parameters,
    }


def _shape(hidden: int, intermediate: int, heads: int, kv_heads: int, head_dim: int) -> Facts:
    return {
        "hidden size": hidden, "intermediate size": intermediate,
        "heads": heads, "key/value heads": kv_heads, "head size": head_dim,
    }


def _rope(rope: RopeConfig) -> str:
    scaling = "" if rope.kind == "default" else f", {rope.kind} scaling"
    factor = f" x{rope.factor:g}" if rope.kind in ("linear", "llama3") else ""
    return f"theta {rope.theta:g}{scaling}{factor}"

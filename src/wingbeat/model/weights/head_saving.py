"""Saves a draft head in any of the three formats; an old file survives whatever goes wrong."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import Tensor

from wingbeat.errors import StorageError, UsageError
from wingbeat.model.config import HeadConfig
from wingbeat.model.draft_head import DraftHead
from wingbeat.model.weights.assemble import split_parts
from wingbeat.model.weights.head_config import NEMO_ARCHITECTURE, TAP_IDS
from wingbeat.model.weights.head_names import FORMS, file_name
from wingbeat.model.weights.hf_config import rope_scaling

ARCHITECTURE = {"eagle3": "LlamaForCausalLMEagle3", "speculators": "Eagle3Speculator", "nemo": NEMO_ARCHITECTURE}


def save_head(head: DraftHead, directory: Path, form: str = "eagle3", dtype: torch.dtype | None = None,
              with_embeddings: bool = False) -> None:
    """Writes `model.safetensors` and `config.json` into `directory`, which is made if need be.

    form: "eagle3" (SafeAILab, SGLang, SpecForge), "speculators" or "nemo"; dtype: of the weights in the file,
    None for the head's own. Embeddings are left out, as the target's are shared on loading, unless
    `with_embeddings` or the head's hidden size differs from the target's. Raises StorageError, and UsageError
    for an unknown form.
    """
    if form not in FORMS:
        raise UsageError(f"unknown head format {form!r}; known: {', '.join(FORMS)}")
    kept = with_embeddings or head.config.hidden_size != head.config.target_hidden_size
    tensors = {file_name(name, form): value for name, value in head_tensors(head, dtype, kept).items()}
    text = json.dumps(head_json(head.config, form, dtype or head.fc.weight.dtype), indent=2) + "\n"
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(f"{directory} cannot be made: {error}") from error
    replace({
        directory / "model.safetensors": lambda file: save_file(tensors, file, metadata={"format": "pt"}),
        directory / "config.json": lambda file: file.write_text(text, "utf-8"),
    })


def head_tensors(head: DraftHead, dtype: torch.dtype | None, with_embeddings: bool) -> dict[str, Tensor]:
    """The head's weights under DraftHead's names, q, k, v and gate, up apart, with d2t (offsets) and t2d."""
    tensors = {}
    for name, parameter in head.named_parameters():
        if name == "embed_tokens.weight" and not with_embeddings:
            continue
        parts = split_parts(name, tuple(parameter.shape), head.config)
        pieces = parameter.detach().split([shape[0] for _, shape in parts])
        for (part, _), piece in zip(parts, pieces, strict=True):
            tensors[part] = piece.to("cpu", dtype, copy=True).contiguous()
    ids = head.draft_to_target.cpu()
    tensors["d2t"] = ids - torch.arange(len(ids))
    tensors["t2d"] = torch.zeros(head.config.vocab_size, dtype=torch.bool).index_fill_(0, ids, True)
    return tensors


def head_json(config: HeadConfig, form: str, dtype: torch.dtype) -> dict[str, Any]:
    """The contents of `config.json`: complete, so that nothing is left to assume.

    Tap ids are written as entry ids, which vLLM reads as they are, and marked as such, because SGLang's rule
    (a first id of 1 means output ids) would misread taps that start at layer 1.
    """
    flags = {key: getattr(config, key) for key in ("norm_before_residual", "norm_before_fc", "fc_norm", "norm_output")}
    top = {
        "architectures": [ARCHITECTURE[form]],
        "draft_vocab_size": config.draft_vocab_size,
        "target_hidden_size": config.target_hidden_size,
        "tie_word_embeddings": False,
        "torch_dtype": str(dtype).removeprefix("torch."),
        **flags,
        "wingbeat": {"tap_ids": "entry"},
    }
    if form == "speculators":
        return top | _speculators_json() | {TAP_IDS: list(config.taps), "transformer_layer_config": _layer_json(config)}
    eagle = {TAP_IDS: list(config.taps), "use_aux_hidden_state": True, "norm_before_fc": config.norm_before_fc}
    extra = {"num_aux_hidden_states": len(config.taps)} if form == "nemo" else {}
    return top | _layer_json(config) | extra | {"model_type": "llama", "eagle_config": eagle}


def _layer_json(config: HeadConfig) -> dict[str, Any]:
    kind = "qwen3" if config.qk_norm else "qwen2" if config.qkv_bias else "llama"
    return {
        "model_type": kind,
        "hidden_act": "silu",
        "hidden_size": config.hidden_size,
        "intermediate_size": config.intermediate_size,
        "num_hidden_layers": 1,
        "num_attention_heads": config.num_heads,
        "num_key_value_heads": config.num_kv_heads,
        "head_dim": config.head_dim,
        "vocab_size": config.vocab_size,
        "rms_norm_eps": config.rms_norm_eps,
        "max_position_embeddings": config.max_position,
        "rope_theta": config.rope.theta,
        "rope_scaling": rope_scaling(config.rope),
        "attention_bias": False,
        "mlp_bias": False,
        "qkv_bias": config.qkv_bias,
        "qk_norm": config.qk_norm,
    }


def _speculators_json() -> dict[str, Any]:
    method = {"proposal_type": "greedy", "speculative_tokens": 3, "verifier_accept_k": 1, "accept_tolerance": 0.0}
    return {
        "speculators_model_type": "eagle3",
        "speculators_version": "0.3.0",
        "speculators_config": {
            "algorithm": "eagle3",
            "proposal_methods": [method],
            "default_proposal_method": "greedy",
            "verifier": {"name_or_path": None, "architectures": []},
        },
        "embed_requires_grad": False,
    }


def replace(writers: dict[Path, Callable[[Path], object]]) -> None:
    """Puts new files in the place of old ones, once all of them are written. Raises StorageError."""
    parts = {path: path.with_name(f".{path.name}.{os.getpid()}.part") for path in writers}
    path = next(iter(parts))
    try:
        for path, write in writers.items():
            write(parts[path])
            with parts[path].open("rb+") as file:
                os.fsync(file.fileno())
        for path, part in parts.items():
            part.replace(path)
    except (OSError, SafetensorError) as error:
        raise StorageError(f"{path} could not be written ({error}); the file that was there is untouched") from error
    finally:
        for part in parts.values():
            part.unlink(missing_ok=True)

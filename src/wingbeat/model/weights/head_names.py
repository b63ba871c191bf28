"""Tensor names of a draft head: this project's (DraftHead's modules) and those of the three formats, both ways."""

from __future__ import annotations

import re
from pathlib import Path

from wingbeat.errors import MismatchError, UnsupportedError
from wingbeat.model.weights.files import StoredTensors

FORMS = ("eagle3", "speculators", "nemo")
IN_LAYER = ("input_layernorm.", "hidden_norm.", "post_attention_layernorm.", "self_attn.", "mlp.")
NOT_PREFIXED = ("lm_head.weight", "d2t", "t2d")  # names that NeMo leaves outside `model.`
LAYER_PREFIX = {"eagle3": "midlayer.", "speculators": "layers.0.", "nemo": "model.layers.0."}
HARMLESS = "rotary_emb.inv_freq"


def file_name(name: str, form: str) -> str:
    """The name in a file of format `form` for one of DraftHead's names (q, k, v and gate, up apart)."""
    if name.startswith(IN_LAYER):
        return LAYER_PREFIX[form] + name
    return f"model.{name}" if form == "nemo" and name not in NOT_PREFIXED else name


def own_names(tensors: StoredTensors, path: Path) -> StoredTensors:
    """The tensors of any format under DraftHead's names; a name of no format stays, and is unexpected later.

    Raises UnsupportedError for a second layer, MismatchError where one tensor is there under two names.
    """
    renamed: StoredTensors = {}
    for name, stored in tensors.items():
        own = _own_name(name)
        if re.match(r"layers\.[1-9]", own):
            raise UnsupportedError(f"{path} holds {name}: a head of more than one layer is not implemented")
        if own in renamed:
            raise MismatchError(f"{path} holds {own} under two names, one of them {name}")
        if not own.endswith(HARMLESS):
            renamed[own] = stored
    return renamed


def _own_name(name: str) -> str:
    bare = name.removeprefix("model.")
    inner = bare.removeprefix("midlayer.").removeprefix("layers.0.")
    return inner if inner.startswith(IN_LAYER) else bare


def form_of(names: set[str]) -> str:
    """The format whose names these are."""
    if any(name.startswith("model.") for name in names):
        return "nemo"
    return "speculators" if any(name.startswith("layers.") for name in names) else "eagle3"

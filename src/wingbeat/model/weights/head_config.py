"""A draft head's `config.json` in any of the three formats (eagle3.md 2.1-2.3, 2.5) to a HeadConfig.

`eagle3` is what SafeAILab, SGLang and SpecForge write, `speculators` what vLLM's speculators writes, `nemo` what
NeMo Automodel writes. Flags come from the configuration alone; what it leaves open is assumed, and listed.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wingbeat.errors import MismatchError, UnsupportedError
from wingbeat.model.config import FAMILIES, HeadConfig, TargetConfig
from wingbeat.model.weights.files import read_json
from wingbeat.model.weights.hf_config import (
    architecture,
    as_mismatch,
    number,
    read_rope,
    refuse_unsupported,
    section,
    whole,
)

TAP_IDS = "eagle_aux_hidden_state_layer_ids"
NEMO_ARCHITECTURE = "LlamaEagle3DraftModel"
FC_FLAGS = ("norm_before_fc", "fc_norm", "norm_output")


@dataclass(frozen=True)
class HeadFacts:
    """What a head's configuration says. taps is None where it names none: the target's default then."""

    path: Path
    form: str
    fields: dict[str, Any]
    taps: tuple[int, ...] | None
    assumed: tuple[str, ...]


def read_head_config(path: Path, target: TargetConfig | None = None) -> HeadConfig:
    """The configuration of the draft head in directory `path`, checked against `target` where one is given.

    Raises NotFoundError, CorruptError, UnsupportedError, and MismatchError (a needed key is missing, two keys
    contradict each other, the head is for another target, or it names no taps and no target is given).
    """
    return complete(read_head_facts(path), target)


def complete(facts: HeadFacts, target: TargetConfig | None) -> HeadConfig:
    """The configuration of `facts`, its taps filled in from the target's. Raises MismatchError."""
    taps, assumed = facts.taps, facts.assumed
    if target is not None:
        _check_target(facts, target)
        if taps is None:
            taps = target.default_taps
            assumed = (*assumed, f"no tap ids given: the target's default, entry ids {list(taps)}")
    if taps is None:
        raise MismatchError(f"{facts.path} names no {TAP_IDS}; name the target, whose default then applies")
    with as_mismatch(facts.path):
        return HeadConfig(**facts.fields, taps=taps, assumed=assumed)


def _check_target(facts: HeadFacts, target: TargetConfig) -> None:
    pairs = (("target_hidden_size", "hidden size", target.hidden_size), ("vocab_size", "vocabulary", target.vocab_size))
    for key, what, found in pairs:
        if facts.fields[key] != found:
            raise MismatchError(
                f"{facts.path}: the head is for a target of {what} {facts.fields[key]}, this target's is {found}"
            )
    if facts.taps and not all(0 <= tap <= target.num_layers for tap in facts.taps):
        raise MismatchError(f"{facts.path}: taps {list(facts.taps)} do not exist in {target.num_layers} layers")


def is_head(raw: dict[str, Any], path: Path) -> bool:
    """Whether the `config.json` at `path` describes a draft head rather than a target."""
    named = "eagle3" in (architecture(raw, path) or "").lower()
    return named or "draft_vocab_size" in raw or "speculators_model_type" in raw


def read_head_facts(path: Path) -> HeadFacts:
    """What `config.json` in directory `path` says. Raises as `read_head_config` does."""
    file = path / "config.json"
    reader = _Reader(read_json(file), file)
    reader.refuse()
    fields = reader.sizes() | reader.flags()
    return HeadFacts(file, reader.form, fields, reader.taps(), tuple(reader.assumed))


class _Reader:
    """One configuration, its places (top level, `eagle_config`, the layer's own) and what had to be assumed."""

    def __init__(self, raw: dict[str, Any], path: Path) -> None:
        self.raw, self.path = raw, path
        self.assumed: list[str] = []
        if "transformer_layer_config" in raw or "speculators_model_type" in raw:
            self.form = "speculators"
        else:
            self.form = "nemo" if architecture(raw, path) == NEMO_ARCHITECTURE else "eagle3"
        self.layer = section(raw, "transformer_layer_config", path) if self.form == "speculators" else raw
        self.eagle = section(raw, "eagle_config", path)
        self.ours = section(raw, "wingbeat", path).get("tap_ids") == "entry"  # nothing is ambiguous then

    def refuse(self) -> None:
        """Raises UnsupportedError for another kind of head, or one that this project's layer would get wrong."""
        kind = self.raw.get("speculators_model_type", "eagle3")
        if not is_head(self.raw, self.path) or kind != "eagle3":
            name = kind if kind != "eagle3" else self.raw.get("architectures")
            raise UnsupportedError(f"{self.path}: {name} is not an EAGLE-3 head, the only kind that is implemented")
        refuse_unsupported(self.layer, self.path)
        if self.form == "speculators" and self.layer.get("model_type", "llama") not in FAMILIES:
            raise UnsupportedError(f"{self.path}: a draft layer of {self.layer['model_type']!r} is not implemented")
        if self.find("parallel_drafting"):
            raise UnsupportedError(f"{self.path}: parallel drafting (P-EAGLE) is not implemented")
        if self.find("eh_proj_before_attn"):
            raise UnsupportedError(f"{self.path}: a projection before attention (eh_proj) is not implemented")
        if self.raw.get("bias"):
            raise UnsupportedError(f"{self.path}: a bias on fc is not implemented")
        if self.find("use_aux_hidden_state") is False:
            raise UnsupportedError(f"{self.path}: a head that reads no taps is not implemented")
        layers = self.layer.get("num_hidden_layers", 1)
        if layers == 1:
            return
        if self.form != "nemo":
            raise UnsupportedError(f"{self.path}: a head of {layers} layers is not implemented, only one layer")
        self.assumed.append(f"num_hidden_layers {layers} is the target's: NeMo builds one layer")

    def sizes(self) -> dict[str, Any]:
        """Everything with a number in it."""
        hidden, heads, vocab = (self.size(key) for key in ("hidden_size", "num_attention_heads", "vocab_size"))
        if "rope_theta" not in self.layer and "rope_theta" not in section(self.layer, "rope_parameters", self.path):
            self.assumed.append("rope_theta missing: 10000, as EAGLE trains")
        self._note_missing("rms_norm_eps", 1e-6, self.layer)
        return {
            "vocab_size": vocab,
            "draft_vocab_size": self.size("draft_vocab_size", vocab, self.raw),
            "hidden_size": hidden,
            "target_hidden_size": self.size("target_hidden_size", hidden, self.raw),
            "intermediate_size": self.size("intermediate_size"),
            "num_heads": heads,
            "num_kv_heads": self.size("num_key_value_heads", heads),
            "head_dim": self.size("head_dim", hidden // heads),
            "rms_norm_eps": number(self.layer, "rms_norm_eps", self.path, 1e-6),
            "rope": read_rope(self.layer, self.path),
            "max_position": self.size("max_position_embeddings", 2048),
        }

    def size(self, key: str, missing: int | None = None, place: dict[str, Any] | None = None) -> int:
        """A size of the layer (or of `place`); where it is missing, `missing`, which is noted."""
        place = self.layer if place is None else place
        self._note_missing(key, missing, place)
        return whole(place, key, self.path, missing)

    def _note_missing(self, key: str, value: float | None, place: dict[str, Any]) -> None:
        if place.get(key) is None and value is not None:
            self.assumed.append(f"{key} missing: {value}")

    def flags(self) -> dict[str, bool]:
        """The switches that change the arithmetic (eagle3.md 2.3)."""
        kind = self.layer.get("model_type") if self.form == "speculators" else None
        flags = {
            "norm_before_residual": self._norm_before_residual(),
            "qkv_bias": bool(self.layer.get("qkv_bias", kind == "qwen2")),
            "qk_norm": bool(self.layer.get("qk_norm", kind == "qwen3")),
        }
        found = {key: self.find(key) for key in FC_FLAGS}
        if found["norm_output"] is None:
            found["norm_output"] = self.find("return_hidden_post_norm")  # what TensorRT-LLM calls it
        if found["norm_output"] and self.form == "eagle3" and not self.ours:
            self.assumed.append("norm_output: the normed state is fed back, as engines read it (SpecForge does not)")
        if missing := [key for key, value in found.items() if value is None]:
            self.assumed.append(f"{', '.join(missing)} missing: off")
        flags |= {key: bool(value) for key, value in found.items()}
        if flags["norm_before_fc"] and flags["fc_norm"]:
            raise MismatchError(f"{self.path} sets norm_before_fc and fc_norm, which exclude each other")
        return flags

    def _norm_before_residual(self) -> bool:
        value = self.find("norm_before_residual")
        if value is None:
            value = self.form == "speculators"
            reason = "on, as vLLM assumes" if value else "off, as EAGLE trains"
            self.assumed.append(f"norm_before_residual missing: {reason}")
        return bool(value)

    def taps(self) -> tuple[int, ...] | None:
        """The tap ids as entry ids; None where none are given.

        speculators and vLLM mean entry ids. SGLang takes ids that start at 1 for ids of layer outputs and adds 1.
        Files that wingbeat writes say `{"wingbeat": {"tap_ids": "entry"}}`, because 1 may be an entry id too.
        """
        ids = self.find(TAP_IDS)
        if not ids:
            return None
        if not isinstance(ids, list) or not all(isinstance(tap, int) for tap in ids):
            raise MismatchError(f"{self.path}: {TAP_IDS} is {ids!r}, where a list of layers is expected")
        if self.ours:
            return tuple(ids)
        if ids[0] != 1:
            if self.form != "speculators":
                self.assumed.append(f"tap ids {ids} read as entry ids: the first is not 1")
            return tuple(ids)
        if self.form == "speculators":
            self.assumed.append(f"tap ids {ids} read as entry ids, as vLLM does, though they start at 1")
            return tuple(ids)
        self.assumed.append(f"tap ids {ids} read as output ids, because the first is 1: each one more as entry id")
        return tuple(tap + 1 for tap in ids)

    def find(self, key: str) -> Any:
        """A key at the top level or in `eagle_config`. Raises MismatchError where the two differ."""
        found = [place[key] for place in (self.raw, self.eagle) if place.get(key) is not None]
        if len(found) == 2 and found[0] != found[1]:
            raise MismatchError(f"{self.path}: {key} is {found[0]} at the top level and {found[1]} in eagle_config")
        return found[0] if found else None

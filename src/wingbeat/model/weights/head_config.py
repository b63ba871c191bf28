"""A draft head's `config.json` in any of the three formats (eagle3.md 2.1-2.3, 2.5) to a HeadConfig.

`eagle3` is what SafeAILab, SGLang and SpecForge write, `speculators` what vLLM's speculators writes, `nemo` what
NeMo Automodel writes. Flags come from the configuration alone; what it leaves open is assumed, and listed.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wingbeat.errors import MismatchError, UnsupportedError
from wingbeat.model.config import HeadConfig, TargetConfig
from wingbeat.model.weights.files import read_json
from wingbeat.model.weights.hf_config import need, read_rope, refuse_unsupported

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
    return HeadConfig(**facts.fields, taps=taps, assumed=assumed)


def _check_target(facts: HeadFacts, target: TargetConfig) -> None:
    pairs = (("target_hidden_size", "hidden size", target.hidden_size), ("vocab_size", "vocabulary", target.vocab_size))
    for key, what, number in pairs:
        if facts.fields[key] != number:
            raise MismatchError(
                f"{facts.path}: the head is for a target of {what} {facts.fields[key]}, this target's is {number}"
            )
    if facts.taps and not all(0 <= tap <= target.num_layers for tap in facts.taps):
        raise MismatchError(f"{facts.path}: taps {list(facts.taps)} do not exist in {target.num_layers} layers")


def is_head(raw: dict[str, Any]) -> bool:
    """Whether a `config.json` describes an EAGLE-3 head rather than a target."""
    named = "eagle3" in " ".join(raw.get("architectures") or []).lower()
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
            self.form = "nemo" if NEMO_ARCHITECTURE in (raw.get("architectures") or []) else "eagle3"
        self.layer = need(raw, "transformer_layer_config", path) if self.form == "speculators" else raw

    def refuse(self) -> None:
        """Raises UnsupportedError for another kind of head, or one that this project's layer would get wrong."""
        kind = self.raw.get("speculators_model_type", "eagle3")
        if not is_head(self.raw) or kind != "eagle3":
            name = kind if kind != "eagle3" else self.raw.get("architectures")
            raise UnsupportedError(f"{self.path}: {name} is not an EAGLE-3 head, the only kind that is implemented")
        refuse_unsupported(self.layer, self.path)
        if self.find("parallel_drafting"):
            raise UnsupportedError(f"{self.path}: parallel drafting (P-EAGLE) is not implemented")
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
        hidden, heads = self.number("hidden_size"), self.number("num_attention_heads")
        vocab = self.number("vocab_size")
        top = self.raw
        if "rope_theta" not in self.layer and "rope_theta" not in (self.layer.get("rope_parameters") or {}):
            self.assumed.append("rope_theta missing: 10000, as EAGLE trains")
        return {
            "vocab_size": vocab,
            "draft_vocab_size": self.number("draft_vocab_size", vocab, top),
            "hidden_size": hidden,
            "target_hidden_size": self.number("target_hidden_size", hidden, top),
            "intermediate_size": self.number("intermediate_size"),
            "num_heads": heads,
            "num_kv_heads": self.number("num_key_value_heads", heads),
            "head_dim": self.number("head_dim", hidden // heads),
            "rms_norm_eps": self.number("rms_norm_eps", 1e-6),
            "rope": read_rope(self.layer, self.path),
            "max_position": self.number("max_position_embeddings", 2048),
        }

    def number(self, key: str, missing: Any = None, place: dict[str, Any] | None = None) -> Any:
        """A size of the layer (or of `place`); where it is missing, `missing`, which is noted."""
        place = self.layer if place is None else place
        if place.get(key) is None and missing is not None:
            self.assumed.append(f"{key} missing: {missing}")
            return missing
        return need(place, key, self.path)

    def flags(self) -> dict[str, bool]:
        """The switches that change the arithmetic (eagle3.md 2.3)."""
        kind = self.layer.get("model_type") if self.form == "speculators" else None
        flags = {
            "norm_before_residual": self._norm_before_residual(),
            "qkv_bias": bool(self.layer.get("qkv_bias", kind == "qwen2")),
            "qk_norm": bool(self.layer.get("qk_norm", kind == "qwen3")),
        }
        found = {key: self.find(key) for key in FC_FLAGS}
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
        if (self.raw.get("wingbeat") or {}).get("tap_ids") == "entry":
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
        places = (self.raw, self.raw.get("eagle_config") or {})
        found = [place[key] for place in places if place.get(key) is not None]
        if len(found) == 2 and found[0] != found[1]:
            raise MismatchError(f"{self.path}: {key} is {found[0]} at the top level and {found[1]} in eagle_config")
        return found[0] if found else None

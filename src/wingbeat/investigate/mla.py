"""Verify of an MLA target by two arithmetics, and which server does which.

Absorbed, as decode: attention runs on the latent cache. Expanded, as prefill: keys and values of the whole context are
projected up again in every verify, in every layer.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from wingbeat.investigate.facts import Fact

ITEM = 2  # bytes of a number
CONTEXT = 8192  # tokens, for which the arithmetic is told
UNSET = (None, "", "not given")
# Memory (bytes/s) and dense bfloat16 products (FLOP/s), by a part of the device's name; from NVIDIA's data sheets.
RATES = {
    "RTX PRO 6000": (1.79e12, 5.0e14), "B200": (8.0e12, 2.25e15), "H200": (4.8e12, 9.9e14), "H100": (3.35e12, 9.9e14),
    "A100": (2.0e12, 3.12e14), "4090": (1.01e12, 1.65e14), "3090": (0.94e12, 7.1e13),
}  # fmt: skip
# How verify of a few tokens runs with an MLA backend. vLLM: a backend whose builder takes single tokens only has verify
# classified as prefill (`query_len_support` in vllm/v1/attention/backends/mla). SGLang: target verify is left out of
# the multi-head path (`_is_extend_without_speculative` in models/deepseek_v2.py), though it may take a prefill kernel
# (cutlass_mla inherits FlashInfer's for all but decode).
EXTENDED = "absorbed, by a prefill kernel"
BACKENDS = {
    "TRITON_MLA": "expanded", "CUTLASS_MLA": "expanded", "FLASHMLA": "absorbed", "FLASHINFER_MLA": "absorbed",
    "FLASH_ATTN_MLA": "absorbed", "flashmla": "absorbed", "trtllm_mla": "absorbed", "fa3": "absorbed",
    "flashinfer": EXTENDED, "cutlass_mla": EXTENDED, "triton": EXTENDED,
}  # fmt: skip


@dataclass(frozen=True)
class Latent:
    """The MLA part of a configuration. heads: on one device."""

    layers: int
    rank: int
    rope: int
    nope: int
    value: int
    heads: int


def expanding_ms(config: Latent, context: int, rates: tuple[float, float]) -> float:
    """The least time, in ms, that expanding `context` tokens adds to a verify, at full memory and compute rates.

    A layer: keys and values out of the latent (computing, or writing them), each key put together with its rotary part
    (read, written), then read by attention.
    """
    memory, flops = rates
    up = config.heads * (config.nope + config.value)
    keys = config.heads * (config.nope + config.rope)
    product = max(2 * config.rank * up / flops, ITEM * up / memory)
    join = ITEM * (config.heads * config.nope + keys) / memory
    attend = ITEM * (keys + config.heads * config.value) / memory
    return 1000 * config.layers * context * (product + join + attend)


def expanding_bytes(config: Latent, context: int) -> tuple[int, int]:
    """Bytes that a verify moves on a device where it expands `context` tokens, and those of the latent cache alone."""
    keys, values = config.heads * (config.nope + config.rope), config.heads * config.value
    up, apart = config.heads * (config.nope + config.value), config.heads * config.nope
    cached = ITEM * config.layers * context
    return cached * (up + apart + keys + keys + values), cached * (config.rank + config.rope)


def notes(facts: dict[str, Fact], rise: float | None) -> list[str]:
    """What the arithmetic says, in sentences; nothing where the target is no MLA model or its shape is not known.

    rise: how much longer a verify became, in ms.
    """
    config, device = _config(facts), _device(facts)
    if config is None:
        return []
    found = [
        "The target has MLA: as decode, verify attends to the latent cache (absorbed); as prefill, it projects the "
        "whole context up again in every layer (expanded)."
    ]
    moved, latent = expanding_bytes(config, CONTEXT)
    found.append(f"For {CONTEXT} tokens, that is {moved / 1e9:.1f} GB to move a device, not {latent / 1e9:.2f} GB.")
    if device:
        at = expanding_ms(config, CONTEXT, RATES[device])
        found.append(
            f"Expanding {CONTEXT} tokens of context in {config.layers} layers, {config.heads} heads a device, takes "
            f"at least {at:.1f} ms in every verify at the full rates of {device}, and grows with context."
        )
        if rise and rise > 0:
            found.append(f"The {rise:.1f} ms that verify rose are what about {CONTEXT * rise / at:,.0f} tokens cost.")
    backend = _backend(facts)
    if backend in BACKENDS:
        found.append(f"The backend {backend} runs verify {BACKENDS[backend]}, as far as its source says.")
    return found


def _backend(facts: dict[str, Fact]) -> Any:
    """What verify runs. SGLang takes its backend of prefill, but where speculative_attention_mode is "decode"
    (`_select_backend` of HybridAttnBackend)."""
    mode = facts.get("setting.speculative_attention_mode")
    phase = "decode" if mode and mode.after == "decode" else "prefill"
    names = (f"setting.{phase}_attention_backend", "setting.attention_backend", "env.VLLM_ATTENTION_BACKEND")
    return next((facts[name].after for name in names if name in facts and facts[name].after not in UNSET), None)


def _config(facts: dict[str, Fact]) -> Latent | None:
    known = _number(facts, "num_hidden_layers", "kv_lora_rank", "qk_rope_head_dim", "qk_nope_head_dim", "v_head_dim")
    heads = _number(facts, "num_attention_heads")
    if known is None or heads is None:
        return None
    parallel = _number(facts, "tp_size") or _number(facts, "tensor_parallel_size") or _number(facts, "tp") or [1]
    layers, rank, rope, nope, value = known
    return Latent(layers, rank, rope, nope, value, max(1, heads[0] // parallel[0]))


def _number(facts: dict[str, Fact], *names: str) -> list[int] | None:
    found: list[Any] = [facts[f"setting.{name}"].after for name in names if f"setting.{name}" in facts]
    whole = [int(value) for value in found if str(value).isdecimal()]
    return whole if len(whole) == len(names) else None


def _device(facts: dict[str, Fact]) -> str | None:
    named = str(facts["gpu.0.name"].after) if "gpu.0.name" in facts else ""
    return next((part for part in RATES if part in named), None)


def configuration(raw: str) -> dict[str, int]:
    """The numbers of a config.json, as far as its beginning was kept: {} where there are none."""
    try:
        found = json.loads(raw)
    except ValueError:
        found = {name: int(value) for name, value in re.findall(r'"(\w+)": (\d+)', raw)}
    return {name: value for name, value in found.items() if isinstance(value, int)} if isinstance(found, dict) else {}

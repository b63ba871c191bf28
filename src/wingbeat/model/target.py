"""The target: a decoder-only transformer that also hands out the hidden states EAGLE-3 reads (its taps)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from wingbeat.model.attention import KV
from wingbeat.model.config import TargetConfig
from wingbeat.model.layers import MLP, Attention, ForwardInputs, Linear, RMSNorm, Rotary, pack, randomise, to_int8


@dataclass(frozen=True)
class TargetOutput:
    """hidden [B, N, H], after the final norm; taps [B, N, len(taps) * H], before any norm, low to high."""

    hidden: Tensor
    taps: Tensor


class Layer(nn.Module):
    """One decoder layer: attention and MLP, each normed before and added to the residual stream."""

    def __init__(self, config: TargetConfig) -> None:
        super().__init__()
        self.input_layernorm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.self_attn = Attention(config, config.hidden_size)
        self.post_attention_layernorm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.mlp = MLP(config)

    def forward(self, x: Tensor, inputs: ForwardInputs, rotation: tuple[Tensor, Tensor], cache: KV) -> Tensor:
        x = x + self.self_attn(self.input_layernorm(x), inputs, rotation, cache)
        return x + self.mlp(self.post_attention_layernorm(x))


class Target(nn.Module):
    """A Llama, Qwen2 or Qwen3 decoder. Weights come from `model.weights.load_target`."""

    path = "eager"  # every operation is launched by Python; records name it

    def __init__(self, config: TargetConfig) -> None:
        super().__init__()
        self.config = config
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size)
        self.layers = nn.ModuleList(Layer(config) for _ in range(config.num_layers))
        self.norm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.rotary = Rotary(config.rope, config.head_dim)
        self.lm_head = None if config.tie_embeddings else Linear(config.hidden_size, config.vocab_size, bias=False)

    @classmethod
    def random(cls, config: TargetConfig, seed: int = 0, std: float = 0.2) -> Target:
        """A target with reproducible random weights, float32; `std` sets how peaked its distributions are."""
        target = cls(config)
        randomise(target, seed, std)
        return target.eval().requires_grad_(False)

    @property
    def device(self) -> torch.device:
        return self.embed_tokens.weight.device

    @property
    def dtype(self) -> torch.dtype:
        return self.embed_tokens.weight.dtype

    @property
    def output_weight(self) -> Tensor:
        """What turns the final hidden state into logits, [V, H]: the embedding itself where they are tied."""
        return self.embed_tokens.weight if self.lm_head is None else self.lm_head.weight

    def forward(self, inputs: ForwardInputs, caches: Sequence[KV], taps: Sequence[int] = ()) -> TargetOutput:
        """Runs one block, writing its keys and values into `caches` (one pair a layer).

        taps: layers whose input is handed out (entry ids, 0..num_layers; num_layers is the last layer's output).
        """
        x = self.embed_tokens(inputs.tokens)
        rotation = self.rotary(inputs.turns, x.dtype)
        entering = {}
        for index, (layer, cache) in enumerate(zip(self.layers, caches, strict=True)):
            if index in taps:
                entering[index] = x
            x = layer(x, inputs, rotation, cache)
        entering[self.config.num_layers] = x
        tapped = torch.cat([entering[tap] for tap in taps], dim=-1) if taps else x[..., :0]
        return TargetOutput(self.norm(x), tapped)

    def logits(self, hidden: Tensor) -> Tensor:
        """hidden [..., H] (after the final norm) -> logits [..., V] in the weights' type."""
        return F.linear(hidden, self.output_weight) if self.lm_head is None else self.lm_head(hidden)

    def pack(self) -> None:
        """Makes products of few tokens quick, where the device can (see `layers.pack`). Only inference works then."""
        self._untie()
        pack(self)

    def to_int8(self) -> None:
        """Rounds all weights but the embeddings (see `layers.to_int8`). Only inference works then."""
        self._untie()
        to_int8(self)

    def _untie(self) -> None:
        """Gives the output matrix a `Linear` of its own, so that it can be changed and the embeddings stay."""
        if self.lm_head is None:
            with torch.device("meta"):
                self.lm_head = Linear(self.config.hidden_size, self.config.vocab_size, bias=False)
            self.lm_head.weight = self.embed_tokens.weight

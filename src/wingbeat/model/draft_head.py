"""The EAGLE-3 draft head: one decoder layer that reads the target's taps and proposes the next tokens.

Pair i joins what the target knew at position i with the token that followed: (taps of position i, token i+1).
The layer's output at pair i predicts token i+2. While drafting, its own output takes the place of the taps.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from wingbeat.model.attention import KV
from wingbeat.model.config import HeadConfig
from wingbeat.model.layers import MLP, Attention, ForwardInputs, Linear, RMSNorm, Rotary, randomise


class DraftHead(nn.Module):
    """An EAGLE-3 head. Weights come from `model.weights.load_head`.

    `embed_tokens` is set from the target when the checkpoint has none of its own. `draft_to_target` [Vd] int64
    holds the target's id of each draft word (ids, not the offsets that files store as d2t).
    """

    draft_to_target: Tensor

    def __init__(self, config: HeadConfig) -> None:
        super().__init__()
        self.config = config
        size, eps = config.hidden_size, config.rms_norm_eps
        num_taps = len(config.taps)
        self.embed_tokens = nn.Embedding(config.vocab_size, size)
        self.fc = Linear(num_taps * config.target_hidden_size, size, bias=False)
        if config.norm_before_fc:
            self.input_norm = RMSNorm(num_taps * config.target_hidden_size, eps)
        if config.fc_norm:
            self.fc_norm = nn.ModuleList(RMSNorm(config.target_hidden_size, eps) for _ in range(num_taps))
        self.input_layernorm = RMSNorm(size, eps)
        self.hidden_norm = RMSNorm(size, eps)
        self.self_attn = Attention(config, 2 * size)
        self.post_attention_layernorm = RMSNorm(size, eps)
        self.mlp = MLP(config)
        self.norm = RMSNorm(size, eps)
        self.lm_head = Linear(size, config.draft_vocab_size, bias=False)
        self.rotary = Rotary(config.rope, config.head_dim)
        self.register_buffer("draft_to_target", torch.arange(config.draft_vocab_size))

    @classmethod
    def random(cls, config: HeadConfig, seed: int = 0, std: float = 0.2) -> DraftHead:
        """A head with reproducible random weights, float32, and an evenly spread draft vocabulary."""
        head = cls(config)
        randomise(head, seed, std)
        head.draft_to_target = torch.arange(config.draft_vocab_size) * config.vocab_size // config.draft_vocab_size
        return head.eval().requires_grad_(False)

    @property
    def device(self) -> torch.device:
        return self.embed_tokens.weight.device

    @property
    def dtype(self) -> torch.dtype:
        return self.embed_tokens.weight.dtype

    def fuse(self, taps: Tensor) -> Tensor:
        """taps [..., num_taps * target hidden] -> the feature g [..., H] that stands for them."""
        return self.fc(self.norm_taps(taps))

    def norm_taps(self, taps: Tensor) -> Tensor:
        """The norms before fc, if the head has any."""
        if self.config.norm_before_fc:
            return self.input_norm(taps)
        if self.config.fc_norm:
            chunks = taps.chunk(len(self.config.taps), dim=-1)
            return torch.cat([norm(chunk) for norm, chunk in zip(self.fc_norm, chunks, strict=True)], dim=-1)
        return taps

    def forward(self, inputs: ForwardInputs, features: Tensor, cache: KV) -> Tensor:
        """One block of pairs: inputs.tokens [B, N] with features [B, N, H] -> hidden [B, N, H], before the norm."""
        embedded = self.embed_tokens(inputs.tokens)
        rotation = self.rotary(inputs.turns, embedded.dtype)
        x, residual = self.join(embedded, features)
        hidden = residual + self.self_attn(x, inputs, rotation, cache)
        return hidden + self.mlp(self.post_attention_layernorm(hidden))

    def join(self, embedded: Tensor, features: Tensor) -> tuple[Tensor, Tensor]:
        """Embeddings and features, each [..., H] -> the attention's input [..., 2H] and the residual [..., H]."""
        normed = self.hidden_norm(features)
        residual = normed if self.config.norm_before_residual else features
        return torch.cat((self.input_layernorm(embedded), normed), dim=-1), residual

    def feedback(self, hidden: Tensor) -> Tensor:
        """What is fed back as the next step's feature: hidden [..., H] itself, or normed (`norm_output`)."""
        return self.norm(hidden) if self.config.norm_output else hidden

    def logits(self, hidden: Tensor) -> Tensor:
        """hidden [..., H], before the norm -> logits [..., Vd] over the draft vocabulary."""
        return self.lm_head(self.norm(hidden))

"""Runs a target over blocks of tokens, keeping its cache: what tests need and no engine."""

from collections.abc import Sequence

import torch
from torch import Tensor

from wingbeat.model.attention import causal_mask
from wingbeat.model.layers import ForwardInputs
from wingbeat.model.target import Target


class Run:
    """B rows of tokens on one target; each row has its own length."""

    def __init__(self, target: Target, rows: int = 1, columns: int = 64) -> None:
        config = target.config
        shape = (rows, config.num_kv_heads, columns, config.head_dim)
        self.target, self.columns = target, columns
        self.caches = [(torch.zeros(shape), torch.zeros(shape)) for _ in range(config.num_layers)]
        self.lengths = torch.zeros(rows, dtype=torch.int64)

    def feed(self, tokens: Tensor, counts: Sequence[int] | None = None) -> Tensor:
        """tokens [B, N] after what each row holds -> logits [B, N, V]; of row b only counts[b] tokens stay."""
        width = tokens.shape[1]
        positions = self.lengths[:, None] + torch.arange(width)
        mask = causal_mask(positions, self.columns)
        inputs = ForwardInputs(tokens, positions, self.lengths.clone(), mask)
        out = self.target(inputs, self.caches)
        self.lengths += width if counts is None else torch.tensor(counts)
        return self.target.logits(out.hidden)

"""The tree of proposed tokens that one verify looks at.

B rows (requests), N nodes. Node 0 is the root: the last committed token, not yet in the target's cache.
Parents stand before their children. A chain is a tree in which node j's parent is j - 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Tree:
    """tokens, parents (-1 for the root), depths: [B, N] int64. ancestors [B, N, N] bool, each node its own too.
    valid [B, N] bool: False for padding. max_depth bounds depths. is_chain: accepted nodes are 0, 1, 2, ...
    chances [B, N-1]: how probable the drafter holds each drafted node, with all above it (None: it does not say)."""

    tokens: Tensor
    parents: Tensor
    depths: Tensor
    ancestors: Tensor
    valid: Tensor
    max_depth: int
    is_chain: bool
    chances: Tensor | None = None

    @property
    def width(self) -> int:
        return self.tokens.shape[1]

    @classmethod
    def root_only(cls, roots: Tensor) -> Tree:
        """roots [B]: nothing is drafted."""
        return cls.chain(roots, roots.new_zeros(len(roots), 0))

    @classmethod
    def chain(
        cls, roots: Tensor, drafts: Tensor, valid: Tensor | None = None, chances: Tensor | None = None
    ) -> Tree:
        """roots [B], drafts [B, K], which of them are real, valid [B, K] (default: all), and their chances [B, K]."""
        batch, width = drafts.shape[0], drafts.shape[1] + 1
        nodes = torch.arange(width, device=roots.device)
        valid = torch.ones_like(drafts, dtype=torch.bool) if valid is None else valid
        return cls(
            tokens=torch.cat((roots[:, None], drafts), dim=1),
            parents=(nodes - 1).expand(batch, width),
            depths=nodes.expand(batch, width),
            ancestors=(nodes[:, None] >= nodes).expand(batch, width, width),
            valid=torch.cat((torch.ones_like(roots[:, None], dtype=torch.bool), valid), dim=1),
            max_depth=width - 1,
            is_chain=True,
            chances=chances,
        )

    @classmethod
    def grow(cls, roots: Tensor, drafts: Tensor, parents: Tensor, max_depth: int, valid: Tensor | None = None) -> Tree:
        """roots [B]; drafts [B, K] with parents [B, K] given as node numbers (0: the root, i + 1: draft i)."""
        chain = cls.chain(roots, drafts, valid)
        parents = torch.cat((torch.full_like(roots[:, None], -1), parents), dim=1)
        above = parents.clamp(min=0)
        own = torch.eye(parents.shape[1], dtype=torch.bool, device=roots.device).expand_as(chain.ancestors)
        ancestors = own
        for _ in range(max_depth):
            ancestors = own | ancestors.gather(1, above[..., None].expand_as(own))
        depths = ancestors.sum(-1) - 1
        return cls(chain.tokens, parents, depths, ancestors, chain.valid, max_depth, is_chain=False)

    @classmethod
    def from_lists(cls, roots: Tensor, plans: Sequence[tuple[Sequence[int], Sequence[int]]]) -> Tree:
        """plans: one (tokens, parents) a row, parents as in `grow`; shorter rows are padded."""
        width = max(len(tokens) for tokens, _ in plans)
        drafts = roots.new_zeros(len(plans), width)
        parents = roots.new_zeros(len(plans), width)
        valid = torch.zeros_like(drafts, dtype=torch.bool)
        for row, (tokens, above) in enumerate(plans):
            drafts[row, : len(tokens)] = drafts.new_tensor(tokens)
            parents[row, : len(above)] = parents.new_tensor(above)
            valid[row, : len(tokens)] = True
        return cls.grow(roots, drafts, parents, width, valid)

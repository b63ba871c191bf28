"""The tree of proposed tokens that one verify looks at.

B rows (requests), N nodes. Node 0 is the root: the last committed token, not yet in the target's cache.
Parents stand before their children. A chain is a tree in which node j's parent is j - 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor


@dataclass(frozen=True)
class Tree:
    """tokens, parents (-1 for the root), depths: [B, N] int64. ancestors [B, N, N] bool, each node its own too.
    valid [B, N] bool: False for padding. max_depth bounds depths. is_chain: accepted nodes are 0, 1, 2, ...
    scores [B, N-1]: log of how probable the drafter holds each drafted node, with all above it (None: unknown)."""

    tokens: Tensor
    parents: Tensor
    depths: Tensor
    ancestors: Tensor
    valid: Tensor
    max_depth: int
    is_chain: bool
    scores: Tensor | None = None

    @property
    def width(self) -> int:
        return self.tokens.shape[1]

    @classmethod
    def root_only(cls, roots: Tensor) -> Tree:
        """roots [B]: nothing is drafted."""
        return cls.chain(roots[:, None])

    @classmethod
    def chain(cls, tokens: Tensor, valid: Tensor | None = None, scores: Tensor | None = None) -> Tree:
        """tokens [B, N] from the root on; which drafts are real: valid [B, N-1] or [B, 1] (default: all)."""
        batch, width = tokens.shape
        parents, depths, ancestors, all_valid = _chain(batch, width, tokens.device)
        valid = all_valid if valid is None else torch.cat((all_valid[:, :1], valid.expand(batch, width - 1)), dim=1)
        return cls(tokens, parents, depths, ancestors, valid, width - 1, is_chain=True, scores=scores)

    @classmethod
    def grow(cls, roots: Tensor, drafts: Tensor, parents: Tensor, max_depth: int, valid: Tensor | None = None) -> Tree:
        """roots [B]; drafts [B, K] with parents [B, K] given as node numbers (0: the root, i + 1: draft i)."""
        chain = cls.chain(torch.cat((roots[:, None], drafts), dim=1), valid)
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


@lru_cache(maxsize=256)
def _chain(batch: int, width: int, device: torch.device) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Parents, depths, ancestors and validity of a chain, as in `Tree`; nobody writes to them."""
    with torch.inference_mode(False):  # so that they serve in any mode
        nodes = torch.arange(width, device=device)
        ancestors = (nodes[:, None] >= nodes).expand(batch, width, width)
        valid = torch.ones(batch, width, dtype=torch.bool, device=device)
        return (nodes - 1).expand(batch, width), nodes.expand(batch, width), ancestors, valid

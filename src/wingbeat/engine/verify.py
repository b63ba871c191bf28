"""Acceptance: which proposed tokens the target agrees with. Pure; committing is somebody else's work.

At every node the target's own token is drawn (or taken, when greedy) from its distribution there; the path
follows the tree as long as a child holds that token. For proposals that are fixed before the target is asked,
this is recursive rejection sampling without replacement (eagle3.md 1.6) in one draw: child x is taken with
probability p(x), the next child y with p(y) / (1 - p(x)) after x was refused, and what no child holds is drawn
from the rest. So it is lossless; and as a token's uniform number depends only on its place in the output, the
same seed gives the same text with and without speculation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from wingbeat.engine.request import SamplingParams
from wingbeat.engine.sampling import choose
from wingbeat.engine.tree import Tree


@dataclass(frozen=True)
class Verdict:
    """path [B, D+1] int64: nodes of the accepted path from the root on, -1 after its end.
    accepted [B] int64: drafted nodes on it. tokens [B, D+1] int64: what to commit; accepted + 1 of them count."""

    path: Tensor
    accepted: Tensor
    tokens: Tensor


def verify(logits: Tensor, tree: Tree, params: Sequence[SamplingParams], uniforms: Tensor) -> Verdict:
    """logits [B, N, V] of the target at the tree's nodes; params one a row; uniforms [B, N] in [0, 1)."""
    chosen = choose(logits, params, uniforms)
    if tree.is_chain:
        return _along_chain(chosen, tree)
    matches = tree.valid & (tree.tokens == chosen.gather(1, tree.parents.clamp(min=0)))
    matches[:, 0] = True
    accepted_nodes = ~(tree.ancestors & ~matches[:, None]).any(-1)
    accepted, last = tree.depths.where(accepted_nodes, -1).max(-1)
    path = _path_to(tree, last)
    return Verdict(path, accepted, chosen.gather(1, path.clamp(min=0)))


def _along_chain(chosen: Tensor, tree: Tree) -> Verdict:
    """The same for a chain, whose nodes are their own path."""
    matches = tree.valid[:, 1:] & (tree.tokens[:, 1:] == chosen[:, :-1])
    accepted = matches.cumprod(1).sum(1)
    return Verdict(tree.depths.where(tree.depths <= accepted[:, None], -1), accepted, chosen)


def _path_to(tree: Tree, last: Tensor) -> Tensor:
    """The nodes from the root to node last[b]: [B, D+1], padded with -1."""
    on_path = tree.ancestors.gather(1, last[:, None, None].expand(-1, 1, tree.width))[:, 0]
    spare = tree.max_depth + 1  # nodes off the path all land in a spare column
    columns = tree.depths.where(on_path, spare)
    nodes = torch.arange(tree.width, device=last.device).expand_as(columns)
    return torch.full_like(columns[:, :1], -1).repeat(1, spare + 1).scatter(1, columns, nodes)[:, :spare]

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
    """path [B, D+1] int64: nodes of the accepted path from the root on, -1 after its end (None: 0, 1, 2, ...).
    tokens [B, D+1] int64 begins with what to commit; committed: just that, the accepted tokens and one more a row."""

    path: Tensor | None
    tokens: Tensor
    committed: list[list[int]]


def verify(logits: Tensor, tree: Tree, params: Sequence[SamplingParams], uniforms: Tensor | None) -> Verdict:
    """logits [B, N, V] of the target at the tree's nodes; params one a row; uniforms [B, N] in [0, 1), if any draws."""
    chosen = choose(logits, params, uniforms)
    if tree.is_chain:
        return _along_chain(chosen, tree)
    matches = tree.valid & (tree.tokens == chosen.gather(1, tree.parents.clamp(min=0)))
    matches[:, 0] = True
    accepted_nodes = ~(tree.ancestors & ~matches[:, None]).any(-1)
    accepted, last = tree.depths.where(accepted_nodes, -1).max(-1)
    path = _path_to(tree, last)
    tokens = chosen.gather(1, path.clamp(min=0))
    rows = zip(tokens.tolist(), accepted.tolist(), strict=True)
    return Verdict(path, tokens, [row[: count + 1] for row, count in rows])


def _along_chain(chosen: Tensor, tree: Tree) -> Verdict:
    """The same for a chain."""
    committed = []
    for own, drafted, valid in zip(chosen.tolist(), tree.tokens.tolist(), tree.valid.tolist(), strict=True):
        count = 1
        while count < tree.width and valid[count] and drafted[count] == own[count - 1]:
            count += 1
        committed.append(own[:count])
    return Verdict(None, chosen, committed)


def _path_to(tree: Tree, last: Tensor) -> Tensor:
    """The nodes from the root to node last[b]: [B, D+1], padded with -1."""
    on_path = tree.ancestors.gather(1, last[:, None, None].expand(-1, 1, tree.width))[:, 0]
    spare = tree.max_depth + 1  # nodes off the path all land in a spare column
    columns = tree.depths.where(on_path, spare)
    nodes = torch.arange(tree.width, device=last.device).expand_as(columns)
    return torch.full_like(columns[:, :1], -1).repeat(1, spare + 1).scatter(1, columns, nodes)[:, :spare]

"""The draft vocabulary: the target's words that its answers use most."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from wingbeat.errors import UsageError
from wingbeat.model.draft_head import DraftHead
from wingbeat.model.target import Target
from wingbeat.training.loss import Teacher


@dataclass(frozen=True)
class DraftVocab:
    """ids [Vd] int64, ascending: the target's id of each draft word; coverage: their share of the answers' tokens."""

    ids: Tensor
    coverage: float


def count_tokens(texts: Iterable[tuple[Tensor, Tensor]], vocab_size: int) -> Tensor:
    """How often the target wrote each token: pairs of (tokens [T], mask [T]) -> counts [V] int64."""
    counts = torch.zeros(vocab_size, dtype=torch.int64)
    for tokens, mask in texts:
        counts += torch.bincount(tokens[mask], minlength=vocab_size)
    return counts


def choose_vocab(counts: Tensor, size: int) -> DraftVocab:
    """The `size` most frequent tokens (ties and unused ones: the lower id first). counts [V]."""
    if not 0 < size <= len(counts):
        raise UsageError(f"a draft vocabulary of {size} words does not fit a vocabulary of {len(counts)}")
    if not counts.sum():
        raise UsageError("no answer tokens to choose a draft vocabulary from; give conversations with answers")
    ids = torch.sort(counts, descending=True, stable=True).indices[:size].sort().values
    return coverage_of(counts, ids)


def coverage_of(counts: Tensor, ids: Tensor) -> DraftVocab:
    """A given vocabulary [Vd], and what it covers of counts [V]."""
    ids = ids.cpu()
    return DraftVocab(ids, (counts[ids].sum() / counts.sum().clamp(min=1)).item())


def teacher_for(target: Target, head: DraftHead, dtype: torch.dtype) -> Teacher:
    """The rows of the target's output matrix for the head's draft words, in `dtype`, and the map back to them."""
    ids = head.draft_to_target
    output = target.output_weight
    words = torch.full((target.config.vocab_size,), -1, dtype=torch.int64, device=ids.device)
    words[ids] = torch.arange(len(ids), device=ids.device)
    return Teacher(output[ids].to(dtype).contiguous(), words)

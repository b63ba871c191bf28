"""Held-out acceptance of a head, by the positions of a chain: what serving would accept of greedy text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from wingbeat.training.loss import Batch, Outcome


@dataclass(frozen=True)
class Acceptance:
    """unconditional[k]: drafts 0..k are all right; conditional[k]: draft k is right, given that those before are.

    expected: 1 + the sum of the unconditional ones, over all positions of the text. walked: tokens per cycle when the
    text is decoded with this head, cycle after cycle: what an engine counts. loss: cross-entropy per step.
    """

    unconditional: tuple[float, ...]
    conditional: tuple[float, ...]
    expected: float
    walked: float
    loss: tuple[float, ...]


class Tally:
    """Counts over batches, as one float64 tensor so that processes can add theirs up.

    Rows of `counts` [5, steps]: chains that reach step k inside the answer; of these all right before k; all right
    up to k; summed loss; rows in that sum. `cycles` [2]: cycles and tokens of the walk.
    """

    def __init__(self, steps: int) -> None:
        self.counts = torch.zeros(5, steps, dtype=torch.float64)
        self.cycles = torch.zeros(2, dtype=torch.float64)

    def add(self, batch: Batch, outcome: Outcome) -> None:
        steps = len(outcome.right)
        inside = torch.stack([batch.valid(k) for k in range(steps)])
        prefix = outcome.right.int().cumprod(0).bool()
        before = torch.cat((torch.ones_like(prefix[:1]), prefix[:-1]))
        rows = outcome.counted.flatten(1).sum(1).double()
        losses = torch.tensor(outcome.losses, dtype=torch.float64).nan_to_num()
        sums = [part.flatten(1).sum(1).double().cpu() for part in (inside, before & inside, prefix & inside)]
        self.counts += torch.stack([*sums, losses * rows.cpu(), rows.cpu()])
        accepted = prefix.sum(0).cpu()  # [B, M]
        for row in range(len(accepted)):
            self.cycles += walk(accepted[row], batch.rows[row].cpu(), batch.ends[row].cpu())

    def result(self) -> Acceptance:
        inside, before, right, loss, rows = self.counts
        unconditional = (right / inside.clamp(min=1)).tolist()
        return Acceptance(
            tuple(unconditional),
            tuple((right / before.clamp(min=1)).tolist()),
            1 + sum(unconditional),
            (self.cycles[1] / self.cycles[0].clamp(min=1)).item(),
            tuple((loss / rows.clamp(min=1)).tolist()),
        )


def walk(accepted: Tensor, rows: Tensor, ends: Tensor) -> Tensor:
    """Decodes one sample's answers with known acceptance: tensor [cycles, tokens], float64.

    accepted, rows, ends [M]: what each row's chain would accept, its pair and the last token of its answer (-1:
    padding). A cycle at pair p commits tokens p+2 .. p+2+accepted and the next starts at pair p+1+accepted.
    """
    cycles = tokens = 0
    resume_at = -1
    for count, pair, end in zip(accepted.tolist(), rows.tolist(), ends.tolist(), strict=True):
        if end < 0 or pair < resume_at:
            continue
        cycles += 1
        committed = min(count + 1, end - pair - 1)
        tokens += committed
        resume_at = pair + committed
    return torch.tensor([cycles, tokens], dtype=torch.float64)


def held_out(count: int, share: float) -> tuple[list[int], list[int]]:
    """Indices 0..count-1 split into (training, held-out), evenly spread; of two or more, one at least is held out."""
    every = max(2, round(1 / share)) if share > 0 else count + 1
    kept: Sequence[int] = range(every - 1, count, every) or ([count - 1] if share > 0 and count > 1 else [])
    chosen = set(kept)
    return [index for index in range(count) if index not in chosen], sorted(chosen)

"""Training-time test: the head is unrolled over its own outputs, as while drafting, and every step is taught.

Row p starts a chain at pair p = (taps of position p, token p+1). Step k of the row takes token p+1+k and, for k > 0,
the row's own output of step k-1 in place of the taps; it sits at position p+k and predicts token p+2+k. It may look
at the pairs up to p as step 0 made them (real taps) and at its own row's steps 1..k: exactly a drafter's cache.

Shapes: B samples, N tokens (padded), P = N-1 pairs, M rows a sample (padded), H hidden, Vd draft words,
A query heads, K key/value heads, D head size.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from wingbeat.model.attention import KV
from wingbeat.model.draft_head import DraftHead
from wingbeat.training.capture import Captured

CHUNK = 128  # rows of the loss at a time: logits of a chunk stay in the processor's cache


@dataclass(frozen=True)
class Batch:
    """Samples side by side, padded on the right.

    tokens [B, N]; taps [B, N, num_taps * H]; hidden [B, N, H] after the target's final norm; rows [B, M] the pair p at
    which each chain starts; ends [B, M] the last token of the answer that row p lies in, -1 for padding.
    """

    tokens: Tensor
    taps: Tensor
    hidden: Tensor
    rows: Tensor
    ends: Tensor

    def to(self, device: torch.device) -> Batch:
        return Batch(*(getattr(self, name).to(device) for name in self.__dataclass_fields__))

    def valid(self, step: int) -> Tensor:
        """Rows [B, M] whose step predicts a token of the same answer."""
        return self.rows + 2 + step <= self.ends


def chain_rows(mask: Tensor) -> tuple[Tensor, Tensor]:
    """Rows of one sample: pairs p whose tokens p+1 and p+2 are both the target's, and the answer's last token for each.

    mask [T] bool; returns two int64 tensors [rows].
    """
    size = len(mask)
    after = torch.arange(size)[~mask]  # an answer ends before the next token that is not the target's
    breaks = torch.cat((after, torch.tensor([size])))
    starts = torch.nonzero(mask[1:-1] & mask[2:]).flatten()
    return starts, breaks[torch.searchsorted(breaks, starts + 1)] - 1


def collate(samples: Sequence[Captured]) -> Batch:
    """Pads samples into one batch."""
    pad = torch.nn.utils.rnn.pad_sequence
    rows = [chain_rows(sample.mask) for sample in samples]
    return Batch(
        pad([sample.tokens for sample in samples], batch_first=True),
        pad([sample.taps for sample in samples], batch_first=True),
        pad([sample.hidden for sample in samples], batch_first=True),
        pad([starts for starts, _ in rows], batch_first=True),
        pad([ends for _, ends in rows], batch_first=True, padding_value=-1),
    )


def gather_rows(values: Tensor, index: Tensor) -> Tensor:
    """values [B, P, ...], index [B, M] -> [B, M, ...]."""
    return values[torch.arange(len(values), device=values.device)[:, None], index]


def chain_attention(query: Tensor, prefix: KV, hidden_keys: Tensor, chain: Sequence[KV]) -> Tensor:
    """Attention of every row over the prefix it may see and over its own earlier steps.

    query [B, A, M, D]; prefix keys and values [B, K, P, D]; hidden_keys [B, M, P] True where a row may *not* look;
    chain: keys and values [B, K, M, D] of steps 1..k, row m of each belonging to row m alone. Returns [B, M, A * D].
    """
    keys, values = prefix
    batch, heads, rows, size = query.shape
    groups = heads // keys.shape[1]
    query = (query * size**-0.5).view(batch, -1, groups, rows, size)
    scores = (query.flatten(2, 3) @ keys.transpose(-1, -2)).view(batch, -1, groups, rows, keys.shape[2])
    scores = scores.float().masked_fill(hidden_keys[:, None, None], float("-inf"))
    own = [(query * key[:, :, None]).sum(-1, keepdim=True).float() for key, _ in chain]
    weights = torch.cat([scores, *own], dim=-1).softmax(-1).to(values.dtype)
    length = keys.shape[2]
    mixed = (weights[..., :length].flatten(2, 3) @ values).view(batch, -1, groups, rows, size)
    for index, (_, value) in enumerate(chain):
        mixed = mixed + weights[..., length + index, None] * value[:, :, None]
    return mixed.flatten(1, 2).transpose(1, 2).flatten(2)


def unroll(head: DraftHead, batch: Batch, steps: int) -> list[Tensor]:
    """The hidden state [B, M, H] (before the final norm) of every row at steps 0..steps-1."""
    rows, last = batch.rows, batch.tokens.shape[1] - 1
    embedded = head.embed_tokens(batch.tokens[:, 1:])
    x, residual = head.join(embedded, head.fuse(batch.taps[:, :-1].to(embedded.dtype)))
    positions = torch.arange(last, device=rows.device)
    query, *prefix = head.self_attn.project(x, head.rotary(positions[None], embedded.dtype))
    query = gather_rows(query.transpose(1, 2), rows).transpose(1, 2)
    residual = gather_rows(residual, rows)
    hidden_keys = positions > rows[..., None]
    chain: list[KV] = []
    outputs: list[Tensor] = []
    for step in range(steps):
        if step:
            embedded = head.embed_tokens(gather_rows(batch.tokens, (rows + 1 + step).clamp(max=last)))
            x, residual = head.join(embedded, head.feedback(outputs[-1]))
            query, key, value = head.self_attn.project(x, head.rotary(rows + step, embedded.dtype))
            chain.append((key, value))
        mixed = chain_attention(query, (prefix[0], prefix[1]), hidden_keys, chain)
        middle = residual + head.self_attn.o_proj(mixed)
        outputs.append(middle + head.mlp(head.post_attention_layernorm(middle)))
    return outputs


class _SoftCrossEntropy(torch.autograd.Function):
    """Cross-entropy of lm_head(hidden) against given probabilities, chunk by chunk, without keeping logits.

    The gradient of the logits is known as soon as they are: it alone is kept, in the compute type.
    """

    @staticmethod
    def forward(ctx: Any, *inputs: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        hidden, weight, probs, index, scale = inputs
        gradient = hidden.new_empty(len(hidden), len(weight))
        losses = torch.empty(len(hidden), device=hidden.device)
        words = torch.empty(len(hidden), dtype=torch.int64, device=hidden.device)
        for begin in range(0, len(hidden), CHUNK):
            part = slice(begin, begin + CHUNK)
            scores = F.linear(hidden[part], weight).float()
            words[part] = scores.argmax(-1)
            scores = scores.log_softmax(-1)
            wanted = probs[index[part]].float()
            losses[part] = -torch.linalg.vecdot(wanted, scores)
            gradient[part] = scores.exp_().sub_(wanted).mul_(scale[part, None])
        ctx.save_for_backward(hidden, weight, gradient)
        ctx.mark_non_differentiable(losses, words)
        return (losses * scale).sum(), losses, words

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor | None, ...]:
        hidden, weight, gradient = ctx.saved_tensors
        to_hidden = (gradient @ weight) * upstream[0].to(weight.dtype)
        to_weight = (gradient.T @ hidden) * upstream[0].to(weight.dtype) if ctx.needs_input_grad[1] else None
        return to_hidden, to_weight, None, None, None


@dataclass(frozen=True)
class Outcome:
    """loss: a scalar with gradient. Per step: `losses` the mean cross-entropy, and for every row [B, M] whether the
    head's first word was the token that followed (`right`) and whether the row counts (`counted`)."""

    loss: Tensor
    losses: list[float]
    right: Tensor  # [steps, B, M] bool
    counted: Tensor  # [steps, B, M] bool


@dataclass(frozen=True)
class Teacher:
    """What the loss needs from the target: the rows of its output matrix for the draft words.

    output [Vd, H]; words [V] int64: the draft word of each target token, -1 where there is none.
    """

    output: Tensor
    words: Tensor

    def probabilities(self, hidden: Tensor) -> Tensor:
        """hidden [U, H] -> the target's distribution over the draft words [U, Vd], in the type of `output`."""
        probs = hidden.new_empty(len(hidden), len(self.output), dtype=self.output.dtype)
        for begin in range(0, len(hidden), CHUNK):
            part = slice(begin, begin + CHUNK)
            probs[part] = F.linear(hidden[part].to(self.output.dtype), self.output).float().softmax(-1)
        return probs


def draft_loss(head: DraftHead, teacher: Teacher, batch: Batch, weights: Sequence[float]) -> Outcome:
    """The weighted soft cross-entropy of an unrolled head; weights[k] is the weight of step k.

    A position counts where its token is part of the row's answer and is a draft word: elsewhere nothing right could
    be proposed. (EAGLE asks that of the target's most probable token; for greedy text it is the same.)
    """
    steps, last = len(weights), batch.tokens.shape[1] - 1
    outputs = unroll(head, batch, steps)
    labels = torch.stack([gather_rows(batch.tokens, (batch.rows + 2 + k).clamp(max=last)) for k in range(steps)])
    wanted = teacher.words[labels]  # [steps, B, M]
    counted = torch.stack([batch.valid(k) for k in range(steps)]) & (wanted >= 0)
    used, index = _teacher_positions(batch, counted)
    probs = teacher.probabilities(batch.hidden.flatten(0, 1)[used])
    chosen = head.norm(torch.stack(outputs)[counted]).to(teacher.output.dtype)
    counts = counted.flatten(1).sum(1)
    share = torch.tensor(weights, device=counts.device) / (counts.clamp(min=1) * sum(weights))
    scale = share.repeat_interleave(counts)
    lm_head = head.lm_head.weight.to(teacher.output.dtype)
    loss, losses, words = _SoftCrossEntropy.apply(chosen, lm_head, probs, index, scale)
    right = torch.zeros_like(counted)
    right[counted] = words == wanted[counted]
    means = [part.mean().item() if len(part) else float("nan") for part in losses.split(counts.tolist())]
    return Outcome(loss, means, right, counted)


def _teacher_positions(batch: Batch, counted: Tensor) -> tuple[Tensor, Tensor]:
    """Positions (flat, into [B * N]) whose distribution teaches some step, and every counted row's place there."""
    steps, width = len(counted), batch.tokens.shape[1]
    offsets = torch.arange(len(batch.tokens), device=counted.device)[:, None] * width
    wanted = torch.stack([offsets + batch.rows + 1 + k for k in range(steps)])[counted]
    return torch.unique(wanted, return_inverse=True)

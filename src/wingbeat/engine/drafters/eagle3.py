"""EAGLE-3: the draft head extends over what was committed, then grows a tree of its own guesses (EAGLE-2).

Pair i = (taps of position i, token i + 1) has column i and position i in the head's cache:

    row b:  [0, lengths[b])      pairs of committed tokens, from real taps
            beyond               the tree being drafted, `topk` columns a level, thrown away each cycle

Shapes: B rows, W pairs, K = topk, P candidates, H hidden size, T width of the taps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from wingbeat.engine.drafters.rows import Rows
from wingbeat.engine.graphs import Runner
from wingbeat.engine.kv_cache import KVCache
from wingbeat.engine.observe import Observer, Unobserved
from wingbeat.engine.settings import Budget, DraftSettings, Limits
from wingbeat.engine.tree import Tree
from wingbeat.model.attention import block_mask
from wingbeat.model.draft_head import DraftHead
from wingbeat.model.layers import ForwardInputs
from wingbeat.model.native import NativeHead

LONG_EXTEND = 64  # rows with more pairs to catch up on (a prompt) do so alone, not padding the others


@dataclass
class _Pending:
    """Pairs that the head has not seen yet: blocks of tokens [k] and taps [k, T]."""

    blocks: list[tuple[Tensor, Tensor]] = field(default_factory=list)

    @property
    def count(self) -> int:
        return sum(len(tokens) for tokens, _ in self.blocks)

    def take(self, count: int) -> tuple[Tensor, Tensor]:
        """Removes and returns the first `count` pairs."""
        tokens, taps = self.blocks[0] if len(self.blocks) == 1 else map(torch.cat, zip(*self.blocks, strict=True))
        self.blocks = [(tokens[count:], taps[count:])] if count < len(tokens) else []
        return tokens[:count], taps[:count]


@dataclass
class _Candidates:
    """Every node drafted so far: tokens, scores (cumulative log-probability), parents (candidate or -1): [B, P]."""

    tokens: Tensor
    scores: Tensor
    parents: Tensor

    def add(self, tokens: Tensor, scores: Tensor, parents: Tensor) -> None:
        self.tokens = torch.cat((self.tokens, tokens), dim=1)
        self.scores = torch.cat((self.scores, scores), dim=1)
        self.parents = torch.cat((self.parents, parents), dim=1)

    def best(self, count: int) -> tuple[Tensor, Tensor]:
        """The `count` best as tokens [B, count] and parents [B, count] in `Tree.grow`'s numbering.

        A child scores at most as much as its parent and stands behind it; the stable sort breaks ties by place,
        so no child is chosen without its parent.
        """
        order = self.scores.sort(dim=1, descending=True, stable=True).indices[:, :count].sort(dim=1).values
        numbers = torch.arange(1, count + 1, device=order.device).expand_as(order)
        number_of = torch.zeros_like(self.parents).scatter(1, order, numbers)
        above = self.parents.gather(1, order)
        return self.tokens.gather(1, order), number_of.gather(1, above.clamp(min=0)).where(above >= 0, 0)


class Eagle3Drafter:
    """Drafts with an EAGLE-3 head, a chain (`topk` 1) or a dynamic tree."""

    def __init__(self, head: DraftHead | NativeHead, settings: DraftSettings, limits: Limits, context: int) -> None:
        config = head.config
        self.taps = config.taps
        self.observer: Observer = Unobserved()
        self.num_nodes = settings.num_nodes
        self.heeds_floor = settings.topk == 1 and isinstance(head, NativeHead)
        self.head, self.steps, self.topk = head, settings.steps, settings.topk
        like = head.embed_tokens.weight
        tap_width = len(config.taps) * config.target_hidden_size
        self._no_pairs = like.new_empty(0, dtype=torch.int64), like.new_empty(0, tap_width)
        self._chunk = limits.prefill_chunk
        self._run = Runner.of(head.device, limits.max_batch, limits.eager)
        columns = context + max(LONG_EXTEND, settings.steps * settings.topk)
        shape = (limits.max_batch, config.num_kv_heads, columns, config.head_dim)
        self._cache = KVCache(1, shape, like, self._run.captures)
        self._pending: Rows[_Pending] = Rows()

    @property
    def path(self) -> str:
        """The kind of forward, as `Step.path` names it."""
        return "native" if isinstance(self.head, NativeHead) else self._run.path

    def begin(self, row: int, history: Sequence[int]) -> None:
        self._pending.begin(row, _Pending())
        self._cache.lengths[row] = 0

    def observe(self, first: int, tokens: Tensor, taps: Tensor, counts: Sequence[int]) -> None:
        for offset, count in enumerate(counts):
            self._pending[first + offset].blocks.append((tokens[offset, :count], taps[offset, :count]))

    def forget(self, row: int, last: int) -> None:
        self._cache.move(last, row)
        self._pending.forget(row, last)

    def propose(self, roots: Tensor, budget: Budget) -> Tree:
        batch = len(roots)
        for row in range(batch):
            self._catch_up(row)
        counts = [self._pending[row].count for row in range(batch)]
        known = [bool(count or self._cache.lengths[row]) for row, count in enumerate(counts)]
        if not any(known):  # prompts of one token: the target has shown nothing yet
            return Tree.root_only(roots)
        valid = None if all(known) else torch.tensor(known, device=roots.device)[:, None]
        with self.observer.phase("extend"):
            hidden = self._extend(0, batch, counts)
        ends = [max(count, 1) - 1 for count in counts]
        last = hidden[:, ends[0]] if batch == 1 else torch.stack([hidden[row, end] for row, end in enumerate(ends)])
        if self.heeds_floor and isinstance(self.head, NativeHead):
            starts, cache = self._cache.starts(0, batch), self._cache.rows(0, batch)[0]
            tokens, scores = self.head.draft(roots, last, starts, cache, budget.steps, budget.floor)
            return Tree.chain(tokens, valid, scores)
        length = self._cache.reach(0, batch, budget.steps * self.topk)
        inputs = last[:, None].clone(), self._cache.starts(0, batch)  # captures write over the outputs of others
        tokens, parents = self._run(self._grow, inputs, steps=budget.steps, length=length)
        if self.topk == 1:
            return Tree.chain(torch.cat((roots[:, None], tokens), dim=1), valid)
        return Tree.grow(roots, tokens, parents, budget.steps, valid)

    def _catch_up(self, row: int) -> None:
        """Extends over a long backlog of one row, leaving its last pair for the joint extend."""
        while (count := self._pending[row].count) > LONG_EXTEND:
            with self.observer.phase("extend"):
                self._extend(row, row + 1, [min(count - 1, self._chunk)])

    def _extend(self, first: int, last: int, counts: Sequence[int]) -> Tensor:
        """Runs rows first .. last-1 over their next counts[r] pairs; returns hidden states [R, W, H]."""
        width = max(counts)
        pairs = [
            self._pending[first + offset].take(count) if count else self._no_pairs
            for offset, count in enumerate(counts)
        ]
        if len(pairs) == 1:
            tokens, taps = (block[None] for block in pairs[0])
        else:
            tokens, taps = (pad_sequence(list(blocks), batch_first=True) for blocks in zip(*pairs, strict=True))
        starts = self._cache.starts(first, last)
        length = self._cache.reach(first, last, width)
        if first == 0 and width <= LONG_EXTEND:
            (hidden,) = self._run(self._forward, (tokens, taps, starts), length=length)
        else:
            (hidden,) = self._forward(tokens, taps, starts, length, first)
        for offset, count in enumerate(counts):
            self._cache.lengths[first + offset] += count
        return hidden

    def _forward(self, tokens: Tensor, taps: Tensor, starts: Tensor, length: int, first: int = 0) -> tuple[Tensor]:
        """The head over pairs (tokens [R, W], taps [R, W, T]) from columns starts [R] on: hidden states [R, W, H]."""
        inputs = ForwardInputs.in_a_row(tokens, starts, length)
        return (self.head(inputs, self.head.fuse(taps), self._cache.rows(first, first + len(tokens))[0]),)

    def _grow(self, hidden: Tensor, starts: Tensor, steps: int, length: int) -> tuple[Tensor, Tensor]:
        """Drafts below each row's last pair, hidden [B, 1, H]: tokens and parents [B, K] for `Tree.grow`."""
        batch, k, device = len(hidden), self.topk, hidden.device
        hidden = hidden[:, 0]
        scores, tokens = self._guess(hidden)  # [B, K]
        candidates = _Candidates(tokens, scores, torch.full_like(tokens, -1))
        beams = torch.arange(k, device=device).expand(batch, k)  # the level's nodes among the candidates
        features = hidden[:, None].expand(-1, k, -1)
        seen = torch.zeros(batch, k, 0, dtype=torch.bool, device=device)  # drafted columns a beam descends from
        own = torch.eye(k, dtype=torch.bool, device=device).expand(batch, k, k)
        for level in range(steps - 1):
            seen = torch.cat((seen, own), dim=-1)
            hidden = self._step((starts, level, length), tokens, self.head.feedback(features), seen)
            log_probs, words = self._guess(hidden)  # [B, K, K]
            totals = (scores[..., None] + log_probs).flatten(1)
            pool = candidates.tokens.shape[1]
            candidates.add(words.flatten(1), totals, beams.repeat_interleave(k, dim=1))
            scores, chosen = totals.topk(k, dim=1)
            parents = chosen // k
            beams, tokens = pool + chosen, words.flatten(1).gather(1, chosen)
            features = hidden.gather(1, parents[..., None].expand_as(hidden))
            seen = seen.gather(1, parents[..., None].expand_as(seen))
        return candidates.best(min(self.num_nodes, candidates.tokens.shape[1]))

    def _guess(self, hidden: Tensor) -> tuple[Tensor, Tensor]:
        """hidden [..., H] -> log-probabilities and target tokens [..., K] of the head's best next words."""
        log_probs = torch.log_softmax(self.head.logits(hidden).float(), dim=-1)
        best = log_probs.topk(self.topk, dim=-1)
        return best.values.clamp(max=0), self.head.draft_to_target[best.indices]

    def _step(self, at: tuple[Tensor, int, int], tokens: Tensor, features: Tensor, seen: Tensor) -> Tensor:
        """One forward over a level's beams: tokens [B, K], features [B, K, H], seen [B, K, (level+1) * K].

        at: the columns in use [B], the level, and the columns that attention looks at.
        """
        starts, level, length = at
        mask = block_mask(starts, seen, length)
        positions = (starts + level)[:, None].expand_as(tokens)
        inputs = ForwardInputs(tokens, positions, starts + level * self.topk, mask)
        return self.head(inputs, features, self._cache.rows(0, len(tokens))[0])

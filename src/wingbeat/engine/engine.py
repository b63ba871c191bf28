"""The engine: serves all running requests, one cycle at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp

import torch
from torch import Tensor

from wingbeat.engine.drafters.base import Drafter
from wingbeat.engine.graphs import Runner, round_width
from wingbeat.engine.kv_cache import KVCache
from wingbeat.engine.observe import CycleFacts, Observer
from wingbeat.engine.policy import FixedPolicy, Policy
from wingbeat.engine.request import Request
from wingbeat.engine.scheduler import Scheduler
from wingbeat.engine.settings import Budget, Limits
from wingbeat.engine.steps import Step
from wingbeat.engine.tree import Tree
from wingbeat.engine.verify import Verdict, verify
from wingbeat.errors import CapacityError, PromptError
from wingbeat.model.attention import block_mask
from wingbeat.model.layers import ForwardInputs
from wingbeat.model.native import NativeTarget
from wingbeat.model.target import Target


@dataclass(frozen=True)
class Batch:
    """The running requests in row order, their last committed tokens [B], cache lengths [B], how much to draft, and how
    many forwards were captured before."""

    requests: tuple[Request, ...]
    roots: Tensor
    starts: Tensor
    contexts: tuple[int, ...]
    budget: Budget
    captures: int


class Engine:
    """A target, a drafter and the requests that run on them.

    context: prompt and output tokens that one request may hold together. policy: how much to draft; by default as
    much as the drafter can. extend: as for `Step`. Not safe for use from several threads.
    """

    def __init__(
        self, target: Target | NativeTarget, drafter: Drafter, limits: Limits, context: int,
        policy: Policy | None = None, extend: Target | None = None,
    ) -> None:
        config = target.config
        self.target, self.drafter, self.limits, self.context = target, drafter, limits, context
        self.scheduler = Scheduler(limits.max_batch)
        runner = Runner.of(target.device, limits.max_batch, limits.eager)
        columns = context + round_width(drafter.num_nodes + 1)
        shape = (limits.max_batch, config.num_kv_heads, columns, config.head_dim)
        self.cache = KVCache(config.num_layers, shape, target.embed_tokens.weight, runner.captures)
        self.step_forward = Step(target, drafter.taps, self.cache, runner, extend)
        self.policy: Policy = policy or FixedPolicy(drafter.steps)

    @property
    def observer(self) -> Observer:
        """Who watches; the drafter tells of its phases too."""
        return self.drafter.observer

    @observer.setter
    def observer(self, observer: Observer) -> None:
        self.drafter.observer = observer

    @property
    def has_work(self) -> bool:
        return self.scheduler.has_work

    def submit(self, request: Request) -> None:
        """Queues a request. Raises PromptError or CapacityError before anything runs."""
        prompt, vocabulary = request.prompt, self.target.config.vocab_size
        if not prompt:
            raise PromptError("the prompt is empty; give it at least one token")
        wrong = [token for token in prompt if not 0 <= token < vocabulary]
        if wrong:
            raise PromptError(f"token id {wrong[0]} is not in the vocabulary (0 to {vocabulary - 1})")
        needed = len(prompt) + request.params.max_tokens
        if needed > self.context:
            raise CapacityError(
                f"{len(prompt)} prompt tokens and up to {request.params.max_tokens} new ones need a context of "
                f"{needed}, but this engine has {self.context}; shorten the prompt, lower max_tokens or raise context"
            )
        self.scheduler.submit(request)

    def abort(self, request: Request) -> None:
        """Drops a request wherever it is; nothing happens if it has ended."""
        if request in self.scheduler.waiting:
            self.scheduler.waiting.remove(request)
        elif request in self.scheduler.running:
            self._release(self.scheduler.running.index(request))

    @torch.inference_mode()
    def step(self) -> list[Request]:
        """One cycle for all running requests: plan, draft, verify, commit. Returns the requests that ended."""
        batch = self._plan()
        tree = self._draft(batch)
        verdict, taps = self._verify(batch, tree)
        return self._commit(batch, tree, verdict, taps)

    def _plan(self) -> Batch:
        """Admits who waits, and decides how much to draft."""
        joined = False
        for row, request in self.scheduler.admit():
            with self.observer.phase("prefill"):
                self._prefill(row, request)
                joined = True
        running = tuple(self.scheduler.running)
        contexts = tuple(self.cache.lengths[: len(running)])
        return Batch(
            requests=running,
            roots=torch.tensor([request.history[-1] for request in running], device=self.target.device),
            starts=self.cache.starts(0, len(running)),
            contexts=contexts,
            budget=self.policy.plan(len(running), sum(contexts) // len(running), joined),
            captures=Runner.captures_so_far,
        )

    def _prefill(self, row: int, request: Request) -> None:
        """Fills the cache with all of the prompt but its last token, which is the first cycle's root."""
        self.cache.lengths[row] = 0
        self.drafter.begin(row, request.history)
        tokens = torch.tensor(request.prompt, device=self.target.device)
        chunk = self.limits.prefill_chunk
        for begin in range(0, len(tokens) - 1, chunk):
            end = min(begin + chunk, len(tokens) - 1)
            inputs = ForwardInputs.in_a_row(tokens[None, begin:end], self.cache.starts(row, row + 1), end)
            taps = self.step_forward.prefill(inputs, self.cache.rows(row, row + 1))
            self.cache.lengths[row] = end
            self.drafter.observe(row, tokens[None, begin + 1 : end + 1], taps, [end - begin])

    def _draft(self, batch: Batch) -> Tree:
        with self.observer.phase("draft"):
            budget = batch.budget
            return self.drafter.propose(batch.roots, budget) if budget.steps else Tree.root_only(batch.roots)

    def _verify(self, batch: Batch, tree: Tree) -> tuple[Verdict, Tensor]:
        """The target at every node, and what it accepts. Returns the taps [B, N, T] beside the verdict."""
        with self.observer.phase("verify"):
            length = self.cache.reach(0, len(batch.requests), tree.width)
            inputs = ForwardInputs.in_a_row(tree.tokens, batch.starts, length)
            if not tree.is_chain:
                mask = block_mask(batch.starts, tree.ancestors, length)
                inputs = ForwardInputs(tree.tokens, batch.starts[:, None] + tree.depths, batch.starts, mask)
            logits, taps = self.step_forward(inputs)
        with self.observer.phase("accept"):
            params = [request.params for request in batch.requests]
            return verify(logits, tree, params, self._uniforms(batch, tree)), taps

    def _uniforms(self, batch: Batch, tree: Tree) -> Tensor | None:
        """Each node's uniform number [B, N]: that of the output token which is chosen there (None: none is drawn)."""
        drawing = [(row, request) for row, request in enumerate(batch.requests) if not request.params.is_greedy]
        if not drawing:
            return None
        numbers = torch.zeros(len(batch.requests), tree.max_depth + 1)
        for row, request in drawing:
            ahead = request.uniforms[request.num_output : request.num_output + tree.max_depth + 1]
            numbers[row, : len(ahead)] = ahead
        return numbers.to(tree.depths.device).gather(1, tree.depths)

    def _commit(self, batch: Batch, tree: Tree, verdict: Verdict, taps: Tensor) -> list[Request]:
        with self.observer.phase("commit"):
            if verdict.path is not None:
                self.cache.compact(verdict.path)
            counts = [len(tokens) for tokens in verdict.committed]
            self._observe_path(verdict, taps, counts)
            taken = []
            for row, (request, tokens) in enumerate(zip(batch.requests, verdict.committed, strict=True)):
                self.cache.lengths[row] += counts[row]
                taken.append(request.commit(tokens))
            ended = [request for request in batch.requests if request.finish]
            for row in reversed(range(len(batch.requests))):
                if batch.requests[row].finish:
                    self._release(row)
        self._report(batch, tree, counts, taken)
        return ended

    def _observe_path(self, verdict: Verdict, taps: Tensor, counts: Sequence[int]) -> None:
        """Shows the drafter the taps along each accepted path."""
        if verdict.path is None and self.step_forward.captures:
            taps = taps.clone()  # the next forward writes over them
        elif verdict.path is not None:
            taps = taps.gather(1, verdict.path.clamp(min=0)[..., None].expand(-1, -1, taps.shape[-1]))
        self.drafter.observe(0, verdict.tokens, taps, counts)

    def _release(self, row: int) -> None:
        last = self.scheduler.remove(row)
        self.cache.move(last, row)
        self.drafter.forget(row, last)

    def _report(self, batch: Batch, tree: Tree, counts: Sequence[int], taken: Sequence[int]) -> None:
        facts = CycleFacts(
            batch=len(batch.requests),
            contexts=batch.contexts,
            drafted=tuple(sum(valid) - 1 for valid in tree.valid.tolist()),
            accepted=tuple(count - 1 for count in counts),
            committed=tuple(taken),
            width=tree.width,
            path=self.step_forward.path,
            expected=() if tree.scores is None else tuple(sum(map(exp, row)) for row in tree.scores.tolist()),
            reason=batch.budget.reason,
            captured=Runner.captures_so_far > batch.captures,
        )
        self.policy.learn(facts)
        self.observer.cycle(facts)

"""wingbeat itself, a worker like the others. Configuration: head and weights (or None), context, batch, threads.

Arms: "plain", "n-gram", "EAGLE-3" (what `LLM` does when nothing is said), "EAGLE-3 timed" (the same, with the time
inside model forwards), "answer" (plain, up to its own end: how long an answer is), "forwards" (no prompts: single
forwards and what the machine can read).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import wraps
from time import perf_counter
from typing import Any

from serving_loop import Work, answer, serve

CONTEXT = 256  # of the single forwards
REPEATS = 3
READS = 8


class ForwardClock:
    """Seconds inside the public methods of some objects' classes; a call inside another counts once."""

    def __init__(self, *models: object) -> None:
        self.seconds, self._depth = 0.0, 0
        self._classes = {type(model) for model in models}

    def _timed(self, method: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(method)
        def call(*args: Any, **kwargs: Any) -> Any:
            self._depth += 1
            begin = perf_counter()
            try:
                return method(*args, **kwargs)
            finally:
                self._depth -= 1
                if not self._depth:
                    self.seconds += perf_counter() - begin

        return call

    @contextmanager
    def running(self) -> Iterator[None]:
        """While it lasts, calls are timed."""
        found = [
            (one, name, method)
            for one in self._classes
            for name, method in vars(one).items()
            if inspect.isfunction(method) and (name == "__call__" or not name.startswith("_"))
        ]
        for one, name, method in found:
            setattr(one, name, self._timed(method))
        try:
            yield
        finally:
            for one, name, method in found:
                setattr(one, name, method)


class Arrivals:
    """The least an observer can do: when each cycle ended, what it committed, and the forwards' time until then."""

    def __init__(self, clock: ForwardClock) -> None:
        self.clock = clock
        self.times: list[float] = []
        self.counts: list[int] = []
        self.forwards: list[float] = []

    def phase(self, name: str) -> AbstractContextManager[None]:
        """Not looked at."""
        return nullcontext()

    def cycle(self, facts: Any) -> None:
        """Called at the end of every cycle."""
        self.times.append(perf_counter())
        self.counts.append(sum(facts.committed))
        self.forwards.append(self.clock.seconds)


class Ours:
    """A loaded `LLM` and its arms."""

    def __init__(self, given: dict[str, Any]) -> None:
        import torch

        from wingbeat import LLM
        from wingbeat.engine.settings import DraftSettings, Limits

        torch.set_num_threads(given["threads"])
        more = {}
        if given["weights"]:
            if "weights" not in inspect.signature(LLM).parameters:
                raise ValueError(f"this wingbeat has no --weights {given['weights']}")
            more = {"weights": given["weights"]}
        self.alone = Limits(context=given["context"])
        self.together = Limits(context=given["context"], max_batch=given["batch"])
        self.llm = LLM(None, head=given["head"], limits=self.alone, **more)
        if given["weights"] and self.llm.weights != given["weights"]:
            raise ValueError(f"weights are {self.llm.weights} here: {self.llm.eager_because}")
        self.weights = given["weights"]
        if self.llm.head is None:
            raise ValueError("there is no draft head; name one with --head")
        default, plain = self.llm.draft, DraftSettings(drafter="none")
        self.drafts = {
            "plain": plain, "answer": plain, "n-gram": DraftSettings(drafter="ngram"), "EAGLE-3": default,
            "EAGLE-3 timed": default, "forwards": default,
        }

    def work(self, job: dict[str, Any]) -> dict[str, Any]:
        """Does a job."""
        limits = self.together if len(job.get("prompts", ())) > 1 else self.alone
        if (self.llm.draft, self.llm.limits) != (self.drafts[job["arm"]], limits):
            self.llm.limits = limits
            self.llm.use(self.drafts[job["arm"]])
        return self.forwards() if job["arm"] == "forwards" else self._generate(job)

    def _generate(self, job: dict[str, Any]) -> dict[str, Any]:
        from wingbeat import SamplingParams

        arm, prompts = job["arm"], job["prompts"]
        params = [SamplingParams(max_tokens=most, ignore_eos=arm != "answer") for most in job["lengths"]]
        clock = ForwardClock(self.llm.target, self.llm.head)
        seen = Arrivals(clock)
        with clock.running() if arm == "EAGLE-3 timed" else nullcontext():
            begin = perf_counter()
            done = self.llm.generate(prompts, params, observer=seen)
            seconds = perf_counter() - begin
        decode = seen.times[-1] - seen.times[0]
        found = answer(seconds, decode, seen.counts[0], [one.tokens for one in done])
        found["cycles"] = len(seen.times) - 1
        if arm == "EAGLE-3 timed":
            found["forward_seconds"] = seen.forwards[-1] - seen.forwards[0]
        if arm == "plain" and len(prompts) == 1 and not self.weights:
            found["decode_bytes"] = self._bytes(len(prompts[0]), found["decode_tokens"])
        return found

    def _bytes(self, prompt: int, tokens: int) -> int:
        """Weights and cache that decoding `tokens` tokens after the first one must move."""
        from wingbeat.model.cost import Block, target_step

        config, item = self.llm.target.config, self.llm.target.dtype.itemsize
        return sum(target_step(config, Block(context=prompt + made), item).bytes for made in range(tokens))

    def forwards(self) -> dict[str, Any]:
        """Milliseconds of forwards by width, of drafting chains (extending included) by steps, and GB/s read."""
        from wingbeat.measure.calibrate import read_gb_s
        from wingbeat.measure.profiler import Grid, measure
        from wingbeat.measure.roofline import DRAFT, VERIFY

        _, timings = measure(self.llm, Grid((1, 8), (CONTEXT,), REPEATS), [], eager=False)
        return {
            "verify_ms": {one.width: one.ms for one in timings if one.part == VERIFY},
            "draft_ms": {one.width: one.ms for one in timings if one.part == DRAFT},
            "read_gb_s": read_gb_s("cpu", READS),
        }


def start(given: dict[str, Any]) -> tuple[dict[str, str], Work]:
    """Loads the default model and the head."""
    from importlib.metadata import version

    ours = Ours(given)
    draft = ours.llm.effective["draft"]
    return {"wingbeat": version("wingbeat"), "torch": version("torch"), "default drafting": str(draft)}, ours.work


if __name__ == "__main__":
    serve(start)

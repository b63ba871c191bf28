"""What `wingbeat train eval` puts together: the engine's own acceptance on question sets."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from wingbeat.errors import NotFoundError

if TYPE_CHECKING:
    from wingbeat.engine.llm import LLM
    from wingbeat.engine.observe import CycleFacts

BATCH = 8  # questions served at once
Arm = tuple[int, int, int]  # steps, branches of a node, nodes


class Counter:
    """An observer that counts cycles, committed tokens, and how many cycles accepted at least k drafts."""

    def __init__(self, steps: int) -> None:
        self.cycles = self.committed = 0
        self.reached = [0] * (steps + 1)

    def phase(self, name: str) -> AbstractContextManager[object]:
        return nullcontext()

    def cycle(self, facts: CycleFacts) -> None:
        self.cycles += len(facts.accepted)
        self.committed += sum(facts.committed)
        for accepted in facts.accepted:
            for place in range(accepted + 1):
                self.reached[place] += 1

    def figures(self) -> dict[str, object]:
        """Tokens per cycle, and acceptance by position, unconditional and conditional."""
        pairs = list(zip(self.reached[1:], self.reached, strict=False))
        return {
            "tokens_per_cycle": self.committed / max(1, self.cycles), "cycles": self.cycles,
            "unconditional": [here / max(1, self.cycles) for here, _ in pairs],
            "conditional": [here / max(1, before) for here, before in pairs],
        }


def load(model: str | None, head: Path, dtype: str, device: str, weights: str | None) -> LLM:
    """An engine that serves several questions at once: acceptance is the same, and sooner known."""
    if not head.exists():
        raise NotFoundError(f"no draft head at {head}: there is no such file or directory")
    from wingbeat.engine.llm import LLM
    from wingbeat.engine.settings import Limits

    return LLM(model, head=str(head), dtype=dtype, weights=weights, device=device, limits=Limits(max_batch=BATCH))


def run(llm: LLM, files: Sequence[Path], arms: Mapping[str, Arm], sizes: tuple[int, int], as_json: bool) -> None:
    """Measures every arm on the first questions of every file, and prints it. sizes: questions of a file, tokens."""
    results = measure(llm, files, arms, sizes)
    if as_json:
        print(json.dumps(results))
        return
    for name, by_file in results.items():
        print(name)
        for file, figures in by_file.items():
            shares = " ".join(f"{share:.3f}" for share in figures["unconditional"])
            print(f"  {file:<24} {figures['tokens_per_cycle']:.3f} tokens per cycle   by position {shares}")
        mean = sum(figures["tokens_per_cycle"] for figures in by_file.values()) / len(by_file)
        print(f"  {'mean over files':<24} {mean:.3f} tokens per cycle")


def measure(llm: LLM, files: Sequence[Path], arms: Mapping[str, Arm], sizes: tuple[int, int]) -> dict[str, dict]:
    """Figures by arm and file name; greedy."""
    from wingbeat.engine.request import SamplingParams
    from wingbeat.engine.settings import DraftSettings
    from wingbeat.measure import workload

    limit, max_tokens = sizes
    results: dict[str, dict] = {name: {} for name in arms}
    sets = {path.stem: [prompt.text for prompt in workload.read(path).prompts[:limit]] for path in files}
    for name, (steps, topk, nodes) in arms.items():
        llm.use(DraftSettings(drafter="eagle3", steps=steps, topk=topk, nodes=nodes))
        for file, prompts in sets.items():
            counter = Counter(steps)
            llm.generate(prompts, SamplingParams(max_tokens=max_tokens), observer=counter)
            results[name][file] = counter.figures()
            done = f"{name}, {file}: {counter.committed / max(1, counter.cycles):.3f} tokens per cycle"
            print(done, file=sys.stderr, flush=True)
    return results

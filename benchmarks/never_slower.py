"""Is `auto` ever slower than plain decoding, and how far is it from the best fixed number of steps?

    python benchmarks/never_slower.py [--prompts FILE ...] [--contexts 128,1024,4096] [--batches 1,4,16] [--out FILE]

A cell is a kind of text, a temperature, a batch and a context. In each, plain decoding, `auto` and chains of 1, 2 and 4
take turns (A B C .. C B A, `--rounds` times) on the same prompts and write as many tokens; what a token takes after the
first cycle is compared, so that long prompts do not hide it. `auto` keeps what it learnt from cell to cell, as a server
would. Kinds: the question sets, random tokens, and the questions with a head of random weights. Finished cells are kept
in --out; started again, also with other cells, it goes on after them.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass
from itertools import product
from pathlib import Path
from time import perf_counter

from rich.console import Console
from rich.table import Table

from wingbeat import LLM, SamplingParams
from wingbeat.engine.observe import CycleFacts, Unobserved
from wingbeat.engine.settings import DraftSettings, Limits
from wingbeat.measure.workload import bundled, read
from wingbeat.model.config import HeadConfig
from wingbeat.model.draft_head import DraftHead
from wingbeat.model.weights import save_head

PLAIN, AUTO = "plain", "auto"
ARMS = {
    PLAIN: DraftSettings(drafter="none"), AUTO: DraftSettings(steps=6, auto=True),
    **{f"chain of {steps}": DraftSettings(steps=steps) for steps in (1, 2, 4)},
}  # fmt: skip
RANDOM_TOKENS, RANDOM_HEAD = "random tokens", "random head"


@dataclass(frozen=True)
class Cell:
    kind: str
    temperature: float
    batch: int
    context: int


def questions(files: Sequence[str]) -> dict[str, list[str]]:
    """Texts by kind."""
    if files:
        return {Path(name).stem: [prompt.text for prompt in read(Path(name)).prompts] for name in files}
    return {"bundled": [prompt.text for prompt in bundled().prompts]}


def prompts(cell: Cell, llm: LLM, texts: Sequence[str]) -> list[list[int]]:
    """One prompt of about cell.context tokens for each request: other questions go before its own."""
    pick = random.Random(str(cell))
    if cell.kind == RANDOM_TOKENS:
        return [[pick.randrange(1000, 40_000) for _ in range(cell.context)] for _ in range(cell.batch)]
    found = []
    for place in range(cell.batch):
        own = texts[place % len(texts)]
        before = pick.choices(texts, k=cell.context // 16)
        while len(tokens := llm.tokenizer.encode("\n\n".join([*before, own]))) > cell.context and before:
            before = before[: -max(1, len(before) // 8)]
        found.append(tokens[-cell.context :])
    return found


class Watch(Unobserved):
    """When the first and the last cycle ended, and the tokens committed in between."""

    def __init__(self) -> None:
        self.first = self.last = 0.0
        self.tokens = 0

    def cycle(self, facts: CycleFacts) -> None:
        self.last = perf_counter()
        if not self.first:
            self.first = self.last
        else:
            self.tokens += sum(facts.committed)


def measure(llm: LLM, cell: Cell, texts: Sequence[str], rounds: int, max_tokens: int) -> dict[str, list[float]]:
    """Milliseconds a token in each turn of each arm."""
    asked = prompts(cell, llm, texts)
    params = [
        SamplingParams(max_tokens=max_tokens, temperature=cell.temperature, seed=seed, ignore_eos=True)
        for seed in range(cell.batch)
    ]
    found: dict[str, list[float]] = {name: [] for name in ARMS}
    for _ in range(rounds):
        for name in (*ARMS, *reversed(ARMS)):
            llm.use(ARMS[name])
            watch = Watch()
            llm.generate(asked, params, observer=watch)
            found[name].append(1e3 * (watch.last - watch.first) / watch.tokens)
    return found


def random_head(llm: LLM, folder: Path) -> str:
    """A head of random weights for the engine's target."""
    config = HeadConfig.for_target(llm.target.config, 8192)
    head = DraftHead.random(config, std=0.02)
    head.embed_tokens.weight.data.copy_(llm.target.embed_tokens.weight)
    save_head(head, folder)
    return str(folder)


def cells(options: argparse.Namespace, kinds: Sequence[str]) -> Iterator[Cell]:
    grid = product(kinds, options.temperatures, options.batches, options.contexts)
    return (cell for cell in (Cell(*values) for values in grid) if cell.batch * cell.context <= options.most_tokens)


def table(results: dict[Cell, dict[str, list[float]]]) -> Table:
    """Speed against plain decoding, the median of the turns that were taken side by side."""
    shown = Table("text", "temperature", "batch", "context", *list(ARMS)[1:], "auto / best")
    ratios = []
    for cell, ms in results.items():
        speeds = {
            name: statistics.median(plain / own for plain, own in zip(ms[PLAIN], ms[name], strict=True))
            for name in ARMS
        }
        ratio = speeds[AUTO] / max(speed for name, speed in speeds.items() if name != AUTO)
        ratios.append((speeds[AUTO], ratio))
        shown.add_row(*map(str, astuple(cell)), *(f"{speeds[name]:.3f}" for name in list(ARMS)[1:]), f"{ratio:.3f}")
    slowest = min(speed for speed, _ in ratios)
    near = sum(ratio >= 0.95 for _, ratio in ratios)
    shown.caption = f"auto / plain: lowest {slowest:.3f}; within 5 % of the best fixed in {near} of {len(ratios)} cells"
    return shown


def numbers(text: str) -> list[int]:
    return [int(part) for part in text.split(",")]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--prompts", nargs="*", default=[], help="question files; by default the bundled prompts")
    parser.add_argument("--temperatures", type=numbers, default=[0, 1])
    parser.add_argument("--batches", type=numbers, default=[1, 4, 16])
    parser.add_argument("--contexts", type=numbers, default=[128, 1024, 4000])
    parser.add_argument("--most-tokens", type=int, default=17_000, help="cells with more prompt tokens are left out")
    parser.add_argument("--max-tokens", type=int, default=96)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("never-slower.jsonl"))
    options = parser.parse_args()
    console = Console()
    limits = Limits(max_batch=max(options.batches))
    llm = LLM(draft=ARMS[PLAIN], limits=limits)
    useless = LLM(head=random_head(llm, options.out.with_suffix(".head")), draft=ARMS[PLAIN], limits=limits)
    sets = questions(options.prompts)
    everything = [text for texts in sets.values() for text in texts]
    results: dict[Cell, dict[str, list[float]]] = {}
    for line in options.out.read_text().splitlines() if options.out.exists() else []:
        entry = json.loads(line)
        results[Cell(**entry["cell"])] = entry["ms"]
    for cell in cells(options, [*sets, RANDOM_TOKENS, RANDOM_HEAD]):
        if cell in results:
            continue
        engine = useless if cell.kind == RANDOM_HEAD else llm
        texts = sets.get(cell.kind, everything)
        results[cell] = measure(engine, cell, texts, options.rounds, options.max_tokens)
        with options.out.open("a") as file:
            file.write(json.dumps({"cell": vars(cell), "ms": results[cell]}) + "\n")
        console.print(cell, {name: round(statistics.median(times), 2) for name, times in results[cell].items()})
    console.print(table(results))


if __name__ == "__main__":
    main()

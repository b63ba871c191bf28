"""Is speculation lossless on a real model? Every drafter against plain decoding, token for token.

    python benchmarks/lossless.py [--dtype bfloat16] [--head PATH] [--prompts FILE ...] [--limit 60] [--max-tokens 128]

Prints one row a drafter and batch size: how many outputs are identical to plain decoding one request at a time, and
for each that is not, where it first differs and how far apart the two tokens' logits were (a near tie, or a bug).
Finished rows are kept in --out; started again, it goes on after them. Exit code 1 if a difference is no near tie.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Sequence
from pathlib import Path

import torch
from rich.console import Console
from rich.progress import track

from wingbeat import LLM, SamplingParams
from wingbeat.engine.drafters.scripted import Script, ScriptedDrafter
from wingbeat.engine.engine import Engine
from wingbeat.engine.settings import DraftSettings, Limits
from wingbeat.measure.stats import NEAR_TIE
from wingbeat.measure.workload import bundled, read
from wingbeat.model.config import HeadConfig
from wingbeat.model.draft_head import DraftHead

FRAMES = ("{}", "Answer in one sentence. {}", "{} Then explain your answer step by step.")
DRAFTS = {
    "n-gram": DraftSettings(drafter="ngram"),
    "EAGLE-3 chain": DraftSettings(steps=4),
    "EAGLE-3 tree": DraftSettings(steps=4, topk=4, nodes=12),
}
SCRIPTED = ("scripted, random", "scripted, perfect")


def load_prompts(files: Sequence[str], limit: int) -> list[str]:
    """Questions of the files, or the bundled ones in three framings, spread evenly."""
    if files:
        texts = [prompt.text for name in files for prompt in read(Path(name)).prompts]
    else:
        texts = [frame.format(prompt.text) for prompt in bundled().prompts for frame in FRAMES]
    return [texts[i * len(texts) // limit] for i in range(limit)] if len(texts) > limit else texts


def script(answers: dict[tuple[int, ...], Sequence[int]], is_perfect: bool) -> Script:
    """Two branches a level: one of them the known answer's next token, for five levels, or both random, for two."""
    noise = random.Random(0)

    def propose(history: Sequence[int]) -> tuple[list[int], list[int]]:
        prompt = next(known for known in answers if tuple(history[: len(known)]) == known)
        future = answers[prompt][len(history) - len(prompt) :][: 5 if is_perfect else 2]
        tokens, parents, parent = [], [], 0
        for token in future:
            tokens += [noise.randrange(40_000), token if is_perfect else noise.randrange(40_000)]
            parents += [parent, parent]
            parent = len(tokens)
        return tokens, parents

    return propose


class Comparison:
    """One model in one precision, its plain outputs, and the arms that must equal them."""

    def __init__(self, options: argparse.Namespace, console: Console) -> None:
        self.options, self.console = options, console
        plain = DraftSettings(drafter="none")
        self.llm = LLM(options.model, head=options.head, draft=plain, dtype=options.dtype, limits=Limits(context=1024))
        if self.llm.head is None:
            config = HeadConfig.for_target(self.llm.target.config, 8192)
            head = DraftHead.random(config, std=0.02)
            head.embed_tokens.weight = self.llm.target.embed_tokens.weight
            self.llm.head = head.to(self.llm.target.dtype)
        texts = load_prompts(options.prompts, options.limit)
        self.prompts = [self.llm.tokenizer.encode(text) for text in texts]
        self.path = Path(options.out)
        self.done = json.loads(self.path.read_text()) if self.path.exists() else {}

    def run(self, name: str, batch: int) -> list[list[int]]:
        """Outputs of all prompts under one arm; kept in the file, and taken from it."""
        head = f"/{self.options.head}" if name.startswith("EAGLE") else ""
        key = f"{name}/{batch}/{self.options.dtype}/{len(self.prompts)}x{self.options.max_tokens}{head}"
        if key not in self.done:
            params, limits = SamplingParams(max_tokens=self.options.max_tokens), Limits(max_batch=batch, context=1024)
            self.llm.limits = limits
            if name in SCRIPTED:
                answers = dict(zip(map(tuple, self.prompts), self.run("plain", 1), strict=True))
                drafter = ScriptedDrafter(script(answers, name == SCRIPTED[1]), 10)
                self.llm.engine = Engine(self.llm.target, drafter, limits, 1024)
            else:
                self.llm.use(DRAFTS.get(name, DraftSettings(drafter="none")))
            groups = [self.prompts[i : i + 4 * batch] for i in range(0, len(self.prompts), 4 * batch)]
            outputs = []
            for group in track(groups, f"{name}, batch {batch}", console=self.console, transient=True):
                outputs += [list(done.tokens) for done in self.llm.generate(group, params)]
            self.done[key] = outputs
            self.path.write_text(json.dumps(self.done))
        return self.done[key]

    def gap(self, tokens: Sequence[int], first: int, second: int) -> float:
        """How far apart the target puts two tokens after `tokens`."""
        logits = self.llm.logits(tokens)
        return abs(float(logits[first] - logits[second]))

    def differences(self, outputs: list[list[int]]) -> list[tuple[int, int, float]]:
        """(prompt, position, logit gap) of every output's first difference from plain decoding."""
        found = []
        for number, (ours, plain) in enumerate(zip(outputs, self.run("plain", 1), strict=True)):
            if ours != plain:
                at = next((i for i, (a, b) in enumerate(zip(ours, plain, strict=False)) if a != b), None)
                assert at is not None, "one output is a beginning of the other: that is no near tie"
                found.append((number, at, self.gap(self.prompts[number] + plain[:at], ours[at], plain[at])))
        return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model")
    parser.add_argument("--head")
    parser.add_argument("--prompts", nargs="*", default=[])
    parser.add_argument("--limit", type=int, default=60)
    parser.add_argument("--max-tokens", type=int, default=128)
    parser.add_argument("--dtype", default="float32", choices=NEAR_TIE)
    parser.add_argument("--out", default="lossless.json")
    options = parser.parse_args()
    console = Console()
    comparison = Comparison(options, console)
    worst = 0.0
    for batch in (1, 4):
        for name in ("plain", *DRAFTS, *SCRIPTED):
            outputs = comparison.run(name, batch)
            different = comparison.differences(outputs)
            worst = max([worst, *(gap for *_, gap in different)])
            same, tokens = len(outputs) - len(different), sum(map(len, outputs))
            console.print(f"{name:18} batch {batch}: {same} of {len(outputs)} identical ({tokens} tokens)")
            for number, at, gap in different:
                console.print(f"    prompt {number} differs first at output token {at}: logit gap {gap:.4f}")
    console.print(f"{options.dtype}, torch {torch.__version__}: largest logit gap at a difference {worst:.4f}")
    return int(worst > NEAR_TIE[options.dtype])


if __name__ == "__main__":
    raise SystemExit(main())

"""What int8 weights cost in quality, against the same model in bfloat16.

    python benchmarks/int8_quality.py --text FILE ... [--prompts FILE ...] [--model PATH] [--limit 20]

Of texts: perplexity of both, how far the predictions are apart (Kullback-Leibler divergence), and how often both put
the same token first. Of question sets (by default the bundled one): how many greedy outputs are the same, and how many
tokens they share before the first difference. Text is taken raw, in windows of --window tokens.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator, Sequence
from pathlib import Path

import torch
from torch import Tensor

from wingbeat import LLM, SamplingParams
from wingbeat.engine.kv_cache import KVCache
from wingbeat.engine.settings import DraftSettings, Limits
from wingbeat.measure.workload import bundled, read
from wingbeat.model.layers import ForwardInputs


@torch.inference_mode()
def log_probabilities(llm: LLM, tokens: Sequence[int]) -> Tensor:
    """The prediction after each token but the last, [N - 1, V]."""
    config, size = llm.target.config, len(tokens) - 1
    like = llm.target.embed_tokens.weight
    cache = KVCache(config.num_layers, (1, config.num_kv_heads, size, config.head_dim), like).rows(0, 1)
    starts = torch.zeros(1, dtype=torch.int64)
    inputs = ForwardInputs.in_a_row(torch.tensor([list(tokens[:-1])]), starts, size)
    return llm.target.logits(llm.target(inputs, cache).hidden[0]).float().log_softmax(-1)


def windows(llm: LLM, file: str, size: int, most: int) -> Iterator[list[int]]:
    """Up to `most` pieces of a text's tokens, `size` each."""
    tokens = llm.tokenizer.encode(Path(file).read_text(encoding="utf-8"), raw=True)
    for begin in range(0, min(len(tokens) - 1, most * size), size):
        yield tokens[begin : begin + size + 1]


def compare_text(plain: LLM, int8: LLM, file: str, size: int, most: int) -> str:
    """One line about a text."""
    count, losses, divergence, same = 0, [0.0, 0.0], 0.0, 0
    for tokens in windows(plain, file, size, most):
        ours, theirs = log_probabilities(int8, tokens), log_probabilities(plain, tokens)
        following = torch.tensor(tokens[1:])[:, None]
        count += len(following)
        for place, one in enumerate((theirs, ours)):
            losses[place] -= float(one.gather(1, following).sum())
        divergence += float((theirs.exp() * (theirs - ours)).sum())
        same += int((theirs.argmax(-1) == ours.argmax(-1)).sum())
    before, after = (math.exp(loss / count) for loss in losses)
    return (
        f"{Path(file).name}: {count} tokens, perplexity {before:.3f} in bfloat16, {after:.3f} in int8 "
        f"({after / before - 1:+.2%}); divergence {divergence / count:.4f}; same first token {same / count:.1%}"
    )


def common(first: list[int], second: list[int]) -> int:
    """How many tokens both begin with."""
    pairs = zip(first, second, strict=False)
    return next((at for at, (a, b) in enumerate(pairs) if a != b), min(len(first), len(second)))


def compare_answers(plain: LLM, int8: LLM, questions: list[str], max_tokens: int) -> str:
    """How far greedy outputs agree."""
    params = SamplingParams(max_tokens=max_tokens)
    first, second = ([list(done.tokens) for done in llm.generate(questions, params)] for llm in (plain, int8))
    shared = sum(map(common, first, second))
    same = sum(a == b for a, b in zip(first, second, strict=True))
    return f"{same} of {len(first)} outputs the same; {shared / sum(map(len, first)):.1%} of tokens before a difference"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model")
    parser.add_argument("--text", nargs="*", default=[])
    parser.add_argument("--window", type=int, default=512)
    parser.add_argument("--windows", type=int, default=32, help="of a text, at most")
    parser.add_argument("--prompts", nargs="*", default=[])
    parser.add_argument("--limit", type=int, default=20, help="questions of a set")
    parser.add_argument("--max-tokens", type=int, default=128)
    options = parser.parse_args()
    settings = {"draft": DraftSettings(drafter="none"), "limits": Limits(max_batch=8)}
    plain, int8 = (LLM(options.model, weights=weights, **settings) for weights in ("bfloat16", "int8"))
    print(f"paths: {plain.effective['path']}, {int8.effective['path']} ({int8.effective['weights']})")
    for file in options.text:
        print(compare_text(plain, int8, file, options.window, options.windows), flush=True)
    for questions in [read(Path(file)) for file in options.prompts] or [bundled()]:
        texts = [prompt.text for prompt in questions.take(options.limit).prompts]
        print(f"{questions.name}: {compare_answers(plain, int8, texts, options.max_tokens)}", flush=True)


if __name__ == "__main__":
    main()

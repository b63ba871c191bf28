"""`wingbeat generate`: one prompt, streamed."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from wingbeat.cli import options


def generate(
    prompt: Annotated[str, typer.Argument(help="The prompt; - reads it from standard input.")],
    raw: options.Raw = False,
    model: options.Model = None,
    head: options.Head = None,
    drafter: options.Drafter = None,
    speculate: options.Speculate = "auto",
    topk: options.Topk = 1,
    nodes: options.Nodes = None,
    temperature: options.Temperature = 0.0,
    top_k: options.TopK = 0,
    top_p: options.TopP = 1.0,
    min_p: options.MinP = 0.0,
    seed: options.Seed = None,
    max_tokens: options.MaxTokens = 256,
    stop: options.Stop = None,
    ignore_eos: options.IgnoreEos = False,
    dtype: options.Dtype = "bfloat16",
    weights: options.Weights = None,
    device: options.Device = "cpu",
    context: options.Context = None,
    verify_path: options.VerifyPath = "captured",
    eager: options.Eager = False,
) -> None:
    """Generate text from a prompt, printed as it comes."""
    from wingbeat.engine.request import SamplingParams

    settings = options.draft(drafter, speculate, topk, nodes, verify_path)
    params = SamplingParams(
        temperature=temperature, top_k=top_k, top_p=top_p, min_p=min_p, seed=seed, max_tokens=max_tokens,
        stop=tuple(stop or ()), ignore_eos=ignore_eos,
    )
    text = sys.stdin.read().removesuffix("\n") if prompt == "-" else prompt
    llm = options.load(model, head, dtype, device, options.limits(context, eager), weights)
    options.use(llm, drafter, settings)
    for piece in llm.stream(text, params, raw=raw):
        print(piece, end="", flush=True)
    print()

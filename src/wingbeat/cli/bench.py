"""`wingbeat bench`: plain decoding and speculation side by side, and whether speculation pays."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from wingbeat.cli import options
from wingbeat.cli.display import progress_bar, show


def bench(
    prompts: Annotated[Path | None, typer.Option(help="Question file (JSON lines with turns).")] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Prompts to use, spread over their categories.")] = None,
    rounds: Annotated[int, typer.Option(min=1, help="How often each prompt meets every arm.")] = 1,
    arms: Annotated[str | None, typer.Option(help="Such as plain,ngram,eagle3:4 (drafter:steps:topk:nodes).")] = None,
    out: Annotated[Path, typer.Option(help="Record to write (.json), or the folder for it.")] = Path("wingbeat-runs"),
    as_json: Annotated[bool, typer.Option("--json", help="Print the figures as one JSON document at the end.")] = False,
    model: options.Model = None,
    head: options.Head = None,
    steps: options.Steps = 2,
    topk: options.Topk = 1,
    nodes: options.Nodes = None,
    temperature: options.Temperature = 0.0,
    seed: options.Seed = 0,
    max_tokens: options.MaxTokens = 64,
    dtype: options.Dtype = "bfloat16",
    device: options.Device = "cpu",
    context: options.Context = None,
) -> None:
    """Compare plain decoding with speculation: speed, cost of a cycle, acceptance, and equality of the outputs."""
    from wingbeat.engine.request import SamplingParams
    from wingbeat.measure import runner, workload
    from wingbeat.measure.subjects import EngineSubject

    questions = workload.read(prompts) if prompts else workload.bundled()
    questions = questions if limit is None else questions.take(limit)
    path = runner.new_path(out, "bench")
    defaults = options.draft(None, steps, topk, nodes)
    named = options.arms(arms, defaults) if arms else None
    params = SamplingParams(temperature=temperature, seed=seed, max_tokens=max_tokens)
    llm = options.load(model, head, dtype, device, context)
    chosen = named or options.arms("plain,ngram:4,eagle3" if llm.head else "plain,ngram:4", defaults)
    plan = runner.Plan(questions, tuple(chosen), rounds)
    requested = {**llm.requested, "draft": asdict(defaults), "arms": arms, **asdict(params)}
    record = plan.record("bench", requested)
    with progress_bar("measuring", len(plan)) as advance:
        runner.measure(record, EngineSubject(llm, chosen, params), plan, path, lambda turn: advance(turn.prompt.id))
    show(record, path, as_json)

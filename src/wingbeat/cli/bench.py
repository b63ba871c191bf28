"""`wingbeat bench`: plain decoding and speculation side by side, and whether speculation pays."""

from __future__ import annotations

import os
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from wingbeat.cli import options
from wingbeat.cli.display import progress_bar, show
from wingbeat.errors import UsageError
from wingbeat.measure import launches, record, runner, store, workload

if TYPE_CHECKING:
    from wingbeat.measure.runner import Turn
    from wingbeat.measure.workload import Workload

LAUNCH = (sys.executable, "-c", "from wingbeat.cli.main import main; main()", "bench-launch")


def bench(
    prompts: Annotated[Path | None, typer.Option(help="Question file (JSON lines with turns).")] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Prompts to use, spread over their categories.")] = None,
    rounds: Annotated[int, typer.Option(min=1, help="How often each prompt meets every arm in a launch.")] = 1,
    launch_count: Annotated[int, typer.Option("--launches", min=1, help="Fresh processes to measure in.")] = 1,
    arms: Annotated[str | None, typer.Option(help="Such as plain,eagle3,eagle3:6:4:16,eagle3:4@extend.")] = None,
    name: Annotated[str | None, typer.Option(help="The run's name; by default after the time.")] = None,
    store_named: options.Store = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the figures as one JSON document at the end.")] = False,
    model: options.Model = None,
    head: options.Head = None,
    speculate: options.Speculate = "auto",
    topk: options.Topk = 1,
    nodes: options.Nodes = None,
    temperature: options.Temperature = 0.0,
    seed: options.Seed = 0,
    max_tokens: options.MaxTokens = 64,
    dtype: options.Dtype = "bfloat16",
    weights: options.Weights = None,
    device: options.Device = "cpu",
    context: options.Context = None,
    eager: options.Eager = False,
) -> None:
    """Compare plain decoding with speculation: speed, cost of a cycle, acceptance, and equality of the outputs."""
    requested = {
        "model": model, "head": head and str(head), "dtype": dtype, "device": device, "context": context,
        "eager": eager,
        "weights": weights,
        "draft": asdict(options.draft(None, speculate, topk, nodes, "captured")), "arms": arms,
        "temperature": temperature, "seed": seed, "max_tokens": max_tokens,
        "prompts": prompts and str(prompts), "limit": limit, "launches": launch_count,
    }  # fmt: skip
    has_head = head is not None or model is None
    arms = arms or ("plain,ngram,eagle3" if has_head else "plain,ngram")
    plan = runner.Plan(questions_of(requested), tuple(arms_of(arms, requested)), rounds)
    path = store.new_path(options.store_folder(store_named), name or store.timed_name("bench"))
    run = plan.record("bench", requested)
    run.name = path.stem
    record.save(run, path)
    try:
        code = launches.run([*LAUNCH, str(path)], launch_count, path)
    finally:
        run = record.load(path, partial=True)
        if not run.launches:
            path.unlink()
    if code:
        raise typer.Exit(code)
    show(run, path, as_json)


def launch(path: Annotated[Path, typer.Argument(help="The record to add a launch to.")]) -> None:
    """Measure one launch, as the record asks for it, in this process."""
    from wingbeat.engine.request import SamplingParams
    from wingbeat.measure.subjects import EngineSubject

    parent = os.getppid()
    run = record.load(path)
    asked, number = run.requested, len(run.launches)
    questions = questions_of(asked)
    if questions.digest != run.workload["sha256"]:
        raise UsageError(f"the prompts in {asked['prompts']} are not what they were when this run began; start it anew")
    arms = arms_of(",".join(run.arms), asked)
    plan = runner.Plan(questions, tuple(arms), asked["rounds"], asked["warmup"], number)
    params = SamplingParams(**{name: asked[name] for name in runner.SAMPLING})
    limits = options.limits(asked["context"], asked["eager"])
    head = Path(asked["head"]) if asked["head"] else None
    llm = options.load(asked["model"], head, asked["dtype"], asked["device"], limits, asked["weights"])
    title = f"launch {number + 1} of {asked['launches']}:"
    with progress_bar(title, len(plan)) as advance:

        def after(turn: Turn) -> None:
            advance(turn.prompt.id)
            if os.getppid() != parent:
                raise KeyboardInterrupt  # whoever started this launch is gone

        runner.measure(run, EngineSubject(llm, arms, params), plan, path, after)


def questions_of(asked: dict[str, Any]) -> Workload:
    """The prompts that a run was asked for. Raises as `workload.read`."""
    questions = workload.read(Path(asked["prompts"])) if asked["prompts"] else workload.bundled()
    return questions if asked["limit"] is None else questions.take(asked["limit"])


def arms_of(names: str, asked: dict[str, Any]) -> dict[str, Any]:
    """The arms of a run by name; what a name leaves out is as it was asked for. Raises UsageError."""
    from wingbeat.engine.settings import DraftSettings

    return options.arms(names, DraftSettings(**asked["draft"]))

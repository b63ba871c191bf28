"""`wingbeat profile`: what forwards cost beside what this machine can do, and what that predicts for speculation."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from wingbeat.cli import options
from wingbeat.cli.display import progress_bar
from wingbeat.errors import UsageError
from wingbeat.measure import store

if TYPE_CHECKING:
    from wingbeat.engine.llm import LLM
    from wingbeat.engine.settings import DraftSettings
    from wingbeat.measure.record import RunRecord


def profile(
    run: Annotated[
        str | None, typer.Option(help="Run (name or file) to take acceptance from; without it a short one is made.")
    ] = None,
    store_named: options.Store = None,
    widths: Annotated[str, typer.Option(help="Tokens of a forward.")] = "1,2,4,8,16,32",
    contexts: Annotated[
        str | None, typer.Option(help="Tokens in the cache; by default 128, 512, 2048 and the most that fit.")
    ] = None,
    repeats: Annotated[int, typer.Option(min=1, help="How often each is timed.")] = 7,
    eager: Annotated[bool, typer.Option(help="Time the eager forward too; takes the weights a second time.")] = True,
    limit: Annotated[int, typer.Option(min=1, help="Prompts of the short run.")] = 4,
    arms: Annotated[str | None, typer.Option(help="Arms of the short run, as in bench.")] = None,
    trace: Annotated[Path | None, typer.Option(help="Write cycles of the run as a Perfetto or Chrome trace.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Draw the tables (.png, .svg, .pdf).")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the figures as one JSON document at the end.")] = False,
    model: options.Model = None,
    head: options.Head = None,
    steps: options.Steps = 2,
    topk: options.Topk = 1,
    nodes: options.Nodes = None,
    max_tokens: options.MaxTokens = 64,
    dtype: options.Dtype = "bfloat16",
    weights: options.Weights = None,
    device: options.Device = "cpu",
    context: options.Context = None,
) -> None:
    """Measure what forwards cost by width, context and path, and compare what that predicts with a run."""
    from wingbeat.measure import profiler, roofline
    from wingbeat.measure import trace as traces
    from wingbeat.report import plots
    from wingbeat.report import profile as report

    if plot:
        plots.check(plot)
    at_widths, at_contexts = _numbers(widths), _numbers(contexts) if contexts else None
    record = options.open_run(run, store_named)[0] if run else None
    llm = options.load(model, head, dtype, device, options.limits(context, False), weights)
    grid = profiler.Grid.within(llm.context, at_contexts, at_widths, repeats)
    if record is None:
        defaults = options.draft(None, str(steps), topk, nodes, "captured")
        chosen = options.arms(arms or ("plain,eagle3" if llm.head else "plain,ngram"), defaults)
        record = _short_run(llm, chosen, options.store_folder(store_named), (limit, max_tokens))
    drafts = profiler.drafts(llm, record)
    ceilings, timings = profiler.measure(llm, grid, drafts, eager)
    subject = {**llm.effective, "longest": llm.target.config.max_position}
    found = roofline.Profile(subject, ceilings, timings, roofline.predict(record, timings))
    print(report.render(found))
    if trace:
        traces.save(record, trace)
    if plot:
        plots.save_forwards(found, plot)
    if as_json:
        print(json.dumps(report.document(found)))


def _numbers(text: str) -> list[int]:
    """The numbers of a list such as "1,2,4"."""
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() for part in parts):
        raise UsageError(f"cannot read the numbers {text!r}; write them as 1,2,4")
    return [int(part) for part in parts]


def _short_run(llm: LLM, arms: Mapping[str, DraftSettings], folder: Path, sizes: tuple[int, int]) -> RunRecord:
    """A run of the bundled prompts, kept in the store. sizes: prompts, and tokens of an answer."""
    from wingbeat.engine.request import SamplingParams
    from wingbeat.measure import runner, workload
    from wingbeat.measure.subjects import EngineSubject

    path = store.new_path(folder, store.timed_name("profile"))
    params = SamplingParams(max_tokens=sizes[1])
    plan = runner.Plan(workload.bundled().take(sizes[0]), tuple(arms))
    record = plan.record("profile", {**llm.requested, "arms": ",".join(arms), **asdict(params)})
    record.name = path.stem
    with progress_bar("short run", len(plan)) as advance:
        runner.measure(record, EngineSubject(llm, arms, params), plan, path, lambda turn: advance(turn.prompt.id))
    return record

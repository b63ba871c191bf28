"""`wingbeat train`: a draft head for any target: text, its states, the head, and what the head is worth."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from wingbeat.cli import options

app = typer.Typer(no_args_is_help=True, help="Train a draft head: text, states, head, evaluation.")

Out = Annotated[Path, typer.Option(help="Where to write.")]
AnswerTokens = Annotated[int, typer.Option(min=4, help="Tokens an answer is cut to.")]
Longest = Annotated[int, typer.Option(min=8, help="Tokens a conversation is cut to.")]
Taps = Annotated[str | None, typer.Option(help="Layers whose input is read, such as 2,15,27; by default EAGLE-3's.")]
OneModel = Annotated[str | None, typer.Argument(help="Directory, hub id or .gguf file; without it the default model.")]


@app.callback()
def train() -> None:
    """Train a draft head: text, states, head, evaluation."""


@app.command()
def data(
    model: OneModel = None,
    out: Out = Path("training-text.jsonl"),
    count: Annotated[int, typer.Option(min=1, help="Conversations to have in the end.")] = 2000,
    prompts: Annotated[Path | None, typer.Option(help="Questions to answer (JSON lines), not invented ones.")] = None,
    temperatures: Annotated[str, typer.Option(help="Of the answers, taken in turn.")] = "0,0,0,0.5,0.7",
    answer_tokens: AnswerTokens = 512,
    batch: Annotated[int, typer.Option(min=1, help="Conversations written before they are saved.")] = 64,
    seed: Annotated[int, typer.Option(help="Of the questions and of sampled answers.")] = 0,
    dtype: options.Dtype = "bfloat16",
    device: options.Device = "cpu",
) -> None:
    """Have the target write questions (or take yours) and answer them; goes on where it was stopped."""
    from wingbeat.cli import train_text
    from wingbeat.training import data as text

    spread = train_text.numbers(temperatures, float)
    plan = text.WritePlan(count=count, batch=batch, temperatures=spread, answer_tokens=answer_tokens, seed=seed)
    source = text.read_conversations(prompts) if prompts else None
    train_text.write(plan, out, train_text.load(model, dtype, device, batch), source)


@app.command()
def capture(
    text: Annotated[list[Path], typer.Argument(help="Conversations (JSON lines, .gz too).")],
    out: Out = Path("captured"),
    model: options.Model = None,
    taps: Taps = None,
    answer_tokens: AnswerTokens = 512,
    longest: Longest = 2048,
    shard_samples: Annotated[int, typer.Option(min=1, help="Conversations a shard; bounds the memory.")] = 256,
    dtype: options.Dtype = "bfloat16",
    device: options.Device = "cpu",
) -> None:
    """Run the target over text and keep its states in shards; goes on where it was stopped."""
    from wingbeat.cli import train_text

    target, tokens = train_text.target_and_tokens(model, dtype, device)
    chosen = train_text.numbers(taps, int) if taps else target.config.default_taps
    samples = train_text.samples(text, tokens, answer_tokens, longest)
    train_text.capture(target, samples, out, chosen, shard_samples)


@app.command()
def head(
    source: Annotated[list[Path], typer.Argument(help="Captured directories, or text for training without shards.")],
    out: Out = Path("head"),
    model: options.Model = None,
    init: Annotated[str, typer.Option(help="target, random, or a head's directory to go on from.")] = "target",
    draft_vocab: Annotated[int | None, typer.Option(min=1, help="Words that the head can propose (8192).")] = None,
    taps: Taps = None,
    ttt_steps: Annotated[int, typer.Option(min=1, help="Steps of training-time test.")] = 7,
    decay: Annotated[float, typer.Option(help="Step k of the loss weighs decay^k.")] = 0.8,
    curriculum: Annotated[str, typer.Option(help="share:steps,... from which share of the run how many steps.")] = "",
    epochs: Annotated[float, typer.Option(help="Passes over the text.")] = 3.0,
    minutes: Annotated[float | None, typer.Option(help="Train for this long instead.")] = None,
    rate: Annotated[float, typer.Option(help="Highest learning rate.")] = 2e-3,
    warmup: Annotated[float, typer.Option(help="Share of the run over which the rate rises.")] = 0.02,
    floor: Annotated[float, typer.Option(help="Share of the rate that is left at the end of the run.")] = 0.0,
    clip: Annotated[float, typer.Option(help="Largest norm of the gradient.")] = 0.5,
    batch_tokens: Annotated[int, typer.Option(min=1, help="Tokens of a batch, per process.")] = 1024,
    accumulate: Annotated[int, typer.Option(min=1, help="Batches a step.")] = 1,
    held_out: Annotated[float, typer.Option(help="Share of the text kept for evaluation.")] = 0.02,
    evaluate_every: Annotated[int, typer.Option(min=1, help="Steps between evaluations.")] = 500,
    answer_tokens: AnswerTokens = 512,
    longest: Longest = 2048,
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the last checkpoint in the folder.")] = False,
    form: Annotated[Literal["eagle3", "speculators"], typer.Option("--format", help="Layout of the files.")] = "eagle3",
    seed: Annotated[int, typer.Option(help="Of the start and of the order of the text.")] = 0,
    precision: Annotated[Literal["bfloat16", "float32"], typer.Option(help="Of the matrix products.")] = "bfloat16",
    device: options.Device = "cpu",
) -> None:
    """Train a draft head and write it with its card; several processes with torchrun."""
    from wingbeat.cli import train_head
    from wingbeat.training.loop import TrainSettings

    settings = TrainSettings(
        steps=ttt_steps, decay=decay, curriculum=TrainSettings.parse_curriculum(curriculum), rate=rate,
        warmup=warmup, floor=floor, clip=clip, batch_tokens=batch_tokens, accumulate=accumulate, epochs=epochs,
        minutes=minutes, seed=seed, held_out=held_out, evaluate_every=evaluate_every,
        bfloat16=precision == "bfloat16",
    )
    wanted = train_head.Wanted(model, init, draft_vocab, taps, form, device, (answer_tokens, longest))
    train_head.run(source, out, wanted, settings, resume)


@app.command(name="eval")
def evaluate(
    head: Annotated[Path, typer.Argument(help="The draft head.")],
    prompts: Annotated[list[Path], typer.Option(help="Question files (JSON lines); may be given several times.")],
    model: options.Model = None,
    limit: Annotated[int, typer.Option(min=1, help="Questions of each file.")] = 20,
    steps: options.Steps = 4,
    topk: Annotated[int, typer.Option(min=1, help="Branches of a node of the tree.")] = 4,
    nodes: Annotated[int, typer.Option(min=1, help="Drafted tokens of the tree.")] = 12,
    max_tokens: options.MaxTokens = 128,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document instead of a table.")] = False,
    dtype: options.Dtype = "bfloat16",
    weights: options.Weights = None,
    device: options.Device = "cpu",
) -> None:
    """Measure acceptance by position and tokens per cycle in the engine, greedy, with a chain and a tree."""
    from wingbeat.cli import train_eval

    arms = {f"chain of {steps}": (steps, 1, steps), f"tree of {nodes}": (steps, topk, nodes)}
    llm = train_eval.load(model, head, dtype, device, weights)
    train_eval.run(llm, prompts, arms, (limit, max_tokens), as_json)

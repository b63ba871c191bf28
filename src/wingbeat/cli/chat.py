"""`wingbeat chat`: a conversation at the terminal, or line by line from a pipe."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator

import typer

from wingbeat.cli import options
from wingbeat.errors import CapacityError

HELP = "Ctrl-C stops an answer, /reset forgets the conversation, /exit or Ctrl-D ends."

Message = dict[str, str]


def chat(
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
    max_tokens: options.MaxTokens = 512,
    dtype: options.Dtype = "bfloat16",
    weights: options.Weights = None,
    device: options.Device = "cpu",
    context: options.Context = None,
    verify_path: options.VerifyPath = "captured",
    eager: options.Eager = False,
) -> None:
    """Talk with the model; what was said before is kept."""
    from wingbeat.engine.request import SamplingParams

    settings = options.draft(drafter, speculate, topk, nodes, verify_path)
    params = SamplingParams(
        temperature=temperature, top_k=top_k, top_p=top_p, min_p=min_p, seed=seed, max_tokens=max_tokens
    )
    llm = options.load(model, head, dtype, device, options.limits(context, eager), weights)
    options.use(llm, drafter, settings)
    if sys.stdin.isatty():
        import readline  # noqa: F401 - gives input() its line editing

        typer.echo(HELP, err=True)
    converse(_read, lambda history: llm.stream(history, params))


def converse(read: Callable[[], str], answer: Callable[[list[Message]], Iterator[str]]) -> None:
    """Reads turns until EOFError or /exit, prints each answer, and keeps the history.

    Ctrl-C ends the answer and keeps what was said of it. A turn that no longer fits is dropped, with advice.
    """
    history: list[Message] = []
    while True:
        try:
            line = read().strip()
        except EOFError:
            return
        except KeyboardInterrupt:
            typer.echo(f"\n{HELP}", err=True)
            continue
        if line == "/exit":
            return
        if line == "/reset":
            history = []
            typer.echo("(forgotten)", err=True)
        elif line:
            history = _turn([*history, {"role": "user", "content": line}], answer)


def _turn(history: list[Message], answer: Callable[[list[Message]], Iterator[str]]) -> list[Message]:
    """Prints the answer to the last message; returns the history with it."""
    said: list[str] = []
    pieces = answer(history)
    try:
        for piece in pieces:
            print(piece, end="", flush=True)
            said.append(piece)
    except KeyboardInterrupt:
        typer.echo(" (stopped)", nl=False, err=True)
    except CapacityError as error:
        typer.echo(f"{error}; or forget the conversation with /reset", err=True)
        return history[:-1]
    finally:
        getattr(pieces, "close", lambda: None)()
    print(flush=True)
    return [*history, {"role": "assistant", "content": "".join(said)}]


def _read() -> str:
    return input("> " if sys.stdin.isatty() else "")

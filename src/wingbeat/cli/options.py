"""The options that several commands share, and the objects they stand for. torch is imported when one is built."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from wingbeat.errors import NotFoundError, UsageError
from wingbeat.measure import record, store

if TYPE_CHECKING:
    from wingbeat.engine.llm import LLM
    from wingbeat.engine.settings import DraftSettings, Limits
    from wingbeat.measure.record import RunRecord

Model = Annotated[
    str | None, typer.Option(help="Hugging Face directory, hub id or .gguf file; without it the default model.")
]
Head = Annotated[Path | None, typer.Option(help="EAGLE-3 draft head to use.")]
Drafter = Annotated[
    Literal["none", "ngram", "eagle3"] | None, typer.Option(help="How to draft; without it eagle3 if there is a head.")
]
Steps = Annotated[int, typer.Option(help="Tokens drafted one after the other.")]
Speculate = Annotated[
    str, typer.Option(help="auto: as much as pays; off; or how many tokens are drafted one after the other.")
]
VerifyPath = Annotated[
    Literal["captured", "extend"], typer.Option(help="extend verifies as prefill runs: slower, to see what that costs.")
]
Eager = Annotated[bool, typer.Option("--eager", help="Run every forward in plain PyTorch operations, the reference.")]
Topk = Annotated[int, typer.Option(help="Branches of a drafted node; 1 drafts a chain, more a tree (eagle3).")]
Nodes = Annotated[int | None, typer.Option(help="Drafted tokens that verify looks at; by default as many as fit.")]
Dtype = Annotated[Literal["bfloat16", "float32", "float16"], typer.Option(help="Precision of weights and cache.")]
Weights = Annotated[
    Literal["bfloat16", "int8"] | None,
    typer.Option(help="int8 halves what a token reads, at a small cost in quality; by default as --dtype."),
]
Device = Annotated[str, typer.Option(help="cpu or cuda.")]
Context = Annotated[int | None, typer.Option(help="Most prompt and output tokens together.")]
Temperature = Annotated[float, typer.Option(help="0 is greedy.")]
TopK = Annotated[int, typer.Option("--top-k", help="Sample from the k most likely tokens; 0 from all.")]
TopP = Annotated[float, typer.Option("--top-p", help="Sample from the most likely tokens that sum to p.")]
MinP = Annotated[float, typer.Option("--min-p", help="Leave out tokens less likely than this share of the first.")]
Seed = Annotated[int | None, typer.Option(help="Makes sampling repeatable.")]
MaxTokens = Annotated[int, typer.Option(help="Most tokens of an output.")]
Stop = Annotated[list[str] | None, typer.Option(help="End before this text; may be given several times.")]
IgnoreEos = Annotated[bool, typer.Option("--ignore-eos", help="Go on after the model's own end.")]
Raw = Annotated[bool, typer.Option("--raw", help="Take the text as it is, without the chat template.")]
Store = Annotated[
    Path | None, typer.Option("--store", envvar="WINGBEAT_STORE", help="Folder of runs; by default one of your own.")
]
Fingerprint = Annotated[
    list[Path] | None,
    typer.Option(
        metavar="FILE",
        help="What `wingbeat fingerprint --out` wrote; given twice: at start and end, or at rest and under load.",
    ),
]
Run = Annotated[str, typer.Argument(help="A run: its name in the store, or its file.")]


def store_folder(named: Path | None) -> Path:
    """The store that was named, else the user's: wingbeat/runs in XDG_DATA_HOME (~/.local/share)."""
    return named or Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local/share") / "wingbeat" / "runs"


def open_run(run: str, named: Path | None) -> tuple[RunRecord, Path]:
    """A run and its file. Of a damaged one what stands before the damage, with a warning on stderr."""
    path = store.find(store_folder(named), run)
    found = record.load(path, partial=True)
    if found.damage:
        print(f"wingbeat: {found.damage}; going on with what stands before it", file=sys.stderr)
    return found, path


def load(
    model: str | None, head: Path | None, dtype: str, device: str, limits: Limits, weights: str | None = None
) -> LLM:
    """The engine with its default drafter. Raises the errors of loading a model or head."""
    if head is not None and not head.exists():
        raise NotFoundError(f"no draft head at {head}: there is no such file or directory")
    from wingbeat.engine.llm import LLM

    named = str(head) if head else None
    return LLM(model, head=named, dtype=dtype, weights=weights, device=device, limits=limits)


def limits(context: int | None, eager: bool) -> Limits:
    """Those of one request at a time."""
    from wingbeat.engine.settings import Limits

    return Limits(max_batch=1, context=context, eager=eager)


def draft(drafter: str | None, speculate: str, topk: int, nodes: int | None, verify_path: str) -> DraftSettings:
    """The drafting asked for; eagle3 for now where no drafter was named (see `use`)."""
    from wingbeat.engine.settings import AUTO_STEPS, DraftSettings

    shape: dict[str, Any] = {"topk": topk, "nodes": nodes, "extend": verify_path == "extend"}
    if speculate == "off":
        return DraftSettings(drafter="none")
    if speculate == "auto":
        return DraftSettings(drafter=drafter or "eagle3", steps=AUTO_STEPS, auto=True, **shape)
    if not speculate.isdecimal():
        raise UsageError(f"cannot speculate {speculate!r}; say auto, off or a number of tokens")
    return DraftSettings(drafter=drafter or "eagle3", steps=int(speculate), **shape)


def use(llm: LLM, drafter: str | None, settings: DraftSettings) -> None:
    """Drafts by `settings`, with the engine's own choice of drafter where none was named."""
    is_open = drafter is None and settings.drafter != "none"
    llm.use(replace(settings, drafter=llm.draft.drafter) if is_open else settings)


def arms(names: str, defaults: DraftSettings) -> dict[str, DraftSettings]:
    """Arms by name, from names like "plain,ngram,eagle3:4,eagle3:6:4:16,eagle3:4@extend".

    That is drafter[:steps[:topk[:nodes]]], and how verify runs. What a name leaves out is as in `defaults`; where it
    gives the steps, they are always taken.
    """
    chosen = [_arm(name.strip(), defaults) for name in names.split(",")]
    if len(chosen) != len(dict(chosen)):
        raise UsageError(f"an arm is named twice in {names!r}")
    return dict(chosen)


def _arm(name: str, defaults: DraftSettings) -> tuple[str, DraftSettings]:
    shape, _, path = name.partition("@")
    drafter, *numbers = shape.split(":")
    if not all(number.isdecimal() for number in numbers) or len(numbers) > 3 or path not in ("", "extend"):
        raise UsageError(
            f"cannot read the arm {name!r}; write drafter[:steps[:topk[:nodes]]][@extend], such as eagle3:5:4:16"
        )
    if drafter in ("plain", "none"):
        return "plain", replace(defaults, drafter="none")
    given: dict[str, Any] = dict(zip(("steps", "topk", "nodes"), map(int, numbers), strict=False))
    if numbers:
        given["auto"] = False
    if path:
        given["extend"] = True
    if drafter == "ngram":
        given.setdefault("topk", 1)
    return name, replace(defaults, drafter=drafter, **given)

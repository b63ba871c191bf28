"""Which engines there are, which arms each has, and how its worker is started."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from peers import exports, figures, venvs

HERE = Path(__file__).parent
OFFLINE = {"HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1"}
LOOKUP = {"llama.cpp": 2, "transformers": 4}  # tokens; llama-cpp-python advises 2 on a CPU
SCRIPTED_MS = {  # a token, in a rehearsal
    "wingbeat": {"plain": 10.0, "answer": 10.0, "n-gram": 9.0, "EAGLE-3": 6.0, "EAGLE-3 timed": 6.0},
    "llama.cpp bf16": {"plain": 11.0},
    "llama.cpp bf16 look-up": {"plain": 12.0},
    "llama.cpp Q8_0": {"plain": 8.0},
    "vLLM": {"plain": 20.0},
    "transformers": {"plain": 50.0, "look-up": 45.0},
}


@dataclass(frozen=True)
class Setup:
    """What all engines share. head: a checkpoint for all (None: the shipped one); cores: processor numbers."""

    venvs: Path
    models: Path
    head: str | None
    context: int
    batch: int
    cores: tuple[int, ...]


@dataclass(frozen=True)
class Launch:
    """A worker's command, configuration and environment; note: what keeps it from its best, if anything."""

    command: tuple[str, ...]
    configuration: Mapping[str, Any]
    environment: Mapping[str, str] = field(default_factory=dict)
    note: str | None = None


@dataclass(frozen=True)
class Engine:
    """One worker. arms, together: label -> the arm it asks for, with one prompt at a time and with many.

    launch: may take minutes (setting up, writing models) and raise PeerError.
    """

    name: str
    peer: str
    arms: Mapping[str, str]
    launch: Callable[[Setup], Launch]
    together: Mapping[str, str] = field(default_factory=dict)


def engines(vllm_steps: Iterable[int]) -> list[Engine]:
    """All of them, wingbeat first; vLLM has a worker for each number of draft tokens."""
    ours = {figures.PLAIN: "plain", figures.NGRAM: "n-gram", figures.EAGLE: "EAGLE-3", figures.TIMED: "EAGLE-3 timed",
            figures.FORWARDS: "forwards"}
    many = {figures.PLAIN: "plain", figures.EAGLE: "EAGLE-3"}
    lookup = f"{figures.LLAMA} look-up"
    return [
        Engine("wingbeat", "wingbeat", ours, _wingbeat(None), many),
        Engine(
            "wingbeat int8", "wingbeat", {figures.INT8: "plain", figures.INT8_EAGLE: "EAGLE-3"}, _wingbeat("int8")
        ),
        Engine(figures.LLAMA, "llama.cpp", {figures.LLAMA: "plain"}, _llama("BF16")),
        Engine(lookup, "llama.cpp", {lookup: "plain"}, _llama("BF16", LOOKUP["llama.cpp"])),
        Engine(figures.LLAMA_Q8, "llama.cpp", {figures.LLAMA_Q8: "plain"}, _llama("Q8_0")),
        Engine("vLLM", "vllm", {figures.VLLM: "plain"}, _vllm(0), {figures.VLLM: "plain"}),
        *(_vllm_with_head(steps) for steps in vllm_steps),
        Engine(
            "transformers", "transformers", {"transformers plain": "plain", "transformers look-up": "look-up"},
            _transformers,
        ),
    ]


def rehearsed(engine: Engine) -> Engine:
    """The same arms, from a script."""
    ms = SCRIPTED_MS.get(engine.name, {})
    launch = _launch("scripted_worker.py", sys.executable, {"ms": ms, "prompt_ms": 30.0})
    return Engine(engine.name, engine.peer, engine.arms, lambda setup: launch, engine.together)


def _launch(script: str, python: str, configuration: Mapping[str, Any], more: Mapping[str, str] = OFFLINE) -> Launch:
    return Launch((python, str(HERE / script)), configuration, more)


def _wingbeat(weights: str | None) -> Callable[[Setup], Launch]:
    return lambda setup: _launch("wingbeat_worker.py", sys.executable, {
        "head": setup.head, "weights": weights, "context": setup.context, "batch": setup.batch,
        "threads": len(setup.cores),
    })


def _llama(kind: str, lookup: int = 0) -> Callable[[Setup], Launch]:
    return lambda setup: _launch("llama_worker.py", venvs.python_of(venvs.LLAMA, setup.venvs), {
        "model": str(exports.gguf_file(setup.models, kind)), "context": setup.context, "threads": len(setup.cores),
        "lookup": lookup,
    })


def _vllm_with_head(steps: int) -> Engine:
    label = f"{figures.VLLM_EAGLE} of {steps}"
    return Engine(label, "vllm", {label: "EAGLE-3"}, _vllm(steps), {label: "EAGLE-3"})


def _vllm(steps: int) -> Callable[[Setup], Launch]:
    def launch(setup: Setup) -> Launch:
        python = venvs.python_of(venvs.VLLM, setup.venvs)
        environment, note = venvs.vllm_environment(python, setup.cores)
        configuration = {
            "model": str(exports.hf_directory(setup.models)), "steps": steps, "context": setup.context,
            "head": str(exports.head_of(setup.head)) if steps else None, "batch": setup.batch,
        }
        return replace(_launch("vllm_worker.py", python, configuration, OFFLINE | environment), note=note)

    return launch


def _transformers(setup: Setup) -> Launch:
    return _launch("transformers_worker.py", venvs.python_of(venvs.TRANSFORMERS, setup.venvs), {
        "model": str(exports.hf_directory(setup.models)), "threads": len(setup.cores), "lookup": LOOKUP["transformers"],
    })

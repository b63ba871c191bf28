"""The scenarios of `planted_real`: how both sides of each are run, and what causes count as right.

No cause is told to the investigation: it has the records alone. A scenario without a cause has runs that differ in
nothing, or in something that has no effect.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import wingbeat
from wingbeat.engine.llm import SHIPPED_HEAD
from wingbeat.measure import workload
from wingbeat.model.weights import locate_model

OLDER = ("numpy==2.3.5", "tokenizers==0.23.1")
SHORT = {"limit": 1, "eager": True, "max_tokens": 16}  # so that the first cycles weigh something
EAGER = {"eager": True, "limit": 2, "max_tokens": 16}  # many operations, which torch's profiler takes note of
PROFILED = """
import os
import torch.profiler
from wingbeat.cli.main import main
torch.profiler.profile(with_stack=True, record_shapes=True, profile_memory=True).__enter__()
try:
    main()
except SystemExit as end:
    os._exit(end.code or 0)  # what it took note of is not wanted, and takes minutes to put in order
os._exit(0)
"""
COMPILED = """
import torch
from wingbeat.cli.main import main
from wingbeat.model.layers import RMSNorm
RMSNorm.forward = torch.compile(RMSNorm.forward, dynamic=False)
main()
"""
PREFACE = "Below is a log that belongs to the question at its end. Read it, and answer the question alone.\n"
LOG_LINE = "{0:04d}: station {1} reports {2} degrees and wind from the {3}, the gauge stands at {4}.\n"
DRAFT_STARTS = "        batch = len(roots)\n"  # of Eagle3Drafter.propose
SLEEP = "        __import__('time').sleep(0.004)\n"


class LeftOutError(Exception):
    """A scenario that cannot be prepared here, and why."""


@dataclass(frozen=True)
class Way:
    """How a side is run. asked: settings that are others than usual; environment: variables; cores: None for all;
    code: what its processes run (empty: as `wingbeat bench`); python: the interpreter; beside: busy processes."""

    asked: dict[str, Any] = field(default_factory=dict)
    warmup: int = 1
    environment: dict[str, str] = field(default_factory=dict)
    cores: frozenset[int] | None = None
    code: str = ""
    python: str = ""
    beside: int = 0


@dataclass(frozen=True)
class Scenario:
    """right: causes that count as right (none: nobody is to be accused); make: both ways, from a folder for files."""

    name: str
    right: tuple[str, ...]
    make: Callable[[Path], tuple[Way, Way]]

    def fits(self, first: str, accused: bool) -> bool:
        """Whether an investigation that names `first` is right."""
        return first in self.right if self.right else not accused


def ways(before: Way, after: Way) -> Callable[[Path], tuple[Way, Way]]:
    """Two ways that need no files."""
    return lambda folder: (before, after)


def only_after(**changed: Any) -> Callable[[Path], tuple[Way, Way]]:
    """As usual before, with these settings after."""
    return ways(Way(), Way(asked=changed))


def some_cores(count: int) -> frozenset[int]:
    """The first cores that this process may use."""
    return frozenset(sorted(os.sched_getaffinity(0))[:count])


def longer_contexts(folder: Path) -> tuple[Way, Way]:
    """The same questions, behind a log of thousands of tokens."""
    words = (("north", "south", "east", "west"), ("A", "B", "C"))
    log = "".join(LOG_LINE.format(n, words[1][n % 3], n * 7 % 31, words[0][n * 5 % 4], n * 13 % 89) for n in range(70))
    files = []
    for name, before in (("short", ""), ("long", f"{PREFACE}{log}\nThe question: ")):
        questions = workload.bundled().take(2).prompts
        lines = [json.dumps({"question_id": one.id, "turns": [before + one.text]}) for one in questions]
        files.append(folder / f"{name}.jsonl")
        files[-1].write_text("\n".join(lines))
    short, long = (Way(asked={"prompts": str(file), "limit": 2}) for file in files)
    return short, long


def without_template(folder: Path) -> tuple[Way, Way]:
    """A copy of the model's file in which the chat template has another name, so that there is none."""
    original = locate_model(None)
    copy = folder / original.name
    if not copy.exists():
        content = original.read_bytes()
        copy.write_bytes(content.replace(b"tokenizer.chat_template", b"tokenizer.left_out_text", 1))
    return Way(), Way(asked={"model": str(copy), "head": str(SHIPPED_HEAD)})


def head(change: Callable[[Path], None]) -> Callable[[Path], tuple[Way, Way]]:
    """The shipped head, and a copy with a change."""

    def make(folder: Path) -> tuple[Way, Way]:
        copy = folder / "head"
        if not copy.exists():
            shutil.copytree(SHIPPED_HEAD, folder / "draft")
            change(folder / "draft")
            (folder / "draft").rename(copy)
        return Way(), Way(asked={"head": str(copy)})

    return make


def configured(**changed: Any) -> Callable[[Path], None]:
    """Writes other values into a head's configuration, wherever it has them."""

    def change(copy: Path) -> None:
        file = copy / "config.json"
        config = json.loads(file.read_text())
        for place in (config, config["eagle_config"]):
            place.update({name: value for name, value in changed.items() if name in place})
        file.write_text(json.dumps(config))

    return change


def shuffle_vocabulary(copy: Path) -> None:
    """The output layer's words in another order than the map to the target's words has them."""
    import torch
    from safetensors.torch import load_file, save_file

    tensors = load_file(copy / "model.safetensors")
    words = tensors["lm_head.weight"]
    order = torch.randperm(len(words), generator=torch.Generator().manual_seed(0))
    tensors["lm_head.weight"] = words[order]
    save_file(tensors, copy / "model.safetensors", metadata={"format": "pt"})


def copied(folder: Path, change: Callable[[Path], None] | None = None) -> Way:
    """A copy of the package, which comes first on the path."""
    if not (folder / "wingbeat").exists():
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(Path(wingbeat.__file__).parent, folder / "draft" / "wingbeat", ignore=ignored)
        if change:
            change(folder / "draft")
        (folder / "draft" / "wingbeat").rename(folder / "wingbeat")
    return Way(environment={"PYTHONPATH": str(folder)})


def sleep_while_drafting(folder: Path) -> None:
    """One more line in the drafter."""
    file = folder / "wingbeat" / "engine" / "drafters" / "eagle3.py"
    text = file.read_text()
    if text.count(DRAFT_STARTS) != 1:
        raise LeftOutError(f"{file} has no single place for a sleep")
    file.write_text(text.replace(DRAFT_STARTS, DRAFT_STARTS + SLEEP))


def with_older_libraries(folder: Path) -> tuple[Way, Way]:
    """A second environment on top of this one, with older libraries that the engine's forwards do not use."""
    place = folder / "venv"
    if not place.exists():
        own = next(path for path in sys.path if path.endswith("site-packages"))
        venv.create(folder / "draft", symlinks=True)
        [packages] = (folder / "draft").glob("lib/python3*/site-packages")
        (packages / "above.pth").write_text(f"import site; site.addsitedir({own!r})\n")
        install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(packages), *OLDER]
        done = subprocess.run(install, capture_output=True, text=True)
        if done.returncode:
            shutil.rmtree(folder / "draft")
            raise LeftOutError(f"pip cannot install {' '.join(OLDER)}: {done.stderr.strip()[-200:]}")
        (folder / "draft").rename(place)
    return Way(), Way(python=str(place / "bin" / "python"))


def with_untracked_file(folder: Path) -> tuple[Way, Way]:
    """Two checkouts of one commit, the second with a file that git does not know."""
    for name in ("clean", "noted"):
        copied(folder / name)
        if not (folder / name / ".git").exists():
            dated = {**os.environ, "GIT_AUTHOR_DATE": "2026-01-01T00:00Z", "GIT_COMMITTER_DATE": "2026-01-01T00:00Z"}
            named = ("-c", "user.name=a", "-c", "user.email=a@b")
            for command in (("init", "-q"), ("add", "."), (*named, "commit", "-qm", "all")):
                subprocess.run(["git", "-C", str(folder / name), *command], check=True, env=dated)
    (folder / "noted" / "wingbeat" / "engine" / "notes.py").write_text("NOTE = 'try more steps'\n")
    return copied(folder / "clean"), copied(folder / "noted")


SCENARIOS = (
    Scenario("one_thread", ("cores",), ways(*(Way(environment={"OMP_NUM_THREADS": n}) for n in "21"))),
    Scenario("busy_neighbour", ("tenants",), ways(Way(), Way(beside=os.cpu_count() or 1))),
    Scenario("one_core", ("cores",), ways(Way(cores=some_cores(2)), Way(cores=some_cores(1)))),
    Scenario("verify_as_extend", ("captured",), only_after(arms="plain,eagle3:3@extend")),
    Scenario("longer_contexts", ("context",), longer_contexts),
    Scenario("no_template", ("prompts",), without_template),
    Scenario("temperature", ("sampling",), only_after(temperature=1.0)),
    Scenario("short_outputs", ("output_length",), only_after(max_tokens=6)),
    Scenario("wrong_taps", ("head",), head(configured(eagle_aux_hidden_state_layer_ids=[1, 8, 20]))),
    Scenario("wrong_rope", ("head",), head(configured(rope_theta=10.0))),
    Scenario("shuffled_vocabulary", ("head",), head(shuffle_vocabulary)),
    Scenario("float32", ("precision",), only_after(dtype="float32")),
    Scenario(
        "profiler", ("observer",),
        ways(*(Way(asked=EAGER, code=code) for code in ("", PROFILED))),
    ),
    Scenario("no_warmup", ("warmup",), ways(*(Way(asked=SHORT, code=COMPILED, warmup=rounds) for rounds in (1, 0)))),
    Scenario("more_steps", ("speculation",), only_after(arms="plain,eagle3:12")),
    Scenario("eager", ("captured",), only_after(eager=True)),
    Scenario(
        "sleep_in_draft", ("patches", "code"),
        lambda folder: (copied(folder / "before"), copied(folder / "after", sleep_while_drafting)),
    ),
    Scenario("again", (), ways(Way(), Way())),
    Scenario("again_sampled", (), ways(*(Way(asked={"temperature": 0.7, "seed": 3}) for _ in "ab"))),
    Scenario("again_ngram", (), ways(*(Way(asked={"arms": "plain,ngram:4"}) for _ in "ab"))),
    Scenario("older_libraries", (), with_older_libraries),
    Scenario("another_variable", (), ways(Way(), Way(environment={"HF_HUB_OFFLINE": "1"}))),
    Scenario("untracked_file", (), with_untracked_file),
    Scenario("renamed_head", (), head(lambda copy: None)),
)  # fmt: skip

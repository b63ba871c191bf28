"""wingbeat beside llama.cpp, vLLM and transformers: the same prompts, lengths, precision and threads, in one run.

    python benchmarks/peers.py --prompts questions/*.jsonl [--limit 10] [--tokens 128] [--out peers.json]
        [--plot peers.png] [--venvs FOLDER] [--only wingbeat llama.cpp ...] [--head DIR] [--show] [--rehearse]

Every engine gets an environment of its own (made here, in minutes; llama.cpp is compiled) and a worker process that
stands still, stopped, except on its turn. Each prompt runs on every arm in turn, forwards and backwards by turns
(A B, B A), then crowds of prompts at once. Answers are as long as wingbeat's plain one, for everybody. All raw times go
into --out after every prompt; started again with the same settings, it goes on there. An engine that cannot be had is
named with the reason. Exit code: 0 if every floor that was measured holds, 1 if not, 3 if wingbeat itself fails.

vLLM wants tcmalloc (Debian: libtcmalloc-minimal4). PyPI's torch for Linux brings CUDA: for the smaller CPU build set
PIP_EXTRA_INDEX_URL=https://download.pytorch.org/whl/cpu.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import zip_longest
from pathlib import Path
from typing import Any

from peers import figures, tables
from peers.engines import Engine, Setup, engines, rehearsed
from peers.processes import PeerError, Worker

import wingbeat
from wingbeat.measure.workload import bundled, read

CACHE = Path.home() / ".cache" / "wingbeat" / "peers"
PEERS = ("wingbeat", "llama.cpp", "vllm", "transformers")
SHORTEST = 16  # tokens of an answer, whatever its own end
ROUND_UP = 256  # of the context


@dataclass(frozen=True)
class Prompt:
    """A tokenised question of a set."""

    key: str
    set: str
    tokens: list[int]


class Record:
    """What is in the file: settings, machine, raw times by unit, and what was left out and why."""

    def __init__(self, file: Path, settings: dict[str, Any]) -> None:
        self.file = file
        self.data: dict[str, Any] = {
            "version": 1, "settings": settings, "machine": machine(), "versions": {}, "left_out": {}, "notes": {},
            "lengths": {}, "units": [], "idle": {},
        }
        if file.exists():
            kept = json.loads(file.read_text())
            other = sorted(name for name in settings if kept["settings"].get(name) != settings[name])
            if other:
                raise SystemExit(f"{file} was made with other {', '.join(other)}; name another --out, or remove it")
            self.data |= {name: kept[name] for name in ("machine", "versions", "lengths", "units", "idle")}

    def save(self) -> None:
        """Writes the file as a whole."""
        half = self.file.with_name(self.file.name + ".half")
        half.write_text(json.dumps(self.data))
        half.replace(self.file)


@dataclass
class Session:
    """The workers that are alive, by engine."""

    record: Record
    setup: Setup
    logs: Path
    workers: dict[str, tuple[Engine, Worker]] = field(default_factory=dict)

    def start(self, engine: Engine) -> None:
        """Starts a worker; if it cannot be, its arms are left out."""
        print(f"starting {engine.name} ...", end=" ", flush=True)
        begin = time.monotonic()
        try:
            launch = engine.launch(self.setup)
            worker = Worker(launch.command, launch.configuration, launch.environment, self.logs / f"{engine.name}.log")
        except Exception as error:  # whatever keeps one engine away must not end the run of the others
            self._leave_out(engine, error)
            return
        self.workers[engine.name] = engine, worker
        self.record.data["versions"][engine.name] = worker.versions
        if launch.note:
            self.record.data["notes"][engine.name] = launch.note
        print(f"{time.monotonic() - begin:.0f} s; {', '.join(f'{k} {v}' for k, v in worker.versions.items())}")

    def _leave_out(self, engine: Engine, error: Exception) -> None:
        self.record.data["left_out"][engine.name] = str(error) or type(error).__name__
        print(f"{engine.name} is left out: {error}", flush=True)
        if engine.name == "wingbeat":
            raise SystemExit(3)

    def arms(self, many: bool) -> dict[str, tuple[str, str]]:
        """label -> engine's name and its arm, of those alive."""
        return {
            label: (name, arm)
            for name, (engine, _) in self.workers.items()
            for label, arm in (engine.together if many else engine.arms).items()
        }

    def turn(self, name: str, job: dict[str, Any]) -> dict[str, Any] | None:
        """One job; None if the engine failed, which ends it."""
        engine, worker = self.workers[name]
        try:
            return worker.turn(job)
        except PeerError as error:
            worker.close()
            del self.workers[name]
            self._leave_out(engine, error)
            return None
        finally:
            self.record.data["idle"][name] = [worker.idle_seconds, worker.idle_cpu]

    def close(self) -> None:
        """Ends every worker."""
        for _, worker in self.workers.values():
            worker.close()


def machine() -> dict[str, Any]:
    """What this runs on, and how busy it is."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    processor = names[0] if names else os.uname().machine
    return {"processor": processor, "date": f"{datetime.now():%Y-%m-%d}", "load": os.getloadavg()[0]}


def load_prompts(options: argparse.Namespace) -> list[Prompt]:
    """The first `limit` questions of each file, the sets in turn; or the bundled ones."""
    if options.rehearse:
        encode = lambda text: list(text.encode())  # noqa: E731
    else:
        from wingbeat.engine.tokenizer import Tokenizer
        from wingbeat.model.weights import locate_model

        encode = Tokenizer(locate_model(None)).encode
    sets = {Path(name).stem: read(Path(name)) for name in options.prompts} or {"bundled": bundled()}
    taken = [
        [Prompt(f"{name}/{one.id}", name, encode(one.text)) for one in held.prompts[: options.limit]]
        for name, held in sets.items()
    ]
    return [prompt for some in zip_longest(*taken) for prompt in some if prompt]


def code_digest(head: str | None) -> str:
    """Of the engine's files and the head's: other code, other figures."""
    package = Path(wingbeat.__file__).parent
    folders = [package / "engine", package / "model", Path(head) if head else package / "heads"]
    files = sorted(file for folder in folders for file in folder.rglob("*") if file.is_file() and file.suffix != ".pyc")
    whole = hashlib.sha256()
    for file in files:
        whole.update(file.name.encode() + file.read_bytes())
    return whole.hexdigest()[:16]


def measure_lengths(session: Session, prompts: Sequence[Prompt], most: int) -> None:
    """How long everybody's answer to each prompt is to be: as wingbeat's plain one, but not too short to time."""
    lengths = session.record.data["lengths"]
    missing = [prompt for prompt in prompts if prompt.key not in lengths]
    for number, prompt in enumerate(missing, start=1):
        found = session.turn("wingbeat", {"arm": "answer", "prompts": [prompt.tokens], "lengths": [most]})
        assert found is not None
        lengths[prompt.key] = min(most, max(SHORTEST, found["tokens"]))
        print(f"\rlengths of answers: {number} of {len(missing)}", end="", flush=True)
        session.record.save()
    print(f"\r{len(prompts)} prompts, {sum(lengths[prompt.key] for prompt in prompts)} tokens on every arm")


def planned(prompts: Sequence[Prompt], options: argparse.Namespace) -> list[tuple[str, str, list[Prompt]]]:
    """Units as (id, set, prompts): every prompt alone, then crowds of twice the batch (at least one batch)."""
    alone = [(f"{p.key}#{i}", p.set, [p]) for i in range(options.rounds) for p in prompts]
    size = 2 * options.batch
    crowds = [list(prompts[i : i + size]) for i in range(0, len(prompts) - options.batch + 1, size)]
    rounds = range(options.crowd_rounds)
    return alone + [(f"crowd {n}#{i}", figures.TOGETHER, some) for i in rounds for n, some in enumerate(crowds)]


def run_units(session: Session, units: Sequence[tuple[str, str, list[Prompt]]]) -> None:
    """Runs every unit that lacks an arm, as a whole, so that what is compared was measured together."""
    data, begin, ran = session.record.data, time.monotonic(), 0
    for number, (name, of, prompts) in enumerate(units):
        arms = session.arms(of == figures.TOGETHER)
        kept = next((unit for unit in data["units"] if unit["id"] == name), None)
        if kept and set(arms) <= set(kept["turns"]):
            continue
        order = list(reversed(arms)) if number % 2 else list(arms)
        turns = run_unit(session, order, prompts)
        data["units"] = [unit for unit in data["units"] if unit["id"] != name]
        data["units"].append({"id": name, "set": of, "turns": turns})  # turns are in the order in which they ran
        session.record.save()
        ran += 1
        left = (time.monotonic() - begin) / ran * (len(units) - number - 1) / 60
        said = (f"{label} {speed:.0f}" for label, turn in sorted(turns.items()) if label not in figures.NO_SPEED
                for speed in [figures.speed(turn)] if speed)
        print(f"{number + 1} of {len(units)}, about {left:.0f} min left. {name}: {', '.join(said)}", flush=True)


def run_unit(session: Session, order: Sequence[str], prompts: Sequence[Prompt]) -> dict[str, Any]:
    """Every arm once. Returns the answers of those that gave one."""
    lengths = [session.record.data["lengths"][prompt.key] for prompt in prompts]
    turns = {}
    for label in order:
        name, arm = session.arms(len(prompts) > 1).get(label, (None, ""))
        if name:
            more = {} if label == figures.FORWARDS else {"prompts": [p.tokens for p in prompts], "lengths": lengths}
            found = session.turn(name, {"arm": arm, **more})
            turns |= {label: found} if found else {}
    return turns


def parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The options. Exits with 2 where they make no sense."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--prompts", nargs="*", default=[], help="question files, a set each; else the bundled ones")
    parser.add_argument("--limit", type=int, default=10, help="prompts of each set")
    parser.add_argument("--tokens", type=int, default=128, help="new tokens a prompt at most")
    parser.add_argument("--rounds", type=int, default=1, help="times each prompt runs on every arm")
    parser.add_argument("--batch", type=int, default=16, help="requests that run at once in a crowd")
    parser.add_argument("--crowd-rounds", type=int, default=2, help="times each crowd runs; 0: no crowds")
    parser.add_argument("--threads", type=int, help="default: every core")
    parser.add_argument("--head", help="an EAGLE-3 checkpoint; default: the shipped one")
    parser.add_argument("--vllm-steps", type=int, nargs="+", default=[2, 3], help="draft tokens; the best one counts")
    parser.add_argument("--only", nargs="+", choices=PEERS, default=list(PEERS), help="wingbeat always takes part")
    parser.add_argument("--venvs", type=Path, default=CACHE / "venvs", help="where the environments are or go")
    parser.add_argument("--models", type=Path, default=CACHE / "models", help="where the model's other forms go")
    parser.add_argument("--out", type=Path, default=Path("peers.json"), help="all raw times; logs go beside it")
    parser.add_argument("--plot", type=Path, help="a picture, .png or .svg")
    parser.add_argument("--show", action="store_true", help="print and draw what --out holds; run nothing")
    parser.add_argument("--rehearse", action="store_true", help="everything from a script: no engine, no time")
    options = parser.parse_args(arguments)
    if min(options.limit, options.tokens - 1, options.rounds, options.batch - 1, options.crowd_rounds + 1) < 1:
        parser.error("--limit and --rounds must be 1 or more, --tokens and --batch 2 or more")
    if options.show and not options.out.exists():
        parser.error(f"there is no {options.out} to show")
    return options


def measure(options: argparse.Namespace) -> Record:
    """Sets up, starts and runs everything that is not in the record yet."""
    prompts = load_prompts(options)
    cores = sorted(os.sched_getaffinity(0))[: options.threads]
    longest = max(len(prompt.tokens) for prompt in prompts) + options.tokens
    context = -(-longest // ROUND_UP) * ROUND_UP
    digest = hashlib.sha256(json.dumps([[p.key, p.tokens] for p in prompts]).encode()).hexdigest()[:16]
    record = Record(options.out, {
        "prompts": digest, "tokens": options.tokens, "batch": options.batch, "context": context, "cores": cores,
        "code": "script" if options.rehearse else code_digest(options.head), "head": options.head,
    })
    logs = options.out.with_suffix(".logs")
    logs.mkdir(parents=True, exist_ok=True)
    setup = Setup(options.venvs, options.models, options.head, context, options.batch, tuple(cores))
    session = Session(record, setup, logs)
    os.environ.pop("OMP_NUM_THREADS", None)  # each engine is told its threads in its own way
    try:
        for engine in engines(options.vllm_steps):
            if engine.peer in {"wingbeat", *options.only}:
                session.start(rehearsed(engine) if options.rehearse else engine)
        measure_lengths(session, prompts, options.tokens)
        run_units(session, planned(prompts, options))
    finally:
        session.close()
        record.save()
    return record


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures, prints, draws."""
    options = parsed(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that workers are ended
    data = json.loads(options.out.read_text()) if options.show else measure(options).data
    print("\n" + tables.text(data))
    if options.plot:
        from peers import picture

        picture.save(data, options.plot)
    held = [line.verdict for line in figures.lines(data["units"], data["settings"]["batch"])]
    return int("BELOW FLOOR" in held)


if __name__ == "__main__":
    sys.exit(main())

"""What a CUDA GPU makes of the engine: captured forwards against called ones, and their cost against its memory.

    python benchmarks/gpu.py [--shape 1b|8b ...] [--model DIR] [--minutes 7]
    python benchmarks/gpu.py --rehearse

Weights are random, of Llama shapes in bfloat16, or --model's; the draft head is random, so what it proposes is refused
and a drafter that knows the answer takes its place where acceptance matters. First, in float32 on a small model, output
with every drafter must be that of plain, uncaptured decoding token for token. Then, for each shape: captured forwards
must equal called ones, and outputs may differ at near ties only, which are shown. Milliseconds are medians; the share
of bandwidth is that of the bytes a forward must read, against the best of this device's own reading.

Without a CUDA GPU it says so and ends with 0. --rehearse runs every stage on the CPU, on a tiny model and with nothing
captured, to try the script itself. A stage that fails is told and the others go on; the exit code is then 1.
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import traceback
import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from time import perf_counter

import torch

from wingbeat.engine.drafters.base import Drafter
from wingbeat.engine.drafters.eagle3 import Eagle3Drafter
from wingbeat.engine.drafters.none import NoDrafter
from wingbeat.engine.drafters.scripted import ScriptedDrafter
from wingbeat.engine.engine import Engine
from wingbeat.engine.graphs import RepeatRecorder, Runner
from wingbeat.engine.request import Request, SamplingParams
from wingbeat.engine.settings import Budget, DraftSettings, Limits
from wingbeat.measure.clock import TimingObserver
from wingbeat.model.config import HeadConfig, RopeConfig, TargetConfig
from wingbeat.model.cost import Block, draft_step, target_step
from wingbeat.model.draft_head import DraftHead
from wingbeat.model.layers import ForwardInputs
from wingbeat.model.target import Target
from wingbeat.model.weights import load_target

LLAMA = {"family": "llama", "vocab_size": 128256, "num_kv_heads": 8, "rope": RopeConfig(theta=500000.0)}
SHAPES = {
    "1b": TargetConfig(
        **LLAMA, hidden_size=2048, intermediate_size=8192, num_layers=16, num_heads=32, head_dim=64,
        max_position=131072, tie_embeddings=True,
    ),
    "8b": TargetConfig(
        **LLAMA, hidden_size=4096, intermediate_size=14336, num_layers=32, num_heads=32, head_dim=128,
        max_position=131072,
    ),
    "rehearsal": TargetConfig.tiny(head_dim=16),
}
SMALL = TargetConfig.tiny(
    vocab_size=4096, hidden_size=256, intermediate_size=512, num_heads=8, num_kv_heads=2, head_dim=32, max_position=1024
)
WIDTHS = (1, 2, 4, 8, 16, 32)
CHAIN, TREE = DraftSettings(steps=4), DraftSettings(steps=4, topk=4, nodes=15)
PAIRS = 2  # committed tokens that the head extends over before it drafts
STD = 0.02  # of random weights
NEAR_TIE = 0.25  # of the logits' standard deviation; in bfloat16, over many random layers
EXACT, CLOSE = 1e-5, 3e-2  # of the largest value, float32 and bfloat16


@dataclass
class Report:
    """Figures by stage, and what failed and why. Stages run until the deadline."""

    minutes: float
    began: float = field(default_factory=perf_counter)
    figures: dict[str, dict] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)

    def say(self, text: str) -> None:
        print(f"[{perf_counter() - self.began:6.1f} s] {text}", flush=True)

    def stage(self, name: str, work: Callable[[], dict]) -> dict:
        """Runs a stage; its figures, none if it failed."""
        if perf_counter() - self.began > 60 * self.minutes:
            self.failed[name] = f"not begun: {self.minutes:g} minutes were over"
            return {}
        self.say(name)
        try:
            with warnings.catch_warnings(record=True) as told:
                warnings.simplefilter("always")
                found = work()
            self.figures[name] = found
            for each in {str(one.message) for one in told if "captur" in str(one.message)}:
                self.failed[f"{name}: capture"] = each
                self.say(f"    WARNING {each}")
            return found
        except Exception as error:
            traceback.print_exc()
            self.failed[name] = f"{type(error).__name__}: {error}".splitlines()[0]
            self.say(f"    FAILED {self.failed[name]}")
            return {}


@dataclass
class Bench:
    """A model with a head, on a device, and what times it."""

    target: Target
    head: DraftHead
    context: int
    calls: int = 20
    trials: int = 5

    @property
    def device(self) -> torch.device:
        return self.target.device

    def milliseconds(self, call: Callable[[], object]) -> float:
        return milliseconds(call, self.calls, self.trials)

    def engine(self, drafter: Drafter | None = None, batch: int = 1, eager: bool = False) -> Engine:
        """By default without a drafter, but with the head's taps and room for the widest forward."""
        limits = Limits(max_batch=batch, eager=eager)
        if drafter is None:
            drafter = ScriptedDrafter(lambda history: ((), ()), max(WIDTHS))
            drafter.taps = self.head.config.taps
        return Engine(self.target, drafter, limits, self.context)

    def eagle(self, settings: DraftSettings, batch: int = 1, eager: bool = False) -> Eagle3Drafter:
        return Eagle3Drafter(self.head, settings, Limits(max_batch=batch, eager=eager), self.context)

    def inputs(self, engine: Engine, width: int, context: int, batch: int = 1) -> ForwardInputs:
        """Random tokens after `context` others, whose keys and values are random too."""
        generator = torch.Generator(self.device).manual_seed(width)
        for pair in engine.cache.rows(0, batch):
            for each in pair:
                used = each[:, :, :context]
                used.copy_(torch.randn(used.shape, device=self.device, dtype=used.dtype, generator=generator))
        starts = torch.full((batch,), context, device=self.device)
        size = (batch, width)
        tokens = torch.randint(self.target.config.vocab_size, size, device=self.device, generator=generator)
        return ForwardInputs.in_a_row(tokens, starts, engine.cache.round_reach(context + width))

    def prompts(self, count: int, length: int) -> list[list[int]]:
        generator = torch.Generator().manual_seed(length)
        return torch.randint(self.target.config.vocab_size, (count, length), generator=generator).tolist()


def wait() -> None:
    """For the device, if it is one to wait for."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def milliseconds(call: Callable[[], object], calls: int, trials: int) -> float:
    """The median of `trials`, each the mean of `calls` one after the other; what comes before them does not count."""
    times = []
    for _ in range(trials + 1):
        wait()
        start = perf_counter()
        for _ in range(calls):
            call()
        wait()
        times.append(1000 * (perf_counter() - start) / calls)
    return statistics.median(times[1:])


def build(config: TargetConfig, device: str, dtype: torch.dtype, model: str | None) -> tuple[Target, DraftHead]:
    """A target, from `model` or random, and a random head that shares its embedding. Made where it stays."""
    torch.manual_seed(0)
    usual = torch.get_default_dtype()
    loaded = load_target(Path(model), dtype, device) if model else None
    torch.set_default_dtype(dtype)
    try:
        with torch.device(device), torch.no_grad():
            target = loaded or randomise(Target(config))
            size = min(32000, target.config.vocab_size // 2)
            head = randomise(DraftHead(HeadConfig.for_target(target.config, size)))
            head.draft_to_target = torch.arange(size) * target.config.vocab_size // size
            head.embed_tokens.weight = target.embed_tokens.weight
    finally:
        torch.set_default_dtype(usual)
    return target.eval().requires_grad_(False), head.eval().requires_grad_(False)


def randomise(module: torch.nn.Module) -> torch.nn.Module:
    """Matrices of N(0, STD); norms stay at 1."""
    for parameter in module.parameters():
        if parameter.dim() > 1:
            parameter.normal_(0, STD)
    return module


def run(engine: Engine, prompts: Sequence[Sequence[int]], count: int, observer: object = None) -> list[list[int]]:
    """`count` tokens for each prompt, greedy."""
    if observer:
        engine.observer = observer
    requests = [Request(prompt, SamplingParams(max_tokens=count)) for prompt in prompts]
    for request in requests:
        engine.submit(request)
    while engine.has_work:
        engine.step()
    return [request.output for request in requests]


def knowing(answers: dict[tuple[int, ...], Sequence[int]], vocabulary: int) -> ScriptedDrafter:
    """Proposes what follows, four tokens deep, a wrong one beside each; so all are accepted, through a tree."""

    def script(history: Sequence[int]) -> tuple[list[int], list[int]]:
        prompt = next(known for known in answers if tuple(history[: len(known)]) == known)
        tokens, parents, parent = [], [], 0
        for token in answers[prompt][len(history) - len(prompt) :][:4]:
            tokens += [(token + 1) % vocabulary, token]
            parents += [parent, parent]
            parent = len(tokens)
        return tokens, parents

    return ScriptedDrafter(script, 8)


def machine(device: str) -> dict:
    """What it is, and the best rate at which it reads memory (GB/s)."""
    size = 2**32 if device == "cuda" else 2**26
    numbers, vector = torch.randn(size // 2**14, 2**12, device=device), torch.randn(2**12, device=device)
    rates = [size / milliseconds(call, calls=3, trials=5) / 1e6 for call in (numbers.sum, lambda: numbers @ vector)]
    found = {"torch": torch.__version__, "read_GB_s": round(max(rates), 1)}
    if device == "cuda":
        about = torch.cuda.get_device_properties(0)
        found |= {"name": about.name, "GiB": round(about.total_memory / 2**30), "cuda": torch.version.cuda}
    return found


def difference(bench: Bench, width: int, batch: int, context: int) -> float:
    """Captured against called: the largest error of logits and taps, of their largest value."""
    results = []
    for eager in (False, True):
        engine = bench.engine(batch=batch, eager=eager)
        assert eager or engine.step_forward.captures, "nothing is captured here"
        with torch.inference_mode():
            outputs = engine.step_forward(bench.inputs(engine, width, context, batch))
            results.append([output.clone().float() for output in outputs])
        assert eager or engine.step_forward.captures, f"capture failed: {engine.step_forward.because}"
    return max(float((a - b).abs().max() / b.abs().max()) for a, b in zip(*results, strict=True))


def equal(bench: Bench, context: int) -> dict:
    """Captured forwards against called ones: largest errors, of the largest value."""
    shapes = ((1, 1), (8, 1), (16, 4))
    found = {f"width {width}, batch {batch}": difference(bench, width, batch, context) for width, batch in shapes}
    assert max(found.values()) <= CLOSE, f"captured forwards are not called ones: {found}"
    return found


def exact(config: TargetConfig, device: str) -> dict:
    """float32: captured forwards equal called ones, and outputs are plain outputs, token for token."""
    bench = Bench(*build(config, device, torch.float32, None), context=512)
    errors = [difference(bench, width, batch, 100) for width, batch in ((1, 1), (5, 1), (16, 3), (32, 4))]
    prompts = [prompt for length in (1, 9, 60) for prompt in bench.prompts(2, length)]
    plain = run(bench.engine(NoDrafter(), eager=True), prompts, 48)
    answers = dict(zip(map(tuple, prompts), plain, strict=True))
    identical, most = {}, 0
    for batch in (1, 4):
        drafters = {
            "plain": NoDrafter(), "chain": bench.eagle(CHAIN, batch), "tree": bench.eagle(TREE, batch),
            "knowing": knowing(answers, config.vocab_size),
        }
        for name, drafter in drafters.items():
            outputs = run(bench.engine(drafter, batch), prompts, 48)
            identical[f"{name}, batch {batch}"] = sum(a == b for a, b in zip(outputs, plain, strict=True))
            most = max(most, len(prompts) - identical[f"{name}, batch {batch}"])
    found = {"largest_error": max(errors), "prompts": len(prompts), "identical": identical}
    assert max(errors) <= EXACT, f"captured forwards are not called ones: {found}"
    assert not most, f"outputs differ from plain decoding: {found}"
    return found


def forwards(bench: Bench, context: int, bandwidth: float | None, say: Callable[[str], None]) -> dict:
    """Milliseconds of decode and verify by width, and of some without capture."""
    found: dict = {"context": context, "captured": {}, "eager": {}}
    engine = bench.engine()
    with torch.inference_mode():
        for width in WIDTHS:
            inputs = bench.inputs(engine, width, context)
            ms = bench.milliseconds(lambda inputs=inputs: engine.step_forward(inputs))
            cost = target_step(bench.target.config, Block(width=width, context=context), bench.target.dtype.itemsize)
            found["captured"][width] = {"ms": ms, "GB_s": cost.bytes / ms / 1e6}
            if bandwidth:
                found["captured"][width]["of_bandwidth"] = cost.bytes / ms / 1e6 / bandwidth
            say(f"    width {width}: {ms:.3f} ms")
        called = bench.engine(eager=True)
        for width in (1, 8):
            inputs = bench.inputs(called, width, context)
            found["eager"][width] = bench.milliseconds(lambda inputs=inputs: called.step_forward(inputs))
    assert engine.step_forward.captures, f"not captured: {engine.step_forward.because}"
    return found


def drafting(bench: Bench, context: int) -> dict:
    """Milliseconds of extending and drafting one token, and of each further one."""
    times = {}
    for steps in (1, 5):
        growth = PAIRS * bench.calls * (bench.trials + 1)
        drafter = Eagle3Drafter(bench.head, DraftSettings(steps=steps), Limits(max_batch=1), context + growth)
        width = len(bench.head.config.taps) * bench.head.config.target_hidden_size
        taps = torch.randn(1, context, width, device=bench.device).to(bench.head.dtype)
        tokens = torch.randint(bench.target.config.vocab_size, (1, context), device=bench.device)
        drafter.begin(0, ())
        drafter.observe(0, tokens, taps, [context])

        def draft(drafter=drafter, tokens=tokens, taps=taps, steps=steps) -> None:
            drafter.propose(tokens[:, -1], Budget(steps))
            drafter.observe(0, tokens[:, :PAIRS], taps[:, :PAIRS], [PAIRS])

        with torch.inference_mode():
            times[steps] = bench.milliseconds(draft)
    cost = draft_step(bench.head.config, Block(context=context), bench.head.dtype.itemsize)
    step = (times[5] - times[1]) / 4
    return {"first_ms": times[1], "step_ms": step, "step_GB_s": cost.bytes / step / 1e6 if step > 0 else None}


def cycles(bench: Bench, context: int, count: int) -> dict:
    """Tokens per second of plain decoding, and of drafts that are never or always accepted; what a cycle is made of."""
    prompts = bench.prompts(1, context)
    plain = run(bench.engine(NoDrafter()), prompts, count)
    answers = {tuple(prompts[0]): plain[0]}
    arms = {
        "plain": NoDrafter(), "chain of 4, refused": bench.eagle(CHAIN),
        "tree, accepted": knowing(answers, bench.target.config.vocab_size),
    }
    found = {}
    for name, drafter in arms.items():
        engine = bench.engine(drafter)
        run(engine, prompts, count)  # captures
        start = perf_counter()
        run(engine, prompts, count)
        seconds = perf_counter() - start
        watch = TimingObserver(synchronize=wait)
        run(engine, prompts, count, watch)
        ms = {part: statistics.median(times) for part, times in watch.columns.ms.items() if part != "prefill"}
        outside = 1 - (ms.get("draft", 0) + ms["verify"]) / ms["cycle"]
        found[name] = {"tokens_per_s": count / seconds, "cycles": len(watch.columns), "outside": outside, "ms": ms}
    return found


def lossless(bench: Bench, context: int, count: int) -> dict:
    """bfloat16: where outputs with a drafter leave plain ones, and how near a tie that was."""
    prompts = bench.prompts(4, context)
    plain = run(bench.engine(NoDrafter()), prompts, count)
    answers = dict(zip(map(tuple, prompts), plain, strict=True))
    vocabulary = bench.target.config.vocab_size
    arms = {"chain": bench.eagle(CHAIN), "tree": bench.eagle(TREE), "knowing": knowing(answers, vocabulary)}
    found, worst = {}, 0.0
    for name, drafter in arms.items():
        outputs = run(bench.engine(drafter), prompts, count)
        gaps = []
        for prompt, ours, theirs in zip(prompts, outputs, plain, strict=True):
            at = next((i for i, (a, b) in enumerate(zip(ours, theirs, strict=True)) if a != b), None)
            if at is not None:
                gaps.append({"at": at, "gap": gap(bench, prompt + theirs[:at], ours[at], theirs[at])})
        worst = max([worst, *(one["gap"] for one in gaps)])
        found[name] = {"identical": len(prompts) - len(gaps), "of": len(prompts), "first_differences": gaps}
    assert worst <= NEAR_TIE, f"outputs differ where there is no near tie: {found}"
    return found


@torch.inference_mode()
def gap(bench: Bench, tokens: Sequence[int], first: int, second: int) -> float:
    """How far apart the target puts two tokens after `tokens`, in standard deviations of its logits."""
    engine = bench.engine(NoDrafter(), eager=True)
    size = len(tokens)
    starts = torch.zeros(1, dtype=torch.int64, device=bench.device)
    row = torch.tensor([list(tokens)], device=bench.device)
    inputs = ForwardInputs.in_a_row(row, starts, size)
    logits = bench.target.logits(bench.target(inputs, engine.cache.rows(0, 1)).hidden[0, -1]).float()
    return float((logits[first] - logits[second]).abs() / logits.std())


def measure(report: Report, name: str, options: argparse.Namespace, device: str) -> None:
    """All stages of one shape."""
    dtype = torch.float32 if options.rehearse else torch.bfloat16
    context, count = (60, 24) if options.rehearse else (512, 128)
    bandwidth = report.figures.get("machine", {}).get("read_GB_s")
    bench: Bench | None = None

    def prepare() -> dict:
        nonlocal bench
        target, head = build(SHAPES.get(name, SMALL), device, dtype, options.model)
        bench = Bench(target, head, 2 * context + 256, *((2, 1) if options.rehearse else ()))
        size = sum(each.numel() * each.itemsize for each in target.parameters())
        return {"GB": size / 1e9, "config": asdict(target.config)}

    if not report.stage(f"{name}: weights", prepare):
        return
    stages = {
        "captured = eager": lambda: equal(bench, context),
        "forwards": lambda: forwards(bench, context, bandwidth, report.say),
        "drafting": lambda: drafting(bench, context),
        "cycles": lambda: cycles(bench, context, count),
        "lossless": lambda: lossless(bench, context // 2, count),
    }
    for stage, work in stages.items():
        report.stage(f"{name}: {stage}", work)
        gc.collect()
        if device == "cuda":
            torch.cuda.empty_cache()


def table(report: Report, name: str) -> list[str]:
    """The figures of one shape, a line each."""
    found = {stage: report.figures.get(f"{name}: {stage}") for stage in ("forwards", "drafting", "cycles", "lossless")}
    lines = [f"{name} ({report.figures[f'{name}: weights']['GB']:.2f} GB of weights)"]
    if forward := found["forwards"]:
        decode = forward["captured"][1]["ms"]
        lines[0] += f", context {forward['context']}"
        for width, cell in forward["captured"].items():
            called = f", {forward['eager'][width]:.3f} ms uncaptured" if width in forward["eager"] else ""
            share = f", {cell['of_bandwidth']:.0%} of bandwidth" if "of_bandwidth" in cell else ""
            what = "decode" if width == 1 else f"verify of {width}"
            lines.append(f"  {what:14} {cell['ms']:8.3f} ms  {cell['ms'] / decode:5.2f} of decode{share}{called}")
        if draft := found["drafting"]:
            first, step = draft["first_ms"], draft["step_ms"]
            lines.append(f"  {'draft step':14} {step:8.3f} ms  {step / decode:5.2f} of decode")
            lines.append(f"  {'extend, first':14} {first:8.3f} ms  {first / decode:5.2f} of decode")
    for arm, cell in (found["cycles"] or {}).items():
        lines.append(
            f"  {arm:20} {cell['tokens_per_s']:7.1f} tok/s, cycle {cell['ms']['cycle']:.3f} ms, "
            f"{cell['outside']:.1%} outside forwards"
        )
    for arm, cell in (found["lossless"] or {}).items():
        gaps = ", ".join(f"{one['gap']:.3f}" for one in cell["first_differences"])
        ties = f"; near ties, gaps {gaps}" if gaps else ""
        lines.append(f"  {arm:20} {cell['identical']} of {cell['of']} outputs are plain ones{ties}")
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", nargs="+", choices=("1b", "8b"), default=["1b", "8b"])
    parser.add_argument("--model", help="a target's directory, instead of random weights")
    parser.add_argument("--minutes", type=float, default=7, help="no stage begins after so long")
    parser.add_argument("--rehearse", action="store_true")
    options = parser.parse_args()
    if not (options.rehearse or torch.cuda.is_available()):
        print("torch finds no CUDA GPU here, so there is nothing to measure; --rehearse tries the script itself")
        return 0
    device = "cpu" if options.rehearse else "cuda"
    if options.rehearse:
        recorder = RepeatRecorder()
        Runner.of = classmethod(lambda cls, device, rows, eager=False: cls(None if eager else recorder, rows))
    report = Report(options.minutes)
    report.stage("machine", lambda: machine(device))
    report.stage("float32", lambda: exact(SHAPES["rehearsal"] if options.rehearse else SMALL, device))
    names = ["rehearsal"] if options.rehearse else ["model"] if options.model else options.shape
    for name in names:
        measure(report, name, options, device)
    print("\n" + json.dumps(report.figures.get("machine")))
    for name in names:
        if f"{name}: weights" in report.figures:
            print("\n".join(table(report, name)))
    for stage, reason in report.failed.items():
        print(f"FAILED {stage}: {reason}")
    seconds = round(perf_counter() - report.began, 1)
    found = {"seconds": seconds, "figures": report.figures, "failed": report.failed}
    print(json.dumps({"benchmark": "gpu", "rehearsal": options.rehearse, **found}))
    return int(bool(report.failed))


if __name__ == "__main__":
    raise SystemExit(main())

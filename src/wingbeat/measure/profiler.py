"""Runs single forwards of an engine's target and draft head, and the machine's ceilings beside them, on the clock."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING

from wingbeat.errors import UsageError
from wingbeat.measure import calibrate
from wingbeat.measure.roofline import DRAFT, VERIFY, Ceilings, Timing
from wingbeat.measure.stats import spread

if TYPE_CHECKING:
    import torch

    from wingbeat.engine.llm import LLM
    from wingbeat.engine.settings import DraftSettings
    from wingbeat.engine.steps import Step
    from wingbeat.measure.record import RunRecord
    from wingbeat.model.cost import Cost

PAIRS = 2  # committed tokens that the head extends over before it drafts: about what a cycle commits
LAUNCHES = 100  # timed together
TRIALS = 3  # of each ceiling a round: it is the best that counts
DEPTHS = (1, 2, 4, 8)  # drafted steps measured beside those in use, for the cost of one step

Call = Callable[[], object]


@dataclass(frozen=True)
class Grid:
    """What to measure. widths: tokens a forward; contexts: tokens in the cache; repeats: times each cell is timed."""

    widths: tuple[int, ...] = (1, 2, 4, 8, 16, 32)
    contexts: tuple[int, ...] = (128, 512, 2048)
    repeats: int = 7

    def __post_init__(self) -> None:
        if min(self.widths, default=0) < 1 or min(self.contexts, default=0) < 1 or self.repeats < 1:
            raise UsageError("widths, contexts and repeats must be 1 or more, at least one of each")

    @classmethod
    def within(cls, limit: int, contexts: Sequence[int] | None, widths: Sequence[int], repeats: int) -> Grid:
        """The grid for an engine of `limit` tokens; contexts None: the most that fits, and 128, 512, 2048 if shorter.

        Raises UsageError where a context and the widest forward do not fit together.
        """
        most = limit - -(-max(widths, default=0) // 8) * 8  # captured forwards are as wide as that
        usual = [*(one for one in cls.contexts if 1.5 * one < most), max(1, most)]
        chosen = tuple(sorted(set(usual if contexts is None else contexts)))
        if max(chosen, default=0) > most:
            raise UsageError(
                f"a context of {max(chosen)} and a forward of {max(widths)} tokens exceed the engine's {limit}; "
                f"the longest context is {most}, or raise --context"
            )
        return cls(tuple(sorted(set(widths))), chosen, repeats)


@dataclass(frozen=True)
class Cell:
    """A call to time, with what it takes at least; the fields are `roofline.Timing`'s."""

    part: str
    path: str
    width: int
    context: int
    branches: int
    cost: Cost
    call: Call


def interleave(
    calls: Sequence[Call], repeats: int, clock: Callable[[], float] = perf_counter, wait: Call | None = None
) -> list[list[float]]:
    """Milliseconds of each call, [calls][repeats], after one that does not count.

    All are called in turn, forwards and backwards, so that drift hits them alike. wait: waits for the device.
    """
    times: list[list[float]] = [[] for _ in calls]
    for repeat in range(repeats + 1):
        order = range(len(calls)) if repeat % 2 else reversed(range(len(calls)))
        for index in order:
            start = clock()
            calls[index]()
            if wait:
                wait()
            times[index].append(1000 * (clock() - start))
    return [each[1:] for each in times]


def drafts(llm: LLM, record: RunRecord) -> list[DraftSettings]:
    """The EAGLE-3 drafting of a record's arms.

    Raises UsageError where the record is of another model, head or type: the tables would say nothing about it.
    """
    from wingbeat.engine.settings import DraftSettings

    found = []
    for arm, theirs in (record.launches[0].effective if record.launches else {}).items():
        ours = llm.effective
        theirs = {"weights": theirs.get("dtype"), **theirs}  # older records do not name them
        names = ("model", "head", "dtype", "weights", "device")
        other = [name for name in names if theirs.get(name) != ours[name]]
        if other:
            said = ", ".join(f"{name} {theirs.get(name)} (here {ours[name]})" for name in other)
            raise UsageError(f"arm {arm} of the run had {said}; profile the same, or leave out --run")
        if theirs["draft"]["drafter"] == "eagle3":
            found.append(DraftSettings(**theirs["draft"]))
    return found


def measure(
    llm: LLM, grid: Grid, drafts: Sequence[DraftSettings], eager: bool = True
) -> tuple[Ceilings, tuple[Timing, ...]]:
    """Times every cell of the grid on an idle engine, and the ceilings in between.

    drafts: drafting to measure at every context, beside chains of 1, 2, 4 and 8; without a draft head none is.
    eager: the reference forward too, where the engine has a quicker one; it needs the weights a second time.
    """
    import torch

    with torch.inference_mode():
        cells = [*_verify_cells(llm, grid, eager), *(_draft_cells(llm, grid, drafts) if llm.head else ())]
        device = llm.target.device
        read, multiply = calibrate.reading(device.type), calibrate.multiplying(device.type, llm.target.dtype)
        wait = torch.cuda.synchronize if device.type == "cuda" else None
        tops = [read[1], multiply[1], _launches(device)] * TRIALS
        times = interleave([*tops, *(cell.call for cell in cells)], grid.repeats, wait=wait)
    best = [min(min(each) for each in times[kind : len(tops) : 3]) for kind in range(3)]
    ceilings = Ceilings(read[0] / best[0] / 1e6, multiply[0] / best[1] / 1e6, 1000 * best[2] / LAUNCHES)
    return ceilings, tuple(_timing(cell, each) for cell, each in zip(cells, times[len(tops) :], strict=True))


def _timing(cell: Cell, times: Sequence[float]) -> Timing:
    ms = spread(times)
    return Timing(
        cell.part, cell.path, cell.width, cell.context, cell.branches, ms.median, ms.low, ms.high,
        cell.cost.bytes, cell.cost.flops,
    )


def _verify_cells(llm: LLM, grid: Grid, eager: bool) -> Iterator[Cell]:
    from wingbeat.engine.steps import Step
    from wingbeat.model.cost import Block, target_step
    from wingbeat.model.weights import load_target

    steps = [llm.engine.step_forward]
    if eager and steps[0].path != "eager":
        reference = llm.target
        if steps[0].path == reference.path:  # it is the target that is quick, not how it is called
            reference = load_target(llm.model_path, llm.target.dtype, str(llm.target.device))
            if llm.weights == "int8":
                reference.to_int8()
            reference.pack()
        steps.append(Step(reference, steps[0].taps, llm.engine.cache))
    for step in steps:
        for context in grid.contexts:
            for width in grid.widths:
                block, item = Block(width=width, context=context), llm.target.dtype.itemsize
                cost = target_step(llm.target.config, block, item, _packed(step.target))
                yield Cell(VERIFY, step.path, width, context, 1, cost, _forward(llm, step, width, context))


def _packed(model: object) -> float | None:
    """Bytes of a number in the matrices of a target or head, where they are not in its own type."""
    from wingbeat.model import int8

    return int8.BYTES if getattr(model, "int8", False) else None


def _forward(llm: LLM, step: Step, width: int, context: int) -> Call:
    """A forward of `width` tokens after `context` others, in the engine's own cache."""
    import torch

    from wingbeat.model.layers import ForwardInputs

    device = llm.target.device
    starts = torch.tensor([context], device=device)
    tokens = torch.randint(llm.target.config.vocab_size, (1, width), device=device)
    reach = llm.engine.cache.round_reach(context + width)
    inputs = ForwardInputs.in_a_row(tokens, starts, reach)
    return lambda: step(inputs)


def _draft_cells(llm: LLM, grid: Grid, drafts: Sequence[DraftSettings]) -> Iterator[Cell]:
    from wingbeat.engine.settings import DraftSettings
    from wingbeat.model.cost import Block, draft_extend, draft_step

    assert llm.head is not None
    config, items = llm.head.config, (llm.head.dtype.itemsize, _packed(llm.head))
    chains = [DraftSettings(steps=depth) for depth in DEPTHS]
    wanted = {(one.topk, one.steps): one for one in [*chains, *drafts]}
    for context in grid.contexts:
        for settings in (wanted[key] for key in sorted(wanted)):
            cost = draft_extend(config, Block(width=PAIRS, context=context), *items)
            for _ in range(settings.steps - 1):
                cost += draft_step(config, Block(width=settings.topk, context=context), *items)
            call = _drafting(llm, settings, context, grid.repeats)
            yield Cell(DRAFT, llm.engine.step_forward.path, settings.steps, context, settings.topk, cost, call)


def _drafting(llm: LLM, settings: DraftSettings, context: int, repeats: int) -> Call:
    """Extending over the last pairs and drafting, with a cache that has grown to `context` when all is done."""
    import torch

    from wingbeat.engine.drafters.eagle3 import Eagle3Drafter
    from wingbeat.engine.settings import Budget, Limits

    assert llm.head is not None
    growth = PAIRS * (repeats + 1)
    first = max(1, context - growth)
    limits = Limits(max_batch=1, eager=llm.limits.eager)
    drafter, budget = Eagle3Drafter(llm.head, settings, limits, first + growth), Budget(settings.steps)
    device = llm.target.device
    tokens = torch.randint(llm.target.config.vocab_size, (1, first), device=device)
    width = len(llm.head.config.taps) * llm.head.config.target_hidden_size
    taps = torch.randn(1, first, width, device=device).to(llm.head.dtype)
    roots = tokens[:, -1]
    drafter.begin(0, ())
    drafter.observe(0, tokens, taps, [first])
    drafter.propose(roots, budget)

    def draft() -> None:
        drafter.observe(0, tokens[:, -PAIRS:], taps[:, -PAIRS:], [min(PAIRS, first)])
        drafter.propose(roots, budget)

    return draft


def _launches(device: torch.device) -> Call:
    """The smallest operation, LAUNCHES times."""
    import torch

    small = torch.zeros(1, device=device)

    def launch() -> None:
        for _ in range(LAUNCHES):
            small.add_(1)

    return launch

"""Functions of tensors, captured once for each shape and replayed: a forward then costs one launch, not hundreds.

A function that is captured must do the same work on the same memory each time: shapes follow from its inputs' shapes
and `fixed` alone, nothing is read back to the host, and what it keeps (a cache) stays where it is. So inputs are copied
into buffers of the graph, and outputs are buffers of the graph too: **they hold until the next call of anything
captured**, as all graphs share one pool of memory.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import ClassVar, Protocol

import torch
from torch import Tensor

Outputs = tuple[Tensor, ...]
Work = Callable[[], Outputs]
Replay = Callable[[], object]

WARM_UPS = 2  # calls before a capture: libraries set themselves up, compilers compile
SAME_WITHIN = {torch.float32: 1e-5, torch.float16: 1e-2, torch.bfloat16: 3e-2}  # of the largest value


def round_batch(rows: int, most: int) -> int:
    """The rows of the graph that serves `rows` of them: a power of two, or `most`."""
    return min(1 << (rows - 1).bit_length(), most)


def round_width(width: int) -> int:
    """The tokens a row of the graph that serves `width` of them: up to 8 as they are, then in eights."""
    return width if width <= 8 else -(-width // 8) * 8


class Recorder(Protocol):
    """Turns work into something that can be replayed. `path` names it in records."""

    path: str

    def record(self, work: Work) -> tuple[Replay, Outputs]:
        """`work` has run before. The outputs count only after a replay."""


class CudaRecorder:
    """CUDA graphs. They never run at the same time, so all share one pool and one stream of capture."""

    path = "graph"

    def __init__(self, device: torch.device) -> None:
        self._device, self._pool, self._stream = device, torch.cuda.graph_pool_handle(), torch.cuda.Stream(device)
        self._keeper: torch.cuda.CUDAGraph | None = None

    def record(self, work: Work) -> tuple[Replay, Outputs]:
        with torch.cuda.device(self._device):
            if self._keeper is None:  # a pool whose graphs are all gone cannot be captured into again
                with torch.inference_mode(False):  # what the first capture sets up must serve outside it as well
                    self._keeper, _ = self._capture(lambda: (torch.zeros(1, device=self._device),))
            self._stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(self._stream):
                for _ in range(WARM_UPS):
                    work()
            torch.cuda.current_stream().wait_stream(self._stream)
            graph, outputs = self._capture(work)
        return graph.replay, outputs

    def _capture(self, work: Work) -> tuple[torch.cuda.CUDAGraph, Outputs]:
        graph = torch.cuda.CUDAGraph()
        # other threads may go on using the device: they do not disturb this one's capture
        with torch.cuda.graph(graph, pool=self._pool, stream=self._stream, capture_error_mode="thread_local"):
            outputs = work()
        return graph, outputs


class RepeatRecorder:
    """Replays by calling again, on any device: what a graph does to its caller, without a graph.

    As in a shared pool, a replay spoils the outputs of all others.
    """

    path = "repeat"

    def __init__(self) -> None:
        self._outputs: list[Outputs] = []

    def record(self, work: Work) -> tuple[Replay, Outputs]:
        kept = tuple(torch.empty_like(output) for output in work())
        self._outputs.append(kept)

        def replay() -> None:
            fresh = work()
            for output in (each for outputs in self._outputs for each in outputs):
                output.fill_(torch.nan if output.is_floating_point() else torch.iinfo(output.dtype).min)
            for output, value in zip(kept, fresh, strict=True):
                output.copy_(value)

        return replay, kept


@cache
def cuda_recorder(device: torch.device) -> CudaRecorder:
    """The one of this process for a device."""
    return CudaRecorder(device)


@dataclass(frozen=True)
class _Graph:
    """Buffers and what is replayed on them."""

    inputs: Outputs
    outputs: Outputs
    replay: Replay


class Runner:
    """Runs functions of tensors: replayed where there is a recorder, else by calling them.

    rows: the largest batch. Where a capture fails or does not do what the function does, a warning says so, functions
    are called from then on, and `because` keeps the reason.
    """

    captures_so_far: ClassVar[int] = 0  # of all runners

    def __init__(self, recorder: Recorder | None, rows: int) -> None:
        self.because: str | None = None
        self._recorder, self._rows = recorder, rows
        self._graphs: dict[object, _Graph] = {}

    @classmethod
    def of(cls, device: torch.device, rows: int, eager: bool = False) -> Runner:
        """With CUDA graphs on a CUDA device, unless `eager`."""
        return cls(cuda_recorder(device) if device.type == "cuda" and not eager else None, rows)

    @property
    def captures(self) -> bool:
        """Whether functions are captured."""
        return self._recorder is not None

    @property
    def path(self) -> str:
        """The recorder's, or "eager"."""
        return self._recorder.path if self._recorder else "eager"

    def __call__(self, function: Callable[..., Outputs], inputs: Sequence[Tensor], **fixed: int) -> Outputs:
        """function(*inputs, **fixed), captured once for each shape and `fixed`.

        Axis 0 of every input and output is the batch, axis 1 of inputs the width. Both are rounded up: the function
        sees rows and columns more, which hold what was there before (zeros, True at first), and must ignore them.
        Outputs are cut to the batch, and hold until the next call.
        """
        if self._recorder is None:
            return function(*inputs, **fixed)
        shapes = tuple(self._rounded(each.shape) for each in inputs)
        key = (function, shapes, tuple(fixed.items()))
        graph = self._graphs.get(key)
        if graph is None:
            buffers = tuple(_buffer(each, shape) for each, shape in zip(inputs, shapes, strict=True))
            _fill(buffers, inputs)
            graph = self._capture(lambda: function(*buffers, **fixed), buffers)
            if graph is None:
                return function(*inputs, **fixed)
            self._graphs[key] = graph
        _fill(graph.inputs, inputs)
        graph.replay()
        return tuple(output[: len(inputs[0])] for output in graph.outputs)

    def _rounded(self, shape: Sequence[int]) -> tuple[int, ...]:
        batch, *rest = shape
        rest[:1] = map(round_width, rest[:1])
        return (round_batch(batch, self._rows), *rest)

    def _capture(self, work: Work, inputs: Outputs) -> _Graph | None:
        """Captures, replays once and compares with a plain call; None, with a warning, where that goes wrong."""
        assert self._recorder is not None
        Runner.captures_so_far += 1
        try:
            expected = tuple(output.clone() for output in work())
            replay, outputs = self._recorder.record(work)
            replay()
            if wrong := _difference(outputs, expected):
                raise RuntimeError(f"the captured forward gave other results: {wrong}")
        except RuntimeError as error:
            reason = str(error).strip().splitlines()[0]
            warnings.warn(f"forwards are launched one by one, and slower, as capturing failed: {reason}", stacklevel=3)
            self.because, self._recorder = f"capturing failed: {reason}", None
            self._graphs.clear()
            return None
        return _Graph(inputs, outputs, replay)


def _buffer(like: Tensor, shape: tuple[int, ...]) -> Tensor:
    """A mask that sees everything or zeros: nothing that could make a row NaN."""
    return like.new_ones(shape) if like.dtype == torch.bool else like.new_zeros(shape)


def _fill(buffers: Outputs, inputs: Sequence[Tensor]) -> None:
    for buffer, value in zip(buffers, inputs, strict=True):
        buffer[tuple(slice(size) for size in value.shape[:2])].copy_(value)


def _difference(outputs: Outputs, expected: Outputs) -> str | None:
    """How far the outputs are from what was expected, if they are."""
    for output, wanted in zip(outputs, expected, strict=True):
        if not output.is_floating_point():
            if not torch.equal(output, wanted):
                return f"{int((output != wanted).sum())} of {output.numel()} whole numbers differ"
            continue
        if output.numel():
            error = float((output - wanted).abs().max() / wanted.abs().max().clamp(min=1e-30))
            if not error <= SAME_WITHIN[output.dtype]:
                return f"an error of {error:.2g} of the largest value"
    return None

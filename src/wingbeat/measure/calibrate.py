"""What the machine can do at the moment: a short probe before and after each launch, so that records show a slower one.

Every figure is the best of several trials, which is what the machine can do rather than what disturbed it.
"""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter, perf_counter_ns
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

UNITS = {"memory_read": "GB/s", "matrix_product": "GFLOP/s", "launch": "us", "timer": "ns"}
GPU_UNITS = {"copy_to_device": "us", "copy_from_device": "us"}  # of 4 KiB, waiting included

READ_BYTES = 128 << 20
SIZE = {"cpu": 512, "cuda": 4096}  # rows and columns of the two matrices
SMALL = 4096
TRIALS, QUICK_TRIALS = 5, 200


def figures(device: str) -> dict[str, float]:
    """The figures of UNITS, on a GPU also those of GPU_UNITS, for `device` ("cpu", "cuda"), in well under a second.

    memory_read: the sum of 128 MiB; matrix_product: float32 on the CPU, bfloat16 on a GPU; launch: one addition of one
    number, waiting included; timer: from one reading of the clock to the next.
    """
    import torch

    def wait() -> None:
        if device == "cuda":
            torch.cuda.synchronize()

    def seconds(work: Callable[[], object], trials: int) -> float:
        return min(_trial(work, wait) for _ in range(trials))

    with torch.inference_mode():
        numbers = torch.ones(READ_BYTES // 4, device=device)
        size = SIZE[device]
        matrix = torch.ones(size, size, device=device, dtype=torch.bfloat16 if device == "cuda" else torch.float32)
        one = torch.ones(1, device=device)
        found = {
            "memory_read": READ_BYTES / seconds(numbers.sum, TRIALS) / 1e9,
            "matrix_product": 2 * size**3 / seconds(lambda: matrix @ matrix, TRIALS) / 1e9,
            "launch": 1e6 * seconds(lambda: one + one, QUICK_TRIALS),
            "timer": float(min(-perf_counter_ns() + perf_counter_ns() for _ in range(QUICK_TRIALS))),
        }
        if device == "cuda":
            found |= _copies(torch.ones(SMALL, dtype=torch.uint8), seconds)
    return {name: float(f"{value:.4g}") for name, value in found.items()}


def _copies(here: Tensor, seconds: Callable[[Callable[[], object], int], float]) -> dict[str, float]:
    """Microseconds of one small copy each way."""
    here = here.pin_memory()
    there = here.cuda()
    return {
        "copy_to_device": 1e6 * seconds(lambda: there.copy_(here), QUICK_TRIALS),
        "copy_from_device": 1e6 * seconds(lambda: here.copy_(there), QUICK_TRIALS),
    }


def _trial(work: Callable[[], object], wait: Callable[[], None]) -> float:
    wait()
    start = perf_counter()
    work()
    wait()
    return perf_counter() - start

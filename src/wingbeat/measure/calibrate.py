"""What the machine can do at the moment: a short probe before and after each launch, so that records show a slower one.

Every figure is the best of several trials, which is what the machine can do rather than what disturbed it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from time import perf_counter, perf_counter_ns
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

Call = Callable[[], object]

UNITS = {"memory_read": "GB/s", "matrix_product": "GFLOP/s", "launch": "us", "timer": "ns"}
GPU_UNITS = {"copy_to_device": "us", "copy_from_device": "us"}  # of 4 KiB, waiting included
ALL_REDUCES = {"all_reduce_4k": 2**12, "all_reduce_256k": 2**18}  # bytes; in us, over all GPUs that the process sees

READ_BYTES = {"cpu": 2**28, "cuda": 2**31}  # far more than caches hold
SIZE = {"cpu": 512, "cuda": 4096}  # rows and columns of the two matrices
SMALL = 4096
TRIALS, QUICK_TRIALS = 5, 200


def figures(device: str) -> dict[str, float]:
    """The figures of UNITS for `device` ("cpu", "cuda"), in well under a second; on a GPU also those of GPU_UNITS,
    and where there are several those of ALL_REDUCES.

    memory_read: see `reading`; matrix_product: float32 on the CPU, bfloat16 on a GPU; launch: one addition of one
    number, waiting included; timer: from one reading of the clock to the next.
    """
    import torch

    with torch.inference_mode():
        read, multiply = reading(device), multiplying(device, torch.bfloat16 if device == "cuda" else torch.float32)
        one = torch.ones(1, device=device)
        found = {
            "memory_read": read[0] / _best(read[1], TRIALS, device) / 1e9,
            "matrix_product": multiply[0] / _best(multiply[1], TRIALS, device) / 1e9,
            "launch": 1e6 * _best(lambda: one + one, QUICK_TRIALS, device),
            "timer": float(min(-perf_counter_ns() + perf_counter_ns() for _ in range(QUICK_TRIALS))),
        }
        if device == "cuda":
            found |= _copies(torch.ones(SMALL, dtype=torch.uint8)) | _all_reduces(torch.cuda.device_count())
    return {name: float(f"{value:.4g}") for name, value in found.items()}


def read_gb_s(device: str, trials: int = TRIALS) -> float:
    """The rate at which memory can be read (see `reading`)."""
    amount, call = reading(device)
    return amount / _best(call, trials, device) / 1e9


def reading(device: str) -> tuple[int, Call]:
    """A number of bytes, and what reads them: all threads look for the largest number.

    Sums and products do more with what they read, and are slower on a CPU: matrix @ vector by half.
    """
    import torch

    return READ_BYTES[device], torch.ones(READ_BYTES[device] // 4, device=device).amax


def multiplying(device: str, dtype: torch.dtype) -> tuple[int, Call]:
    """A number of operations, and a product of two matrices that takes them."""
    import torch

    size = SIZE[device]
    matrix = torch.linspace(-1, 1, size**2, device=device).view(size, size).to(dtype)
    return 2 * size**3, lambda: matrix @ matrix


def _copies(here: torch.Tensor) -> dict[str, float]:
    """Microseconds of one small copy each way."""
    here = here.pin_memory()
    there = here.cuda()
    return {
        "copy_to_device": 1e6 * _best(lambda: there.copy_(here), QUICK_TRIALS, "cuda"),
        "copy_from_device": 1e6 * _best(lambda: here.copy_(there), QUICK_TRIALS, "cuda"),
    }


def _all_reduces(gpus: int) -> dict[str, float]:
    """Microseconds of small all-reduces over all GPUs; nothing for one GPU, and where NCCL cannot."""
    import torch
    from torch.cuda import nccl

    found = {}
    for name, size in ALL_REDUCES.items():
        parts = [torch.ones(size // 4, device=f"cuda:{gpu}") for gpu in range(gpus)]
        if gpus > 1 and nccl.is_available(parts):
            found[name] = 1e6 * _best(partial(nccl.all_reduce, parts), QUICK_TRIALS, "cuda")
    return found


def _best(work: Call, trials: int, device: str) -> float:
    """Seconds of the quickest trial."""
    import torch

    wait = torch.cuda.synchronize if device == "cuda" else lambda: None
    return min(_trial(work, wait) for _ in range(trials))


def _trial(work: Call, wait: Call) -> float:
    wait()
    start = perf_counter()
    work()
    wait()
    return perf_counter() - start

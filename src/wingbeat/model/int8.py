"""Weights rounded to int8: groups of 32 inputs share a scale; inputs are rounded likewise when they are multiplied.

A product of such weights and inputs is a product of whole numbers within each group, which processors are quick at.
Both layouts come from `rounded`: the one that `forward.c` reads, and the values that PyTorch multiplies.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

GROUP = 32
BYTES = 1 + 2 / GROUP  # of a number, with its part of the scale
MOST = 127


def rounded(weight: Tensor) -> tuple[Tensor, Tensor]:
    """weight [rows, cols] -> numbers [rows, groups, GROUP] int8 and scales [rows, groups] bfloat16.

    weight = numbers * scales; the last group is filled up with zeros.
    """
    groups = _in_groups(weight)
    scales = (groups.abs().amax(-1) / MOST).bfloat16()
    divisors = scales.float()[..., None]
    numbers = torch.where(divisors > 0, groups / divisors, 0).round_().clamp_(-MOST, MOST)
    return numbers.to(torch.int8), scales


def round_weight(weight: Tensor) -> Tensor:
    """What int8 leaves of a weight [rows, cols], in its own type."""
    numbers, scales = rounded(weight)
    return (numbers * scales.float()[..., None]).flatten(1)[:, : weight.shape[1]].to(weight.dtype)


def round_inputs(x: Tensor) -> Tensor:
    """What int8 leaves of inputs [..., cols], in their own type."""
    groups = _in_groups(x)
    most = groups.abs().amax(-1, keepdim=True)
    inverse = torch.where(most > 0, most.new_tensor(MOST) / most, 0)  # `MOST / most` rounds twice
    numbers = (groups * inverse).round_()
    return (numbers * (most / MOST)).flatten(-2)[..., : x.shape[-1]].to(x.dtype)


def packed(weight: Tensor) -> Tensor:
    """weight [rows, cols] as `forward.c` reads it, [rows / 16, bytes] uint8, rows filled up with zeros."""
    numbers, scales = rounded(F.pad(weight, (0, 0, 0, -len(weight) % 16)))
    by_block = scales.unflatten(0, (-1, 16)).transpose(1, 2)  # [blocks, groups, 16]
    by_block = F.pad(by_block.flatten(1), (0, scales.shape[1] % 2 * 16))
    fours = numbers.unflatten(0, (-1, 16)).unflatten(-1, (-1, 4)).permute(0, 2, 3, 1, 4)
    biased = fours.flatten(1).view(torch.uint8) ^ 128  # adds 128
    return torch.cat((by_block.view(torch.uint8), biased), dim=1)


def _in_groups(x: Tensor) -> Tensor:
    """x [..., cols] -> [..., groups, GROUP] float32, filled up with zeros."""
    return F.pad(x.detach().float(), (0, -x.shape[-1] % GROUP)).unflatten(-1, (-1, GROUP))

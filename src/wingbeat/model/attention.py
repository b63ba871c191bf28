"""Attention over a key/value cache: the one door for choices that depend on the device.

Shapes: B rows (requests), N new tokens a row, L cache columns, A heads, K key/value heads, D head size.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

KV = tuple[Tensor, Tensor]  # keys and values of one layer, each [B, K, L, D]


def attend(query: Tensor, cache: KV, mask: Tensor) -> Tensor:
    """Softmax attention with grouped heads.

    query [B, A, N, D]; cache: keys and values [B, K, >=L, D]; mask [B, N, L], True where a token may look.
    Returns [B, N, A * D]. Every token must see at least one column (itself), else its row is NaN.
    """
    length = mask.shape[-1]
    keys, values = cache[0][:, :, :length], cache[1][:, :, :length]
    if query.device.type == "cuda":
        with sdpa_kernel(SDPBackend.EFFICIENT_ATTENTION):  # the same kernel at every width, or an error
            return attend_as_groups(query, (keys, values), mask)
    out = F.scaled_dot_product_attention(query, keys, values, attn_mask=mask[:, None], enable_gqa=True)
    return out.transpose(1, 2).flatten(2)


def attend_as_groups(query: Tensor, cache: KV, mask: Tensor) -> Tensor:
    """As `attend`: the heads that share keys stand as more queries of one head.

    For CUDA, where grouped heads and a mask together would leave only the slow reference kernel, without a word.
    """
    groups = query.shape[1] // cache[0].shape[1]
    folded = query.unflatten(1, (-1, groups)).flatten(2, 3)  # [B, K, groups * N, D]
    out = F.scaled_dot_product_attention(folded, *cache, attn_mask=mask.repeat(1, groups, 1)[:, None])
    return out.unflatten(2, (groups, -1)).flatten(1, 2).transpose(1, 2).flatten(2)


def places(starts: Tensor, width: int) -> tuple[Tensor, Tensor]:
    """Rows [B, 1] and columns [B, width] of a block: starts[b] .. starts[b]+width-1 in each row."""
    rows = torch.arange(len(starts), device=starts.device)[:, None]
    return rows, starts[:, None] + torch.arange(width, device=starts.device)


def write(cache: KV, block: tuple[Tensor, Tensor], keys: Tensor, values: Tensor) -> None:
    """Writes new keys and values [B, K, N, D] into the block's places, in place."""
    rows, columns = block
    cache[0][rows, :, columns] = keys.transpose(1, 2)
    cache[1][rows, :, columns] = values.transpose(1, 2)


def block_mask(starts: Tensor, block: Tensor, length: int) -> Tensor:
    """What a block of new tokens may see: its row's first starts[b] columns, and `block` inside itself.

    starts [B] columns already filled; block [B, N, W] bool (token sees column); returns [B, N, length] bool, with
    the block's columns at starts[b] .. starts[b]+W-1. Needs length >= max(starts) + W.
    """
    width = block.shape[-1]
    columns = torch.arange(length, device=starts.device)
    inside = columns[None] - starts[:, None]  # [B, L]: column within the block, negative for the prefix
    within = block.gather(2, inside.clamp(0, width - 1)[:, None].expand(-1, block.shape[1], -1))
    is_prefix, is_block = inside < 0, (inside >= 0) & (inside < width)
    return is_prefix[:, None] | (is_block[:, None] & within)


def causal_mask(columns: Tensor, length: int) -> Tensor:
    """The mask of tokens in a row that stand in `columns` [B, N], of `length`: [B, N, length] bool."""
    return torch.arange(length, device=columns.device) <= columns[..., None]

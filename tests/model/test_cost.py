"""The counted bytes and operations against the modules themselves and torch's own counter."""

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from wingbeat.model.attention import causal_mask
from wingbeat.model.config import FAMILIES, HeadConfig, TargetConfig
from wingbeat.model.cost import Block, draft_extend, draft_step, target_step
from wingbeat.model.draft_head import DraftHead
from wingbeat.model.layers import ForwardInputs
from wingbeat.model.target import Target

BLOCK = Block(width=5, batch=3, context=20)


def inputs():
    starts = torch.full((BLOCK.batch,), BLOCK.context)
    positions = starts[:, None] + torch.arange(BLOCK.width)
    mask = causal_mask(positions, BLOCK.context + BLOCK.width)
    return ForwardInputs(torch.zeros_like(positions), positions, starts, mask)


def caches(config, count):
    shape = (BLOCK.batch, config.num_kv_heads, BLOCK.context + BLOCK.width, config.head_dim)
    return [(torch.zeros(shape), torch.zeros(shape)) for _ in range(count)]


def numbers(module):
    return sum(parameter.numel() for parameter in module.parameters())


def attention_flops(config, layers):
    """The two products of attention; torch's counter knows only some of its kernels."""
    columns = BLOCK.context + BLOCK.width
    return layers * 2 * 2 * BLOCK.tokens * columns * config.num_heads * config.head_dim


@pytest.fixture(autouse=True)
def plain_products(monkeypatch):
    """Leaves attention out of torch's count, on every version and device."""
    monkeypatch.setattr("wingbeat.model.attention.attend", lambda query, cache, mask: query.transpose(1, 2).flatten(2))


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("tied", [False, True])
@torch.inference_mode()
def test_a_target_step(family, tied):
    config = TargetConfig.tiny(family, tie_embeddings=tied)
    target = Target(config)
    with FlopCounterMode(display=False) as counted:
        target.logits(target(inputs(), caches(config, config.num_layers)).hidden)
    cost = target_step(config, BLOCK, item=2)
    assert cost.flops == counted.get_total_flops() + attention_flops(config, config.num_layers)
    unread = 0 if tied else target.embed_tokens.weight.numel()
    assert cost.weight_bytes == 2 * (numbers(target) - unread + BLOCK.tokens * config.hidden_size)
    columns = BLOCK.context + BLOCK.width
    assert cost.cache_bytes == 2 * sum(k[..., :columns, :].numel() * 2 for k, _ in caches(config, config.num_layers))


@pytest.mark.parametrize("flags", [{}, {"fc_norm": True, "qk_norm": True}, {"norm_before_fc": True, "qkv_bias": True}])
@torch.inference_mode()
def test_a_draft_extend_and_a_draft_step(flags):
    config = HeadConfig.for_target(TargetConfig.tiny(), 40, **flags)
    head = DraftHead(config)
    taps = torch.zeros(BLOCK.batch, BLOCK.width, len(config.taps) * config.target_hidden_size)
    with FlopCounterMode(display=False) as extending:
        hidden = head(inputs(), head.fuse(taps), caches(config, 1)[0])
        head.logits(hidden[:, -1])
    with FlopCounterMode(display=False) as stepping:
        head.logits(head(inputs(), hidden, caches(config, 1)[0]))
    extend, step = draft_extend(config, BLOCK, item=2), draft_step(config, BLOCK, item=2)
    assert extend.flops == extending.get_total_flops() + attention_flops(config, 1)
    assert step.flops == stepping.get_total_flops() + attention_flops(config, 1)
    read = numbers(head) - head.embed_tokens.weight.numel() + BLOCK.tokens * config.hidden_size
    assert extend.weight_bytes == 2 * read
    assert step.weight_bytes == 2 * (read - numbers(head.fc) - sum(
        numbers(getattr(head, name)) for name in ("fc_norm", "input_norm") if hasattr(head, name)
    ))


def test_width_adds_operations_but_hardly_bytes():
    config = TargetConfig.tiny(vocab_size=5000)
    one, eight = (target_step(config, Block(width=width, context=64), item=2) for width in (1, 8))
    assert eight.flops > 7.9 * one.flops
    assert eight.bytes < 1.05 * one.bytes


def test_costs_add_up():
    config = TargetConfig.tiny()
    one = target_step(config, BLOCK, item=2)
    assert (one + one).bytes == 2 * one.bytes
    assert (one + one).flops == 2 * one.flops


def test_packed_matrices_are_fewer_bytes_and_nothing_else_is():
    config = TargetConfig.tiny(FAMILIES[0], tie_embeddings=True)
    plain, packed = target_step(config, BLOCK, 2), target_step(config, BLOCK, 2, 1.0625)
    matrices = sum(one.weight.numel() for one in Target(config).modules() if hasattr(one, "is_int8"))
    matrices += config.vocab_size * config.hidden_size  # the output's, which are the embeddings'
    assert plain.weight_bytes - packed.weight_bytes == round(0.9375 * matrices)
    assert (plain.flops, plain.cache_bytes) == (packed.flops, packed.cache_bytes)

"""Packed products equal plain ones, and the plain weights are given up."""

import pytest
import torch

from wingbeat.model.attention import causal_mask
from wingbeat.model.config import HeadConfig, TargetConfig
from wingbeat.model.draft_head import DraftHead
from wingbeat.model.layers import ForwardInputs, Linear, pack
from wingbeat.model.target import Target


@pytest.mark.parametrize("family", ["llama", "qwen2", "qwen3"])
@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-4), (torch.bfloat16, 0.15)])
def test_packed_logits_are_the_plain_ones(family, tied, dtype, tolerance):
    config = TargetConfig.tiny(family, tie_embeddings=tied)
    target = Target.random(config).to(dtype)

    def logits(width: int) -> torch.Tensor:
        shape = (1, config.num_kv_heads, width, config.head_dim)
        caches = [(torch.zeros(shape, dtype=dtype), torch.zeros(shape, dtype=dtype)) for _ in range(config.num_layers)]
        starts = torch.zeros(1, dtype=torch.int64)
        places = torch.arange(width)[None]
        inputs = ForwardInputs(places, places, starts, causal_mask(places, width))
        with torch.inference_mode():
            return target.logits(target(inputs, caches).hidden)

    plain = {width: logits(width) for width in (1, 5, 33)}
    target.pack()
    for width, expected in plain.items():
        torch.testing.assert_close(logits(width), expected, atol=tolerance, rtol=tolerance)


def test_packing_gives_up_the_plain_weights_but_not_a_tied_embedding():
    target = Target.random(TargetConfig.tiny(tie_embeddings=True))
    target.pack()
    linears = [layer for layer in target.modules() if isinstance(layer, Linear)]
    assert all(layer.weight.is_meta and layer.packed is not None for layer in linears)
    assert not target.embed_tokens.weight.is_meta


def test_heads_and_half_precision():
    head = DraftHead.random(HeadConfig.for_target(TargetConfig.tiny(), 40))
    hidden = torch.randn(2, 3, 32, generator=torch.Generator().manual_seed(0))
    expected = head.logits(hidden)
    pack(head)
    torch.testing.assert_close(head.logits(hidden), expected, atol=1e-5, rtol=1e-5)
    half = DraftHead.random(HeadConfig.for_target(TargetConfig.tiny(), 40)).half()
    pack(half)
    assert half.lm_head.packed is None  # no packed product for this type: it stays as it is

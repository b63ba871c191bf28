"""Rounding to int8, and the native product of what was rounded."""

import pytest
import torch

from wingbeat.model.config import TargetConfig
from wingbeat.model.int8 import GROUP, round_inputs, round_weight, rounded
from wingbeat.model.native import NativeTarget
from wingbeat.model.native.build import COMPILE, load
from wingbeat.model.target import Target


def test_a_weight_is_rounded_to_the_nearest_of_its_group():
    weight = torch.randn(5, 3 * GROUP // 2, generator=torch.Generator().manual_seed(0))
    weight[2, :GROUP] *= 1000
    weight[3] = 0
    numbers, scales = rounded(weight)
    assert numbers.shape == (5, 2, GROUP)
    assert numbers.abs().amax((1, 2)).tolist() == [127, 127, 127, 0, 127]
    steps = scales.float().repeat_interleave(GROUP, 1)[:, : weight.shape[1]]
    assert ((round_weight(weight) - weight).abs() <= 0.51 * steps).all()
    assert steps[2, 0] > 100 * steps[2, -1]


def test_inputs_are_rounded_token_by_token():
    x = torch.randn(4, 3, GROUP + 6, generator=torch.Generator().manual_seed(0))
    x[1, 2] *= 1000
    x[0, 0, :GROUP] = 0
    for part in (slice(0, GROUP), slice(GROUP, None)):
        most = x[..., part].abs().amax(-1, keepdim=True)
        assert ((round_inputs(x)[..., part] - x[..., part]).abs() <= 0.501 * most / 127).all()
    assert torch.equal(round_inputs(x[1, 2]), round_inputs(x)[1, 2])


def test_embeddings_stay_where_the_output_matrix_shares_them():
    target = Target.random(TargetConfig.tiny(tie_embeddings=True))
    before = target.embed_tokens.weight.clone()
    target.to_int8()
    assert torch.equal(target.embed_tokens.weight, before)
    assert torch.equal(target.output_weight, round_weight(before))
    x = torch.randn(3, 32)
    assert torch.allclose(target.logits(x), round_inputs(x) @ round_weight(before).T)


@pytest.fixture(scope="module", params=[(), ("-mno-avx512vnni",)], ids=str)
def library(request, tmp_path_factory):
    return load(tmp_path_factory.mktemp("native"), (*COMPILE, *request.param))


@pytest.mark.parametrize("hidden", [32, 96, 256])
@torch.inference_mode()
def test_the_native_product_is_that_of_the_rounded_numbers(library, hidden):
    target = Target.random(TargetConfig.tiny(hidden_size=hidden, vocab_size=300, head_dim=16)).bfloat16()
    native = NativeTarget(target, library, int8=True)
    x = torch.randn(21, hidden, generator=torch.Generator().manual_seed(0)).bfloat16()
    expected = round_inputs(x.float()) @ round_weight(target.output_weight.float()).T
    for width in (1, 2, 4, 5, 8, 21):
        got = native.logits(x[:width])
        assert torch.allclose(got, expected[:width], rtol=1e-5, atol=1e-5 * float(expected.abs().max()))

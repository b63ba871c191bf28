"""Native forwards: as exact as eager bfloat16, and the same bits whatever shares a forward."""

import copy
import itertools

import pytest
import torch

from wingbeat.errors import UnsupportedError
from wingbeat.model.attention import block_mask, causal_mask
from wingbeat.model.config import FAMILIES, HeadConfig, TargetConfig
from wingbeat.model.draft_head import DraftHead
from wingbeat.model.layers import ForwardInputs, to_int8
from wingbeat.model.native import NativeHead, NativeTarget, to_native
from wingbeat.model.native.build import COMPILE, load
from wingbeat.model.native.memory import PIECE, LargePages
from wingbeat.model.target import Target

ROWS, TOKENS = 3, 20


class Models:
    """The same random weights in native, eager bfloat16, and float32 form, the first two in int8 if wanted."""

    def __init__(self, family: str, int8: bool = False, **flags) -> None:
        self.config = TargetConfig.tiny(family, head_dim=16)
        target = Target.random(self.config).bfloat16()
        head = DraftHead.random(HeadConfig.for_target(self.config, 50, **flags)).bfloat16()
        exact, exact_head = Target(self.config), DraftHead(head.config)
        exact.load_state_dict(target.state_dict())
        exact_head.load_state_dict(head.state_dict())
        self.given, self.int8 = (target, head), int8
        self.native, self.eager, self.exact = to_native(target, head, int8), self.given, (exact, exact_head)
        if int8:
            self.eager = copy.deepcopy(self.given)
            self.eager[0].to_int8()
            to_int8(self.eager[1])

    def run(self, models, widths, masks=True) -> tuple[torch.Tensor, ...]:
        """Logits and taps of the target, then the head's logits over its pairs; blocks of the given widths."""
        target, head = models
        dtype = target.dtype
        shape = (ROWS, self.config.num_kv_heads, sum(widths), self.config.head_dim)
        caches = [(torch.zeros(shape, dtype=dtype), torch.zeros(shape, dtype=dtype)) for _ in range(5)]
        tokens = torch.randint(0, 97, (ROWS, sum(widths) + 1), generator=torch.Generator().manual_seed(1))
        begun, logits, taps, drafts = 0, [], [], []
        for width in widths:
            starts = torch.full((ROWS,), begun)
            positions = torch.arange(begun, begun + width).expand(ROWS, width)
            rest = (positions, starts, causal_mask(positions, begun + width)) if masks else (None, starts, None)
            block, pairs = tokens[:, begun : begun + width], tokens[:, begun + 1 : begun + width + 1]
            inputs, paired = (ForwardInputs(each, *rest, columns=begun + width) for each in (block, pairs))
            output = target(inputs, caches[:4], self.config.default_taps)
            hidden = head(paired, head.fuse(output.taps), caches[4])
            logits.append(target.logits(output.hidden))
            taps.append(output.taps)
            drafts.append(head.logits(head.feedback(hidden) if head.config.norm_output else hidden))
            begun += width
        return torch.cat(logits, 1), torch.cat(taps, 1), torch.cat(drafts, 1)


KINDS = itertools.product(FAMILIES, ("", "norm_before_residual"), (False, True))


@pytest.fixture(scope="module", params=KINDS, ids=str)
def models(request):
    family, flag, int8 = request.param
    flags = {flag: True, "fc_norm": True, "norm_output": True} if flag else {}
    return Models(family, int8, **flags)


@torch.inference_mode()
def test_as_exact_as_eager(models):
    exact = models.run(models.exact, [TOKENS])
    results = [models.run(form, [TOKENS]) for form in (models.native, models.eager)]
    for native, eager, true in zip(*results, exact, strict=True):
        native_error, eager_error = ((value.float() - true).abs().max() for value in (native, eager))
        assert native_error < max((3 if models.int8 else 1.5) * eager_error, 0.02)  # int8 amplifies other errors


@torch.inference_mode()
@pytest.mark.parametrize("widths", [[1] * TOKENS, [5, 1, 9, 5], [13, 7], [8, 8, 4]], ids=str)
def test_bits_do_not_depend_on_the_width(models, widths):
    for whole, parts in zip(models.run(models.native, [TOKENS]), models.run(models.native, widths), strict=True):
        assert torch.equal(whole, parts)


@torch.inference_mode()
@pytest.mark.parametrize("widths", [[120, *[1] * 20, 5, 130, 8], [250, 9, 24]], ids=str)
def test_bits_do_not_depend_on_the_width_where_threads_share_attention(widths):
    """Over several chunks of columns; tokens in a row need no mask."""
    models = Models("llama")
    whole = models.run(models.native, [sum(widths)])
    for masks in (True, False):
        for one, parts in zip(whole, models.run(models.native, widths, masks), strict=True):
            assert torch.equal(one, parts)
    exact = models.run(models.exact, [sum(widths)], masks=False)
    assert (whole[0] - exact[0]).abs().max() < 0.05 * exact[0].abs().max()


@torch.inference_mode()
@pytest.mark.parametrize("begun", [5, 125, 255])
def test_a_branch_of_a_tree_is_bit_for_bit_the_chain(begun):
    models = Models("llama")
    target = models.native[0]
    shape = (1, models.config.num_kv_heads, begun + 16, models.config.head_dim)

    def caches():
        return [(torch.zeros(shape).bfloat16(), torch.zeros(shape).bfloat16()) for _ in range(4)]

    def logits(tokens, depths, block, begun, cache):
        starts = torch.tensor([begun])
        mask = block_mask(starts, block[None], begun + len(tokens))
        inputs = ForwardInputs(torch.tensor([tokens]), starts[:, None] + torch.tensor([depths]), starts, mask)
        return target.logits(target(inputs, cache).hidden)[0]

    size, first = begun + 4, [token % 90 for token in range(begun)]
    causal = torch.ones(size, size).tril().bool()
    chain = logits([*first, 9, 2, 6, 5], range(size), causal, 0, caches())
    tree = caches()
    logits(first, range(begun), causal[:begun, :begun], 0, tree)
    # root 9 with children 7 and 2; below 2, children 8 and 6; below 6, 5
    parents = [-1, 0, 0, 2, 2, 4]
    block = torch.eye(6).bool()
    for node, parent in enumerate(parents[1:], start=1):
        block[node] |= block[parent]
    branch = logits([9, 7, 2, 8, 6, 5], [0, 1, 1, 2, 2, 3], block, begun, tree)
    assert torch.equal(branch[[0, 2, 4, 5]], chain[begun:])


@torch.inference_mode()
@pytest.mark.parametrize("int8", [False, True])
def test_without_special_instructions(tmp_path, int8):
    models = Models("qwen3", int8)
    portable = load(tmp_path, (*COMPILE, "-mno-avx512bf16", "-mno-avx512vnni"))
    target, head = NativeTarget(models.given[0], portable, int8), NativeHead(models.given[1], portable, int8)
    usual = models.run(models.native, [TOKENS])
    for value, close in zip(models.run((target, head), [TOKENS]), usual, strict=True):
        assert (value.float() - close.float()).abs().mean() < (0.1 if int8 else 0.02)
    results = [models.run((target, head), widths) for widths in ([TOKENS], [3] * 6 + [2])]
    for whole, parts in zip(*results, strict=True):
        assert torch.equal(whole, parts)


def test_large_pages_keep_values_and_begin_at_cache_lines():
    pages, given = LargePages(), [torch.randn(21), torch.arange(65, dtype=torch.uint8), torch.randn(PIECE // 4 + 1)]
    kept = [pages.empty(len(tensor), tensor.dtype).copy_(tensor) for tensor in given]
    assert all(torch.equal(one, other) for one, other in zip(given, kept, strict=True))
    assert all(one.data_ptr() % 64 == 0 for one in kept)


def test_the_library_is_built_once(tmp_path):
    load(tmp_path)
    [library] = tmp_path.iterdir()
    built = library.stat().st_mtime_ns
    load(tmp_path)
    assert [library] == list(tmp_path.iterdir())
    assert library.stat().st_mtime_ns == built


def test_no_compiler_and_a_refusing_one(tmp_path, monkeypatch):
    with pytest.raises(UnsupportedError, match="failed"):
        load(tmp_path, (*COMPILE, "--no-such-flag"))
    assert not list(tmp_path.iterdir())
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UnsupportedError, match="no C compiler"):
        load(tmp_path)


def test_what_has_no_native_form_says_so():
    with pytest.raises(UnsupportedError, match="float32"):
        to_native(Target.random(TargetConfig.tiny()), None)
    with pytest.raises(UnsupportedError, match="head size"):
        to_native(Target.random(TargetConfig.tiny(head_dim=512)).bfloat16(), None)

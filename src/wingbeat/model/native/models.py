"""Native stand-ins for `Target` and `DraftHead`."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from wingbeat.errors import UnsupportedError
from wingbeat.model.attention import KV
from wingbeat.model.config import HeadConfig, TargetConfig
from wingbeat.model.draft_head import DraftHead
from wingbeat.model.int8 import packed as packed_int8
from wingbeat.model.layers import ForwardInputs, RMSNorm, Rotary
from wingbeat.model.native.build import load
from wingbeat.model.native.memory import LargePages
from wingbeat.model.native.structs import CBlock, CLayer, CLinear, CModel
from wingbeat.model.target import Layer, Target, TargetOutput

SPARE_POSITIONS = 128  # drafted tokens may stand beyond the last position that will be kept
MAX_HEAD_DIM = 256


def to_native(
    target: Target, head: DraftHead | None, int8: bool = False, int8_head: bool = False
) -> tuple[NativeTarget, NativeHead | None]:
    """Native versions of both, with weights in bfloat16, or in int8 of both or of the head; embeddings stay bfloat16.

    Raises UnsupportedError, saying why, where there can be none.
    """
    if target.device.type != "cpu" or target.dtype != torch.bfloat16:
        raise UnsupportedError(f"native forwards are for bfloat16 on the CPU, not {target.dtype} on {target.device}")
    configs: list[TargetConfig | HeadConfig] = [target.config, head.config] if head else [target.config]
    for config in configs:
        odd = config.hidden_size % 2 or config.intermediate_size % 2
        if odd or config.head_dim > MAX_HEAD_DIM or config.head_dim % 16:
            raise UnsupportedError(f"native forwards need even sizes and a head size of 16, 32, ... {MAX_HEAD_DIM}")
    library = load()
    return NativeTarget(target, library, int8), NativeHead(head, library, int8 or int8_head) if head else None


class _Native:
    """Packed weights, the C structures that point at them, and calls of the library."""

    def __init__(self, library: ctypes.CDLL, model: Target | DraftHead, int8: bool) -> None:
        self.library, self.config, self.int8 = library, model.config, int8
        self.embed_tokens, self.device, self.dtype = model.embed_tokens, model.device, model.dtype
        self.threads = torch.get_num_threads()
        self._kept: list[Any] = [model.embed_tokens]  # what C points at must outlive this object's calls
        self._pages, self._scratch = LargePages(), torch.empty(0, dtype=torch.uint8)

    def _pointer(self, tensor: Tensor) -> int:
        self._kept.append(tensor)
        return tensor.data_ptr()

    def _floats(self, module: nn.Module) -> int | None:
        """A norm's weights in float32; None for no norm."""
        return self._pointer(module.weight.detach().float().contiguous()) if isinstance(module, RMSNorm) else None

    def _linear(self, weight: Tensor, bias: Tensor | None = None) -> CLinear:
        """weight [rows, cols], packed."""
        rows, cols = weight.shape
        floats = None if bias is None else self._pointer(bias.detach().float())
        if self.int8:
            numbers = packed_int8(weight)
            packed = self._pages.empty(numbers.numel(), numbers.dtype).copy_(numbers.flatten())
        else:
            weight = weight.detach().contiguous()
            packed = self._pages.empty((rows + 15) // 16 * 16 * cols, torch.bfloat16)
            self.library.pack(weight.data_ptr(), packed.data_ptr(), rows, cols)
        return CLinear(self._pointer(packed), floats, rows, cols, self.int8)

    def _layer(self, layer: Layer | DraftHead) -> CLayer:
        attention, mlp = layer.self_attn, layer.mlp
        gate, up = mlp.gate_up_proj.weight.chunk(2)
        return CLayer(
            self._linear(attention.qkv_proj.weight, attention.qkv_proj.bias), self._linear(attention.o_proj.weight),
            self._linear(gate), self._linear(up), self._linear(mlp.down_proj.weight),
            self._floats(layer.input_layernorm), self._floats(layer.post_attention_layernorm),
            self._floats(attention.q_norm), self._floats(attention.k_norm),
        )

    def _build(self, layers: Sequence[CLayer], rotary: Rotary, final_norm: RMSNorm, head: DraftHead | None) -> None:
        config = self.config
        angles = torch.arange(config.max_position + SPARE_POSITIONS).float()[:, None] * rotary.inverse
        self._cos, self._sin = angles.cos(), angles.sin()
        self._layers = (CLayer * len(layers))(*layers)
        self._model = CModel(
            len(layers), config.hidden_size, config.intermediate_size, config.num_heads, config.num_kv_heads,
            config.head_dim, self.threads, head is not None, head is not None and head.config.norm_before_residual,
            config.rms_norm_eps, self._pointer(self.embed_tokens.weight), self._floats(final_norm),
            self._floats(head.hidden_norm) if head else None, self._layers,
        )

    def _run(
        self, inputs: ForwardInputs, caches: Sequence[KV], x: Tensor, taps: Tensor, wanted: Sequence[int] = ()
    ) -> Tensor:
        """Runs one block. x [B, N, H] float32 and taps [B, N, len(wanted), H] are written; returns normed [B, N, H]."""
        normed = torch.empty(*inputs.tokens.shape, x.shape[-1], dtype=self.dtype)
        inputs = inputs.contiguous()
        block = self._block(inputs, caches)
        block.taps, block.num_taps = (ctypes.c_int64 * len(wanted))(*wanted), len(wanted)
        memory = self._memory(inputs.tokens.numel(), block.length)
        self.library.forward(self._model, block, x.data_ptr(), taps.data_ptr(), normed.data_ptr(), memory)
        return normed

    def _block(self, inputs: ForwardInputs, caches: Sequence[KV]) -> CBlock:
        """Points at contiguous inputs, kept alive by the caller."""
        pointers, keys = ctypes.c_void_p * len(caches), caches[0][0]
        positions, mask = (None if it is None else it.data_ptr() for it in (inputs.positions, inputs.mask))
        return CBlock(
            *inputs.tokens.shape, inputs.length, inputs.tokens.data_ptr(), positions, inputs.starts.data_ptr(), mask,
            self._cos.data_ptr(), self._sin.data_ptr(), pointers(*(pair[0].data_ptr() for pair in caches)),
            pointers(*(pair[1].data_ptr() for pair in caches)), keys.stride(0), keys.stride(1),
        )

    def _memory(self, tokens: int, length: int) -> int:
        """Scratch for a forward of so many tokens over `length` columns."""
        needed = self.library.scratch_bytes(self._model, tokens, length)
        if len(self._scratch) < needed + 64:
            self._scratch = torch.empty(needed + 64, dtype=torch.uint8)
        return (self._scratch.data_ptr() + 63) // 64 * 64

    def _project(self, linear: CLinear, x: Tensor) -> Tensor:
        """x [..., cols] -> [..., rows] float32."""
        x = x.to(self.dtype).contiguous()
        out = torch.empty(*x.shape[:-1], linear.rows)
        self.library.project(linear, x.data_ptr(), x.numel() // linear.cols, out.data_ptr(), self.threads)
        return out


class NativeTarget(_Native):
    """Stands in for a `Target`, which can be dropped afterwards."""

    path = "native"

    config: TargetConfig

    def __init__(self, target: Target, library: ctypes.CDLL, int8: bool = False) -> None:
        super().__init__(library, target, int8)
        layers = [self._layer(layer) for layer in target.layers]  # type: ignore[arg-type]
        self._output = self._linear(target.output_weight)
        self._build(layers, target.rotary, target.norm, None)

    def __call__(self, inputs: ForwardInputs, caches: Sequence[KV], taps: Sequence[int] = ()) -> TargetOutput:
        """As `Target.forward`."""
        rows, width = inputs.tokens.shape
        x = torch.empty(rows, width, self.config.hidden_size)
        tapped = torch.empty(rows, width, len(taps) * self.config.hidden_size, dtype=self.dtype)
        return TargetOutput(self._run(inputs, caches, x, tapped, taps), tapped)

    def logits(self, hidden: Tensor) -> Tensor:
        """hidden [..., H] (after the final norm) -> logits [..., V] float32."""
        return self._project(self._output, hidden)


class NativeHead(_Native):
    """Stands in for a `DraftHead`."""

    config: HeadConfig

    def __init__(self, head: DraftHead, library: ctypes.CDLL, int8: bool = False) -> None:
        super().__init__(library, head, int8)
        self._head = head
        self.draft_to_target = head.draft_to_target
        self._fc, self._output = self._linear(head.fc.weight), self._linear(head.lm_head.weight)
        self._build([self._layer(head)], head.rotary, head.norm, head)

    def fuse(self, taps: Tensor) -> Tensor:
        """As `DraftHead.fuse`, float32."""
        return self._project(self._fc, self._head.norm_taps(taps))

    def __call__(self, inputs: ForwardInputs, features: Tensor, cache: KV) -> Tensor:
        """As `DraftHead.forward`, float32."""
        x = features.float().clone(memory_format=torch.contiguous_format)
        self._run(inputs, [cache], x, taps=x)
        return x

    def feedback(self, hidden: Tensor) -> Tensor:
        """As `DraftHead.feedback`."""
        return self._head.feedback(hidden)

    def logits(self, hidden: Tensor) -> Tensor:
        """As `DraftHead.logits`, float32."""
        return self._project(self._output, self._head.norm(hidden))

    def draft(
        self, roots: Tensor, hidden: Tensor, starts: Tensor, cache: KV, steps: int, floor: float = -math.inf
    ) -> tuple[Tensor, Tensor]:
        """A chain below each row's root [B], whose pair has the hidden state hidden [B, H], in one call: tokens
        [B, 1 + S] from the root on, and the drafted ones' cumulative log-probabilities [B, S].

        starts [B]: columns in use. S is `steps`, or fewer where no row's log-probability would reach `floor`.
        """
        batch, length, starts = len(roots), max(starts.tolist()) + steps, starts.clone()
        tokens, scores = torch.empty(batch, 1 + steps, dtype=torch.int64), torch.empty(batch, steps)
        tokens[:, 0] = roots
        x, normed = hidden.float().contiguous().clone(), torch.empty(hidden.shape, dtype=self.dtype)
        logits = torch.empty(batch, self._output.rows)
        block = self._block(ForwardInputs.in_a_row(tokens[:, :1], starts, length), [cache])
        done = self.library.draft(
            self._model, self._output, self.draft_to_target.data_ptr(), self.config.norm_output, block,
            starts.data_ptr(), x.data_ptr(), normed.data_ptr(), logits.data_ptr(), tokens.data_ptr(),
            scores.data_ptr(), steps, floor, self._memory(batch, length),
        )
        return tokens[:, : 1 + done], scores[:, :done]

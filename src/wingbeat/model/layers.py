"""The parts that targets and draft heads share: norm, rotary embedding, attention projections, MLP."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from wingbeat.errors import UnsupportedError
from wingbeat.model import attention, int8
from wingbeat.model.attention import KV
from wingbeat.model.config import HeadConfig, RopeConfig, TargetConfig


@dataclass(frozen=True)
class ForwardInputs:
    """One block of new tokens for B rows.

    tokens [B, N] int64; positions [B, N] int64, for the rotary embedding; starts [B] int64, the cache column
    where a row's block is written; mask [B, N, L] bool, the columns each token may see (its own included). Without
    mask and positions, tokens stand in a row from `starts` on and see all before them, and `columns` is L.
    """

    tokens: Tensor
    positions: Tensor | None
    starts: Tensor
    mask: Tensor | None
    columns: int = 0

    @classmethod
    def in_a_row(cls, tokens: Tensor, starts: Tensor, columns: int) -> ForwardInputs:
        """Tokens that follow one another: a prompt, a decode, a chain."""
        return cls(tokens, None, starts, None, columns)

    @property
    def length(self) -> int:
        """L."""
        return self.columns if self.mask is None else self.mask.shape[-1]

    def contiguous(self) -> ForwardInputs:
        """The same, with every tensor in one piece."""
        positions, mask = (it if it is None else it.contiguous() for it in (self.positions, self.mask))
        return ForwardInputs(self.tokens.contiguous(), positions, self.starts.contiguous(), mask, self.columns)

    @cached_property
    def turns(self) -> Tensor:
        """The positions [B, N], whether given or not."""
        return self.places[1] if self.positions is None else self.positions

    @cached_property
    def visible(self) -> Tensor:
        """The mask [B, N, L], whether given or not."""
        return attention.causal_mask(self.places[1], self.length) if self.mask is None else self.mask

    @cached_property
    def places(self) -> tuple[Tensor, Tensor]:
        """Where keys and values go; the same in every layer."""
        return attention.places(self.starts, self.tokens.shape[1])


class RMSNorm(nn.Module):
    """x / rms(x) * weight over the last axis, with the mean square in float32."""

    def __init__(self, size: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        if x.is_cuda:
            return F.rms_norm(x, self.weight.shape, self.weight, self.eps)  # one kernel, not seven
        wide = x.float()
        wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + self.eps)
        return self.weight * wide.to(x.dtype)


class Linear(nn.Linear):
    """x @ weight.T + bias. `pack` lays the weights out in blocks for the CPU, for inference only."""

    packed: Tensor | None = None
    is_int8 = False

    def to_int8(self) -> None:
        """Rounds the weights now and every input when it comes, as the native int8 products do; for inference only."""
        self.weight, self.is_int8 = nn.Parameter(int8.round_weight(self.weight), requires_grad=False), True

    def pack(self) -> None:
        """A product of a few tokens then takes a half to a third of the time. The plain weights are given up."""
        self.packed = torch.ops.mkldnn._reorder_linear_weight(self.weight)
        self.weight = nn.Parameter(self.weight.to("meta"), requires_grad=False)

    def forward(self, x: Tensor) -> Tensor:
        x = int8.round_inputs(x) if self.is_int8 else x
        if self.packed is None:
            return F.linear(x, self.weight, self.bias)
        return torch.ops.mkldnn._linear_pointwise(x, self.packed, self.bias, "none", [], "")


def pack(module: nn.Module) -> None:
    """Packs every `Linear` whose device and type have a quick packed product; the others stay as they are."""
    types = [torch.float32] if torch.backends.mkldnn.is_available() else []
    if types and torch.ops.mkldnn._is_mkldnn_bf16_supported():
        types.append(torch.bfloat16)
    for layer in module.modules():
        if isinstance(layer, Linear) and layer.weight.device.type == "cpu" and layer.weight.dtype in types:
            layer.pack()


def to_int8(module: nn.Module) -> None:
    """Rounds every `Linear` to int8; its type stays, and so do the bytes and the time."""
    for layer in module.modules():
        if isinstance(layer, Linear):
            layer.to_int8()


def inverse_frequencies(rope: RopeConfig, head_dim: int) -> Tensor:
    """The rotary embedding's angle per position, [head_dim / 2] float32, scaled as `rope.kind` says."""
    steps = torch.arange(0, head_dim, 2, dtype=torch.float32, device="cpu") / head_dim
    base = 1.0 / rope.theta**steps
    if rope.kind == "default":
        return base
    if rope.kind == "linear":
        return base / rope.factor
    if rope.kind == "factors":
        return base / torch.tensor(rope.factors, dtype=torch.float32, device="cpu")
    if rope.kind == "llama3":
        wavelength = 2 * math.pi / base
        ratio = rope.original_max_position / wavelength
        smooth = (ratio - rope.low_freq_factor) / (rope.high_freq_factor - rope.low_freq_factor)
        smooth = smooth.clamp(0, 1)  # 0: low frequencies, divided by factor; 1: high frequencies, kept
        return (1 - smooth) * base / rope.factor + smooth * base
    raise UnsupportedError(f"rope scaling {rope.kind!r} is not implemented; known: default, linear, llama3")


class Rotary(nn.Module):
    """cos and sin of each position's angles."""

    def __init__(self, rope: RopeConfig, head_dim: int) -> None:
        super().__init__()
        # no buffer: angles need float32 whatever type the weights are cast to
        self.inverse = inverse_frequencies(rope, head_dim)

    def forward(self, positions: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """positions [B, N] -> cos, sin, each [B, 1, N, D/2] in `dtype`."""
        if self.inverse.device != positions.device:
            self.inverse = self.inverse.to(positions.device)
        angles = positions[:, None, :, None].float() * self.inverse
        return angles.cos().to(dtype), angles.sin().to(dtype)


def rotate(x: Tensor, rotation: tuple[Tensor, Tensor]) -> Tensor:
    """Rotates the two halves of the last axis of x [B, A, N, D] against each other (the Hugging Face layout)."""
    cos, sin = rotation
    first, second = x.chunk(2, dim=-1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)


class Attention(nn.Module):
    """Projections, rotary embedding and cache around `attention.attend`. `input_size` is 2H in a draft head."""

    def __init__(self, config: TargetConfig | HeadConfig, input_size: int) -> None:
        super().__init__()
        self.num_heads, self.num_kv_heads, self.head_dim = config.num_heads, config.num_kv_heads, config.head_dim
        rows = (self.num_heads + 2 * self.num_kv_heads) * self.head_dim
        self.qkv_proj = Linear(input_size, rows, bias=config.qkv_bias)
        self.o_proj = Linear(self.num_heads * self.head_dim, config.hidden_size, bias=False)
        self.q_norm = RMSNorm(self.head_dim, config.rms_norm_eps) if config.qk_norm else nn.Identity()
        self.k_norm = RMSNorm(self.head_dim, config.rms_norm_eps) if config.qk_norm else nn.Identity()

    def project(self, x: Tensor, rotation: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor, Tensor]:
        """x [B, N, input] -> rotated query [B, A, N, D], rotated key and value [B, K, N, D]."""
        heads = self.qkv_proj(x).unflatten(-1, (-1, self.head_dim)).transpose(1, 2)
        query, key, value = heads.split([self.num_heads, self.num_kv_heads, self.num_kv_heads], dim=1)
        if isinstance(self.q_norm, RMSNorm):
            return rotate(self.q_norm(query), rotation), rotate(self.k_norm(key), rotation), value
        both = rotate(heads[:, : -self.num_kv_heads], rotation)
        return both[:, : self.num_heads], both[:, self.num_heads :], value

    def forward(self, x: Tensor, inputs: ForwardInputs, rotation: tuple[Tensor, Tensor], cache: KV) -> Tensor:
        query, key, value = self.project(x, rotation)
        attention.write(cache, inputs.places, key, value)
        return self.o_proj(attention.attend(query, cache, inputs.visible))


class MLP(nn.Module):
    """down(silu(gate) * up), with gate and up in one product."""

    def __init__(self, config: TargetConfig | HeadConfig) -> None:
        super().__init__()
        self.gate_up_proj = Linear(config.hidden_size, 2 * config.intermediate_size, bias=False)
        self.down_proj = Linear(config.intermediate_size, config.hidden_size, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        gate, up = self.gate_up_proj(x).chunk(2, dim=-1)
        return self.down_proj(F.silu(gate) * up)


def randomise(module: nn.Module, seed: int, std: float) -> None:
    """Fills every matrix with N(0, std) and every norm with 1 + N(0, 0.1), reproducibly."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            noise = torch.randn(parameter.shape, generator=generator)
            is_norm = "norm" in name
            parameter.copy_(1 + 0.1 * noise if is_norm else std * noise)

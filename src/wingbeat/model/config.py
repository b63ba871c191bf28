"""The numbers that fix a target's or a draft head's shape. Read from files by `model.weights`."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from wingbeat.errors import UsageError

FAMILIES = ("llama", "qwen2", "qwen3")


@dataclass(frozen=True, kw_only=True)
class RopeConfig:
    """Rotary embedding. `kind` is "default", "linear", "llama3" (a smooth ramp between two wavelengths)
    or "factors" (one divisor per frequency, as GGUF stores Llama-3 scaling)."""

    theta: float = 10000.0
    kind: str = "default"
    factor: float = 1.0
    low_freq_factor: float = 1.0
    high_freq_factor: float = 4.0
    original_max_position: int = 8192
    factors: tuple[float, ...] = ()


@dataclass(frozen=True, kw_only=True)
class TargetConfig:
    """A decoder-only target: Llama, Qwen2/2.5 (`qkv_bias`) or Qwen3 (`qk_norm`)."""

    family: str
    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_layers: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    rms_norm_eps: float = 1e-5
    rope: RopeConfig = RopeConfig()
    max_position: int = 2048
    tie_embeddings: bool = False
    qkv_bias: bool = False
    qk_norm: bool = False

    def __post_init__(self) -> None:
        if self.family not in FAMILIES:
            raise UsageError(f"unknown model family {self.family!r}; known: {', '.join(FAMILIES)}")
        if self.num_heads % self.num_kv_heads:
            raise UsageError(f"{self.num_heads} heads cannot share {self.num_kv_heads} key/value heads")

    @property
    def default_taps(self) -> tuple[int, ...]:
        """Layers whose *input* EAGLE-3 reads (eagle3.md 1.1): 2, N//2, N-3; clipped for very small targets."""
        last = self.num_layers
        return tuple(sorted(min(max(0, tap), last) for tap in (2, last // 2, last - 3)))

    @classmethod
    def tiny(cls, family: str = "llama", **changes: object) -> TargetConfig:
        """A preset of a few thousand parameters, for tests and trials."""
        base = cls(
            family=family, vocab_size=97, hidden_size=32, intermediate_size=64, num_layers=4, num_heads=4,
            num_kv_heads=2, head_dim=8, max_position=512, qkv_bias=family == "qwen2", qk_norm=family == "qwen3",
        )
        return dataclasses.replace(base, **changes)  # type: ignore[arg-type]


@dataclass(frozen=True, kw_only=True)
class HeadConfig:
    """An EAGLE-3 draft head (one decoder layer over [embedding; hidden]).

    `taps` are always *entry* ids: tap k is the residual stream that enters layer k of the target. Files that
    count the output of a layer instead are translated when they are read. `assumed` names what the
    checkpoint's configuration left open and what was assumed for it.
    """

    vocab_size: int
    draft_vocab_size: int
    hidden_size: int
    target_hidden_size: int
    intermediate_size: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    taps: tuple[int, ...]
    rms_norm_eps: float = 1e-5
    rope: RopeConfig = RopeConfig()
    max_position: int = 2048
    norm_before_residual: bool = False  # residual = hidden_norm(g) instead of g
    norm_before_fc: bool = False  # one norm over the concatenated taps before fc
    fc_norm: bool = False  # one norm per tap before fc (EAGLE-3.1)
    norm_output: bool = False  # feed the post-norm hidden state back (EAGLE-3.1)
    qkv_bias: bool = False
    qk_norm: bool = False
    assumed: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.norm_before_fc and self.fc_norm:
            raise UsageError("norm_before_fc and fc_norm exclude each other; set one of them")
        if not self.taps:
            raise UsageError("an EAGLE-3 head needs at least one tap")
        if self.draft_vocab_size > self.vocab_size:
            raise UsageError(f"draft vocabulary {self.draft_vocab_size} exceeds the vocabulary {self.vocab_size}")

    @classmethod
    def for_target(cls, target: TargetConfig, draft_vocab_size: int, **changes: object) -> HeadConfig:
        """A head in the target's own proportions, with the default taps."""
        base = cls(
            vocab_size=target.vocab_size, draft_vocab_size=draft_vocab_size, hidden_size=target.hidden_size,
            target_hidden_size=target.hidden_size, intermediate_size=target.intermediate_size,
            num_heads=target.num_heads, num_kv_heads=target.num_kv_heads, head_dim=target.head_dim,
            taps=target.default_taps, rms_norm_eps=target.rms_norm_eps, rope=target.rope,
            max_position=target.max_position,
        )
        return dataclasses.replace(base, **changes)  # type: ignore[arg-type]

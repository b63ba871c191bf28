"""What a forward must at least do: bytes moved and floating-point operations, from a configuration alone.

Weights are read once a forward, however many tokens it takes; that is why verifying a few tokens can cost about what
one token costs. Activations and logits are left out: they are small and mostly stay in the processor's caches.
"""

from __future__ import annotations

from dataclasses import dataclass

from wingbeat.model.config import HeadConfig, TargetConfig


@dataclass(frozen=True, kw_only=True)
class Block:
    """`width` new tokens in each of `batch` rows, after `context` tokens that are in the cache."""

    width: int = 1
    batch: int = 1
    context: int = 0

    @property
    def tokens(self) -> int:
        return self.width * self.batch


@dataclass(frozen=True)
class Cost:
    """flops: multiplications and additions, each counted; bytes of weights read, and of cache read and written."""

    flops: int
    weight_bytes: int
    cache_bytes: int

    @property
    def bytes(self) -> int:
        return self.weight_bytes + self.cache_bytes

    def __add__(self, other: Cost) -> Cost:
        return Cost(
            self.flops + other.flops, self.weight_bytes + other.weight_bytes, self.cache_bytes + other.cache_bytes
        )


def target_step(config: TargetConfig, block: Block, item: int, packed: float | None = None) -> Cost:
    """A target's forward with logits at every token: decode (width 1) or verify.

    item: bytes of a number; packed: of one in a weight matrix, where that is another.
    """
    layers = config.num_layers
    output = config.vocab_size * config.hidden_size
    matrices = layers * _matrices(config, config.hidden_size) + output
    vectors = layers * (_vectors(config) + 2 * config.hidden_size) + config.hidden_size
    read = round((packed or item) * matrices) + item * (vectors + block.tokens * config.hidden_size)
    return Cost(2 * matrices * block.tokens, read, 0) + _attention(config, block, layers, item)


def draft_step(config: HeadConfig, block: Block, item: int, packed: float | None = None) -> Cost:
    """A draft head's forward on its own features with logits at every token. width: branches (1 in a chain)."""
    return _head(config, block, (item, packed or item), logits=block.tokens)


def draft_extend(config: HeadConfig, block: Block, item: int, packed: float | None = None) -> Cost:
    """A draft head's forward over `width` committed tokens and their taps, with logits at each row's last token."""
    taps = len(config.taps) * config.target_hidden_size
    norms = taps if config.norm_before_fc or config.fc_norm else 0
    fuse = taps * config.hidden_size
    fusing = Cost(2 * fuse * block.tokens, round((packed or item) * fuse) + item * norms, 0)
    return fusing + _head(config, block, (item, packed or item), logits=block.batch)


def _head(config: HeadConfig, block: Block, items: tuple[int, float], logits: int) -> Cost:
    """One layer over [embedding; feature], and `logits` tokens through the output matrix."""
    item, packed = items
    size = config.hidden_size
    layer, output = _matrices(config, 2 * size), config.draft_vocab_size * size
    others = _vectors(config) + (4 + block.tokens) * size  # four norms, and the embeddings
    read = round(packed * (layer + output)) + item * others
    return Cost(2 * (layer * block.tokens + output * logits), read, 0) + _attention(config, block, 1, item)


def _matrices(config: TargetConfig | HeadConfig, input_size: int) -> int:
    """Numbers in the matrices of one layer whose attention reads vectors of `input_size`."""
    heads = (config.num_heads + 2 * config.num_kv_heads) * config.head_dim
    attention = input_size * heads + config.num_heads * config.head_dim * config.hidden_size
    return attention + 3 * config.hidden_size * config.intermediate_size


def _vectors(config: TargetConfig | HeadConfig) -> int:
    """Numbers in one layer's attention biases and query and key norms."""
    bias = (config.num_heads + 2 * config.num_kv_heads) * config.head_dim if config.qkv_bias else 0
    return bias + (2 * config.head_dim if config.qk_norm else 0)


def _attention(config: TargetConfig | HeadConfig, block: Block, layers: int, item: int) -> Cost:
    """Every new token against all columns of its row; the context is read once, the new columns are written."""
    columns = block.context + block.width
    flops = 4 * config.num_heads * config.head_dim * block.tokens * columns
    cache = 2 * config.num_kv_heads * config.head_dim * block.batch * columns
    return Cost(layers * flops, 0, layers * item * cache)

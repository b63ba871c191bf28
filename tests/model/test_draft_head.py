"""The draft head against the plain implementation of plain_head.py: every flag, chain and tree, float32."""

from itertools import product

import numpy as np
import pytest
import torch
from plain_head import PlainHead
from safetensors.numpy import load_file

from wingbeat.model.attention import causal_mask
from wingbeat.model.config import HeadConfig, RopeConfig, TargetConfig
from wingbeat.model.draft_head import DraftHead
from wingbeat.model.layers import ForwardInputs
from wingbeat.model.weights import save_head

TARGET = TargetConfig.tiny(rope=RopeConfig(theta=500.0))
COLUMNS = 24
FLAGS = [
    {"norm_before_residual": residual, "norm_output": output, "qk_norm": qk_norm, **fc}
    for residual, output, qk_norm in product((False, True), repeat=3)
    for fc in ({}, {"norm_before_fc": True}, {"fc_norm": True})
]
SHAPES = [
    {"qkv_bias": True},
    {"hidden_size": 24, "num_heads": 3, "num_kv_heads": 1, "head_dim": 12},
    {"target_hidden_size": 20, "fc_norm": True, "taps": (1, 3)},
]


def name(flags: dict) -> str:
    return ", ".join(key if value is True else f"{key} {value}" for key, value in flags.items() if value) or "plain"


class Pair:
    """The same head twice: the module with its cache, and the plain one."""

    def __init__(self, flags: dict, directory) -> None:
        self.config = HeadConfig.for_target(TARGET, 50, **flags)
        self.head = DraftHead.random(self.config, seed=2)
        save_head(self.head, directory, with_embeddings=True)
        tensors = {key: value.astype(np.float64) for key, value in load_file(directory / "model.safetensors").items()}
        switches = ("norm_before_residual", "norm_before_fc", "fc_norm", "norm_output", "qk_norm", "qkv_bias")
        self.plain = PlainHead(
            tensors, self.config.num_heads, self.config.num_kv_heads, self.config.rope.theta,
            self.config.rms_norm_eps, **{key: getattr(self.config, key) for key in switches},
        )
        shape = (1, self.config.num_kv_heads, COLUMNS, self.config.head_dim)
        self.cache = (torch.zeros(shape), torch.zeros(shape))
        self.rng = np.random.default_rng(5)

    def block(self, tokens: list[int], features: torch.Tensor, start: int, positions: list[int], mask: torch.Tensor):
        inputs = ForwardInputs(torch.tensor([tokens]), torch.tensor([positions]), torch.tensor([start]), mask)
        return self.head(inputs, features, self.cache)

    def extend(self, count: int, start: int = 0) -> torch.Tensor:
        """Pairs start .. start + count - 1, of random taps and tokens, through both; the module's hidden states."""
        size = self.config.target_hidden_size
        taps = self.rng.normal(size=(count, len(self.config.taps), size))
        tokens = self.rng.integers(0, self.config.vocab_size, count).tolist()
        features = self.head.fuse(torch.tensor(taps, dtype=torch.float32).flatten(1))[None]
        mask = causal_mask(torch.arange(start, start + count)[None], COLUMNS)
        hidden = self.block(tokens, features, start, list(range(start, start + count)), mask)
        for offset, (token, tap) in enumerate(zip(tokens, taps, strict=True)):
            feature = self.plain.fuse(list(tap))
            close(features[0, offset], feature)
            expected = self.plain.node(token, feature, start + offset, list(range(start + offset)))
            self.compare(hidden[0, offset], expected)
        self.last = expected
        return hidden[:, -1:]

    def compare(self, hidden: torch.Tensor, expected: np.ndarray) -> None:
        close(hidden, expected)
        close(self.head.logits(hidden), self.plain.logits(expected))
        close(self.head.feedback(hidden), self.plain.feedback(expected))


def close(found: torch.Tensor, expected: np.ndarray) -> None:
    scale = max(1.0, np.abs(expected).max())
    assert np.abs(found.numpy() - expected).max() <= 1e-5 * scale


@pytest.fixture(params=[*FLAGS, *SHAPES], ids=name)
def pair(request, tmp_path):
    return Pair(request.param, tmp_path)


def test_chain(pair):
    """Two extends, then four drafted tokens, each fed the hidden state before it."""
    pair.extend(5)
    hidden = pair.extend(3, start=5)
    expected = pair.last
    for step in range(4):
        token = int(pair.head.draft_to_target[pair.head.logits(hidden)[0, 0].argmax()])
        column = 8 + step
        mask = causal_mask(torch.tensor([[column]]), COLUMNS)
        hidden = pair.block([token], pair.head.feedback(hidden), column, [column], mask)
        expected = pair.plain.node(token, pair.plain.feedback(expected), column, list(range(column)))
        pair.compare(hidden[0, 0], expected)


def test_tree(pair):
    """A root's three children, then five grandchildren: each sees the prefix, its ancestors and itself."""
    root = pair.extend(6)
    levels = [[None, None, None], [0, 0, 1, 2, 2]]  # a node's parent within the level before
    hidden, expected, paths = root, [pair.last], [[]]
    column = 6
    for depth, parents in enumerate(levels):
        parents = [parent or 0 for parent in parents]
        tokens = pair.rng.integers(0, pair.config.vocab_size, len(parents)).tolist()
        sees = [[*range(6), *paths[parent]] for parent in parents]
        mask = torch.zeros(1, len(parents), COLUMNS, dtype=torch.bool)
        for index, columns in enumerate(sees):
            mask[0, index, [*columns, column + index]] = True
        features = pair.head.feedback(hidden)[:, parents]
        hidden = pair.block(tokens, features, column, [6 + depth] * len(parents), mask)
        expected = [
            pair.plain.node(token, pair.plain.feedback(expected[parent]), 6 + depth, columns)
            for token, parent, columns in zip(tokens, parents, sees, strict=True)
        ]
        for index, state in enumerate(expected):
            pair.compare(hidden[0, index], state)
        paths = [[*paths[parent], column + index] for index, parent in enumerate(parents)]
        column += len(parents)

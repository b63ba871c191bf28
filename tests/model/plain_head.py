"""An EAGLE-3 draft head in plain loops, float64, written from its description and nothing else.

One decoder layer over [norm(embedding); norm(feature)], grouped heads, rotary embedding on the two halves of a
head, softmax over the nodes that a node may see. Reads tensors by their names in a SafeAILab/SGLang file.
"""

import math
from dataclasses import dataclass, field

import numpy as np

Vector = np.ndarray


@dataclass
class PlainHead:
    tensors: dict[str, Vector]
    heads: int
    kv_heads: int
    theta: float
    eps: float
    norm_before_residual: bool = False
    norm_before_fc: bool = False
    fc_norm: bool = False
    norm_output: bool = False
    qk_norm: bool = False
    qkv_bias: bool = False
    nodes: list[tuple[list[Vector], list[Vector]]] = field(default_factory=list)  # keys and values by head

    def norm(self, x: Vector, name: str) -> Vector:
        mean_square = sum(float(value) ** 2 for value in x) / len(x)
        return np.array([value / math.sqrt(mean_square + self.eps) for value in x]) * self.tensors[f"{name}.weight"]

    def matrix(self, name: str, x: Vector) -> Vector:
        return self.tensors[f"{name}.weight"] @ x

    def fuse(self, taps: list[Vector]) -> Vector:
        if self.fc_norm:
            taps = [self.norm(tap, f"fc_norm.{index}") for index, tap in enumerate(taps)]
        joined = np.concatenate(taps)
        if self.norm_before_fc:
            joined = self.norm(joined, "input_norm")
        return self.matrix("fc", joined)

    def project(self, x: Vector, letter: str, count: int) -> list[Vector]:
        """One vector a head."""
        out = self.matrix(f"midlayer.self_attn.{letter}_proj", x)
        if self.qkv_bias:
            out = out + self.tensors[f"midlayer.self_attn.{letter}_proj.bias"]
        parts = list(out.reshape(count, -1))
        if self.qk_norm and letter in "qk":
            parts = [self.norm(part, f"midlayer.self_attn.{letter}_norm") for part in parts]
        return parts

    def rotate(self, x: Vector, position: int) -> Vector:
        half = len(x) // 2
        out = np.empty_like(x)
        for i in range(half):
            angle = position * self.theta ** (-2 * i / len(x))
            out[i] = x[i] * math.cos(angle) - x[i + half] * math.sin(angle)
            out[i + half] = x[i + half] * math.cos(angle) + x[i] * math.sin(angle)
        return out

    def node(self, token: int, feature: Vector, position: int, sees: list[int]) -> Vector:
        """Adds a node that sees the nodes `sees` and itself; returns its hidden state before the norm."""
        normed = self.norm(feature, "midlayer.hidden_norm")
        embedded = self.norm(self.tensors["embed_tokens.weight"][token], "midlayer.input_layernorm")
        x = np.concatenate([embedded, normed])
        residual = normed if self.norm_before_residual else feature
        query = [self.rotate(part, position) for part in self.project(x, "q", self.heads)]
        keys = [self.rotate(part, position) for part in self.project(x, "k", self.kv_heads)]
        self.nodes.append((keys, self.project(x, "v", self.kv_heads)))
        hidden = residual + self.matrix("midlayer.self_attn.o_proj", self.attend(query, [*sees, len(self.nodes) - 1]))
        x = self.norm(hidden, "midlayer.post_attention_layernorm")
        gate, up = self.matrix("midlayer.mlp.gate_proj", x), self.matrix("midlayer.mlp.up_proj", x)
        activated = np.array([g / (1 + math.exp(-g)) * u for g, u in zip(gate, up, strict=True)])
        return hidden + self.matrix("midlayer.mlp.down_proj", activated)

    def attend(self, query: list[Vector], visible: list[int]) -> Vector:
        out = []
        for head, q in enumerate(query):
            shared = head // (self.heads // self.kv_heads)
            scores = [float(q @ self.nodes[index][0][shared]) / math.sqrt(len(q)) for index in visible]
            weights = [math.exp(score - max(scores)) for score in scores]
            total = sum(weights)
            out.append(sum(w / total * self.nodes[i][1][shared] for w, i in zip(weights, visible, strict=True)))
        return np.concatenate(out)

    def feedback(self, hidden: Vector) -> Vector:
        return self.norm(hidden, "norm") if self.norm_output else hidden

    def logits(self, hidden: Vector) -> Vector:
        return self.matrix("lm_head", self.norm(hidden, "norm"))

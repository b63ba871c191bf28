"""GGUF files written with the gguf library: names, row order, quantised types, rope factors, damage."""

import contextlib
import math
import random

import gguf
import numpy as np
import pytest
import torch
from target_runs import Run

from wingbeat.errors import CheckpointError, CorruptError, MismatchError, NonFiniteError, UnsupportedError
from wingbeat.model.config import RopeConfig, TargetConfig
from wingbeat.model.target import Target
from wingbeat.model.weights import load_target, read_target_config

F32 = gguf.GGMLQuantizationType.F32
MATRICES = {
    "self_attn.o_proj": "attn_output", "mlp.down_proj": "ffn_down",
    "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm",
    "self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm",
}


def config(family: str, **changes) -> TargetConfig:
    sizes = {"vocab_size": 64, "hidden_size": 64, "intermediate_size": 96, "num_layers": 2, "head_dim": 16}
    return TargetConfig.tiny(family, **{**sizes, **changes})


def interleave(weight: np.ndarray, heads: int) -> np.ndarray:
    """Row i of a head's first half becomes its row 2i, row i of the second half its row 2i + 1."""
    size = weight.shape[0] // heads
    out = np.empty_like(weight)
    for head in range(heads):
        for i in range(size // 2):
            out[head * size + 2 * i] = weight[head * size + i]
            out[head * size + 2 * i + 1] = weight[head * size + size // 2 + i]
    return out


def gguf_arrays(target: Target) -> dict[str, np.ndarray]:
    """A target's weights under GGUF names, Llama's q and k interleaved."""
    c = target.config
    arrays = {"token_embd.weight": target.embed_tokens.weight, "output_norm.weight": target.norm.weight}
    if target.lm_head is not None:
        arrays["output.weight"] = target.lm_head.weight
    for index, layer in enumerate(target.layers):
        parts = dict(layer.named_parameters())
        for kind in ("weight", "bias"):
            if (fused := parts.get(f"self_attn.qkv_proj.{kind}")) is not None:
                q, k, v = fused.split([c.num_heads * c.head_dim, *[c.num_kv_heads * c.head_dim] * 2])
                if c.family == "llama":
                    q = torch.from_numpy(interleave(q.numpy(), c.num_heads))
                    k = torch.from_numpy(interleave(k.numpy(), c.num_kv_heads))
                for name, value in (("q", q), ("k", k), ("v", v)):
                    arrays[f"blk.{index}.attn_{name}.{kind}"] = value
        gate, up = parts["mlp.gate_up_proj.weight"].chunk(2)
        arrays |= {f"blk.{index}.ffn_gate.weight": gate, f"blk.{index}.ffn_up.weight": up}
        for name, value in parts.items():
            if (part := MATRICES.get(name.removesuffix(".weight"))) is not None:
                arrays[f"blk.{index}.{part}.weight"] = value
    return {name: np.ascontiguousarray(value.numpy()) for name, value in arrays.items()}


def write_gguf(path, c: TargetConfig, arrays: dict[str, np.ndarray], kind=F32, raw=None, **keys) -> None:
    """Matrices as `kind`, vectors as float32; raw: (bytes, kind) by name; keys: more metadata, numbers by name."""
    writer = gguf.GGUFWriter(path, c.family)
    writer.add_block_count(c.num_layers)
    writer.add_context_length(c.max_position)
    writer.add_embedding_length(c.hidden_size)
    writer.add_feed_forward_length(c.intermediate_size)
    writer.add_head_count(c.num_heads)
    writer.add_head_count_kv(c.num_kv_heads)
    writer.add_key_length(c.head_dim)
    writer.add_rope_freq_base(c.rope.theta)
    writer.add_layer_norm_rms_eps(c.rms_norm_eps)
    writer.add_token_list([f"token {i}" for i in range(c.vocab_size)])
    writer.add_token_types([1] * c.vocab_size)
    for key, value in keys.items():
        writer.add_uint32(f"{c.family}.{key.replace('__', '.')}", value)
    for name, value in arrays.items():
        quantised = value.ndim > 1 and kind != F32
        data = gguf.quants.quantize(value, kind) if quantised else value
        writer.add_tensor(name, data, raw_dtype=kind if quantised else None)
    for name, (data, raw_kind) in (raw or {}).items():
        writer.add_tensor(name, data, raw_dtype=raw_kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


@pytest.fixture
def file(tmp_path):
    return tmp_path / "model.gguf"


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("family", ["llama", "qwen2", "qwen3"])
def test_float32_round_trip_is_exact(file, family, tied):
    target = Target.random(config(family, tie_embeddings=tied))
    write_gguf(file, target.config, gguf_arrays(target))
    loaded = load_target(file, torch.float32)
    assert (loaded.lm_head is None) == tied
    assert loaded.config.rms_norm_eps == pytest.approx(target.config.rms_norm_eps)
    for name, parameter in target.named_parameters():
        assert torch.equal(loaded.get_parameter(name), parameter), name


@pytest.mark.parametrize("kind", ["F16", "BF16", "Q8_0", "Q4_0", "Q4_1"])
@pytest.mark.parametrize("family", ["llama", "qwen2"])
def test_quantised_types(file, family, kind):
    quantisation = gguf.GGMLQuantizationType[kind]
    target = Target.random(config(family))
    arrays = gguf_arrays(target)
    write_gguf(file, target.config, arrays, quantisation)
    loaded = load_target(file, torch.float32)
    rounded = {
        name: gguf.quants.dequantize(gguf.quants.quantize(value, quantisation), quantisation)
        for name, value in arrays.items() if value.ndim > 1
    }
    for name, value in gguf_arrays(loaded).items():
        assert np.array_equal(value, rounded.get(name, arrays[name])), name
    tokens = torch.arange(12)[None]
    difference = Run(loaded).feed(tokens) - Run(target).feed(tokens)
    assert 0 < difference.abs().mean() < 1.0  # rounded, and still the same model


@pytest.mark.parametrize("kind", ["Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K"])
def test_k_quants(file, kind):
    """The library cannot quantise to these: blocks of random bytes with finite scales stand in."""
    quantisation = gguf.GGMLQuantizationType[kind]
    c = config("qwen2", hidden_size=256, intermediate_size=256)
    arrays = gguf_arrays(Target.random(c))
    _, size = gguf.GGML_QUANT_SIZES[quantisation]
    rows = np.random.default_rng(0).integers(0, 256, (c.vocab_size, size), dtype=np.uint8)
    scales = {"Q2_K": (80, 82), "Q3_K": (108,), "Q4_K": (0, 2), "Q5_K": (0, 2), "Q6_K": (208,)}[kind]
    for start in scales:  # half-precision scales of a block
        rows[:, start:start + 2] = np.frombuffer(np.float16(0.01).tobytes(), np.uint8)
    del arrays["token_embd.weight"]
    write_gguf(file, c, arrays, raw={"token_embd.weight": (rows, quantisation)})
    loaded = load_target(file, torch.float32).embed_tokens.weight
    expected = np.stack([gguf.quants.dequantize(row, quantisation) for row in rows])
    assert torch.equal(loaded, torch.from_numpy(expected))
    assert loaded.std() > 0


def test_rope_factors_are_llama3_scaling(file):
    rope = RopeConfig(theta=500.0, kind="llama3", factor=8.0, original_max_position=64)
    target = Target.random(config("llama", rope=rope))
    factors = [llama3_factor(500.0 ** (-2 * i / 16), rope) for i in range(8)]
    assert len(set(factors)) == 3  # low, high and ramp are all there
    arrays = gguf_arrays(target) | {"rope_freqs.weight": np.array(factors, dtype=np.float32)}
    write_gguf(file, target.config, arrays)
    assert read_target_config(file).rope.kind == "factors"
    tokens = torch.arange(40)[None]
    difference = Run(load_target(file, torch.float32)).feed(tokens) - Run(target).feed(tokens)
    assert difference.abs().max() <= 1e-4


def llama3_factor(frequency: float, rope: RopeConfig) -> float:
    """How far Llama-3 scaling divides a frequency: not at all above one wavelength, fully below another."""
    wavelength = 2 * math.pi / frequency
    if wavelength < rope.original_max_position / rope.high_freq_factor:
        return 1.0
    if wavelength > rope.original_max_position / rope.low_freq_factor:
        return rope.factor
    smooth = (rope.original_max_position / wavelength - rope.low_freq_factor) / (
        rope.high_freq_factor - rope.low_freq_factor
    )
    return 1 / ((1 - smooth) / rope.factor + smooth)


class TestRefused:
    """Files that are damaged, or of a kind that would be computed wrongly."""

    @pytest.fixture
    def arrays(self):
        return gguf_arrays(Target.random(config("llama")))

    def test_cut_short(self, file, arrays):
        write_gguf(file, config("llama"), arrays)
        whole = file.read_bytes()
        sizes = [*range(0, 4000, 97), len(whole) // 2, len(whole) - 100]
        for size in sizes:
            file.write_bytes(whole[:size])
            with pytest.raises(CorruptError, match=r"model\.gguf"):
                load_target(file, torch.float32)

    def test_damaged_bytes_never_pass_for_something_else(self, file, arrays):
        write_gguf(file, config("llama"), arrays)
        whole, rng = file.read_bytes(), random.Random(0)
        for _ in range(60):
            damaged = bytearray(whole)
            damaged[rng.randrange(4000)] ^= 1 << rng.randrange(8)
            file.write_bytes(damaged)
            with contextlib.suppress(CheckpointError):
                load_target(file, torch.float32)

    def test_not_gguf(self, file):
        file.write_bytes(b"something else entirely, and long enough")
        with pytest.raises(CorruptError, match="not a GGUF file"):
            load_target(file, torch.float32)

    def test_missing_tensor(self, file, arrays):
        del arrays["blk.1.ffn_up.weight"]
        write_gguf(file, config("llama"), arrays)
        with pytest.raises(MismatchError, match=r"lacks layers\.1\.mlp\.up_proj\.weight"):
            load_target(file, torch.float32)

    def test_unexpected_tensor(self, file, arrays):
        write_gguf(file, config("llama"), arrays | {"blk.0.attn_sinks.weight": np.ones(4, np.float32)})
        with pytest.raises(MismatchError, match=r"holds layers\.0\.attn_sinks\.weight"):
            load_target(file, torch.float32)

    def test_wrong_shape(self, file, arrays):
        arrays["blk.0.ffn_up.weight"] = np.ones((95, 64), np.float32)
        write_gguf(file, config("llama"), arrays)
        with pytest.raises(MismatchError, match=r"up_proj.*expected shape \[96, 64\].*found \[95, 64\]"):
            load_target(file, torch.float32)

    def test_nan(self, file, arrays):
        arrays["blk.1.attn_v.weight"][3, 5] = np.nan
        write_gguf(file, config("llama"), arrays)
        with pytest.raises(NonFiniteError, match=r"layers\.1\.self_attn\.v_proj\.weight"):
            load_target(file, torch.float32)

    def test_fewer_layers_than_promised(self, file, arrays):
        write_gguf(file, config("llama", num_layers=3), arrays)
        with pytest.raises(MismatchError, match="3 layers, the weights have 2"):
            load_target(file, torch.float32)

    @pytest.mark.parametrize(
        ("key", "value", "message"),
        [("expert_count", 8, "experts"), ("attention__sliding_window", 32, "sliding"),
         ("rope__dimension_count", 8, "part of the head")],
    )
    def test_unsupported_kinds(self, file, arrays, key, value, message):
        write_gguf(file, config("llama"), arrays, **{key: value})
        with pytest.raises(UnsupportedError, match=message):
            load_target(file, torch.float32)

    def test_unknown_architecture(self, file):
        writer = gguf.GGUFWriter(file, "mamba")
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.close()
        with pytest.raises(UnsupportedError, match="mamba"):
            read_target_config(file)

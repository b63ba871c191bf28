"""Every family, loaded from a Hugging Face directory, against transformers on small random models."""

import json
from pathlib import Path

import pytest
import torch
from target_runs import Run
from transformers import LlamaConfig, LlamaForCausalLM, Qwen2Config, Qwen2ForCausalLM, Qwen3Config, Qwen3ForCausalLM

from wingbeat.model.weights import load_target, read_target_config

SIZES = {
    "vocab_size": 101, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 3, "num_attention_heads": 4,
    "num_key_value_heads": 2, "max_position_embeddings": 64, "initializer_range": 0.3, "tie_word_embeddings": False,
}
LLAMA3 = {
    "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
    "original_max_position_embeddings": 16, "rope_theta": 5000.0,
}
CASES = {
    "llama": (LlamaForCausalLM, LlamaConfig, {}),
    "llama, llama3 rope": (LlamaForCausalLM, LlamaConfig, {"rope_parameters": LLAMA3}),
    "llama, linear rope": (
        LlamaForCausalLM, LlamaConfig, {"rope_parameters": {"rope_type": "linear", "factor": 4.0, "rope_theta": 1e4}},
    ),
    "llama, tied": (LlamaForCausalLM, LlamaConfig, {"tie_word_embeddings": True}),
    "llama, own head size": (LlamaForCausalLM, LlamaConfig, {"head_dim": 12}),
    "llama, no grouping": (LlamaForCausalLM, LlamaConfig, {"num_key_value_heads": 4}),
    "qwen2": (Qwen2ForCausalLM, Qwen2Config, {}),
    "qwen2, tied": (Qwen2ForCausalLM, Qwen2Config, {"tie_word_embeddings": True, "use_sliding_window": False}),
    "qwen3": (Qwen3ForCausalLM, Qwen3Config, {"head_dim": 16}),
}


def build(case: str):
    """A transformers model with every parameter random, biases and norms too."""
    model_class, config_class, changes = CASES[case]
    torch.manual_seed(7)
    model = model_class(config_class(**{**SIZES, **changes})).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith("bias"):
                parameter.normal_()
            elif "norm" in name:
                parameter.add_(0.2 * torch.randn_like(parameter))
    return model


@pytest.fixture(scope="module", params=CASES)
def pair(request, tmp_path_factory):
    """A transformers model and the same one loaded here."""
    model = build(request.param)
    directory = tmp_path_factory.mktemp("model")
    model.save_pretrained(directory)
    return model, load_target(directory, torch.float32)


@pytest.fixture(scope="module")
def tokens():
    return torch.randint(0, SIZES["vocab_size"], (1, 41), generator=torch.Generator().manual_seed(3))


def reference(model, tokens):
    with torch.no_grad():
        return model(tokens).logits


def assert_close(found, expected):
    assert (found - expected).abs().max() <= 1e-4
    assert expected.std() > 0.1  # the comparison means something


def test_prefill(pair, tokens):
    model, target = pair
    assert_close(Run(target).feed(tokens), reference(model, tokens))


@pytest.mark.parametrize("widths", [(17, *[1] * 24), (16, 16, 9), (1, 39, 1)], ids=["one by one", "left-over", "ends"])
def test_blocks_with_cache(pair, tokens, widths):
    model, target = pair
    run = Run(target)
    logits = torch.cat([run.feed(block) for block in tokens.split(widths, dim=1)], dim=1)
    assert_close(logits, reference(model, tokens))


def test_batch_of_different_lengths(pair, tokens):
    model, target = pair
    lengths = (5, 23, 12)
    rows = [tokens[0, start:start + length] for start, length in enumerate(lengths)]
    run = Run(target, rows=3)
    prefilled = run.feed(torch.nn.utils.rnn.pad_sequence(rows, batch_first=True), lengths)
    steps = torch.cat([run.feed(tokens[0, 30 + step].expand(3, 1)) for step in range(4)], dim=1)
    for index, (row, length) in enumerate(zip(rows, lengths, strict=True)):
        expected = reference(model, torch.cat((row, tokens[0, 30:34]))[None])[0]
        assert_close(prefilled[index, :length], expected[:length])
        assert_close(steps[index], expected[length:])


def test_for_inference_only(pair):
    _, target = pair
    assert not target.training
    assert not any(parameter.requires_grad for parameter in target.parameters())
    assert not any(tensor.is_meta for tensor in (*target.parameters(), *target.buffers()))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_other_types_hold_the_rounded_weights(tmp_path: Path, dtype):
    build("qwen2").save_pretrained(tmp_path)
    exact, rounded = load_target(tmp_path, torch.float32), load_target(tmp_path, dtype)
    assert rounded.dtype == dtype
    for name, parameter in exact.named_parameters():
        assert torch.equal(rounded.get_parameter(name), parameter.to(dtype))
    assert torch.equal(exact.rotary.inverse, rounded.rotary.inverse)  # angles stay exact


def test_sharded_directory(tmp_path: Path, tokens):
    model = build("qwen3")
    model.save_pretrained(tmp_path, max_shard_size="20KB")
    assert len(list(tmp_path.glob("*.safetensors"))) > 2
    assert_close(Run(load_target(tmp_path, torch.float32)).feed(tokens), reference(model, tokens))


def test_pytorch_model_bin(tmp_path: Path, tokens):
    model = build("llama")
    model.config.save_pretrained(tmp_path)
    state = model.state_dict() | {"model.layers.0.self_attn.rotary_emb.inv_freq": torch.ones(4)}  # as older files have
    torch.save(state, tmp_path / "pytorch_model.bin")
    assert_close(Run(load_target(tmp_path, torch.float32)).feed(tokens), reference(model, tokens))


def test_configuration_from_before_transformers_5(tmp_path: Path):
    build("llama, llama3 rope").config.save_pretrained(tmp_path)
    new = read_target_config(tmp_path)
    file = tmp_path / "config.json"
    raw = json.loads(file.read_text())
    rope = raw.pop("rope_parameters")
    raw["rope_theta"] = rope.pop("rope_theta")
    raw["rope_scaling"] = rope
    file.write_text(json.dumps(raw))
    assert read_target_config(tmp_path) == new
    assert new.rope.kind == "llama3"
    assert new.rope.theta == 5000.0


def test_tied_model_whose_file_holds_the_matrix_twice(tmp_path: Path, tokens):
    model = build("llama, tied")
    model.config.save_pretrained(tmp_path)
    torch.save({name: value.clone() for name, value in model.state_dict().items()}, tmp_path / "pytorch_model.bin")
    target = load_target(tmp_path, torch.float32)
    assert target.lm_head is None
    assert_close(Run(target).feed(tokens), reference(model, tokens))

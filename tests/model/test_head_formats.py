"""Draft heads on disk: round trips through every format, and how foreign configurations are read."""

import dataclasses
import json
from itertools import product
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import LlamaConfig

from wingbeat.errors import UsageError
from wingbeat.model.config import HeadConfig, RopeConfig, TargetConfig
from wingbeat.model.draft_head import DraftHead
from wingbeat.model.target import Target
from wingbeat.model.weights import load_head, read_head_config, save_head

TARGET = TargetConfig.tiny(num_layers=8)
FORMS = ("eagle3", "speculators", "nemo")
LLAMA3 = RopeConfig(theta=5e5, kind="llama3", factor=8.0, original_max_position=128)
VARIANTS = {
    "default taps": {},
    "taps from layer 1": {"taps": (1, 3, 6)},  # 1 would mean output ids, were the file not marked
    "taps from layer 0": {"taps": (0, 4, 8)},
    "qkv bias": {"qkv_bias": True},
    "qkv bias and qk norm": {"qkv_bias": True, "qk_norm": True},
    "llama3 rope": {"rope": LLAMA3},
    "linear rope": {"rope": RopeConfig(theta=1e4, kind="linear", factor=2.0)},
    "rope factors": {"rope": RopeConfig(kind="factors", factors=(1.0, 1.5, 3.3, 8.0))},
    "whole vocabulary": {"draft_vocab_size": 97},
    "own head size": {"head_dim": 10, "num_heads": 2, "num_kv_heads": 1},
}
FLAGS = [
    {"norm_before_residual": residual, "norm_output": output, "qk_norm": qk_norm, **fc}
    for residual, output, qk_norm in product((False, True), repeat=3)
    for fc in ({}, {"norm_before_fc": True}, {"fc_norm": True})
]


@pytest.fixture(scope="module")
def target():
    return Target.random(TARGET)


def make(seed: int = 3, **changes) -> DraftHead:
    return DraftHead.random(HeadConfig.for_target(TARGET, changes.pop("draft_vocab_size", 40), **changes), seed)


def assert_same(loaded: DraftHead, head: DraftHead, but: str = "embed_tokens.weight") -> None:
    assert loaded.config == head.config
    found, expected = loaded.state_dict(), head.state_dict()
    assert found.keys() == expected.keys()
    assert all(torch.equal(found[name], value) for name, value in expected.items() if name != but)


def edit(directory: Path, change) -> None:
    """Applies `change` to the configuration in `directory`, in place."""
    file = directory / "config.json"
    raw = json.loads(file.read_text())
    change(raw)
    file.write_text(json.dumps(raw))


@pytest.mark.parametrize("form", FORMS)
def test_round_trip_of_every_flag(tmp_path, target, form):
    for flags in FLAGS:
        head = make(**flags)
        save_head(head, tmp_path, form)
        assert_same(load_head(tmp_path, target), head)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["config.json", "model.safetensors"]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", VARIANTS)
def test_round_trip_of_shapes_taps_and_rope(tmp_path, target, form, name):
    head = make(**VARIANTS[name])
    save_head(head, tmp_path, form)
    loaded = load_head(tmp_path, target)
    assert_same(loaded, head)
    assert torch.equal(loaded.rotary.inverse, head.rotary.inverse)
    assert not loaded.training
    assert not any(parameter.requires_grad for parameter in loaded.parameters())


def test_embeddings_are_the_targets_unless_saved(tmp_path, target):
    head = make()
    save_head(head, tmp_path)
    assert load_head(tmp_path, target).embed_tokens.weight is target.embed_tokens.weight
    save_head(head, tmp_path, with_embeddings=True)
    assert_same(load_head(tmp_path, target), head, but="")


@pytest.mark.parametrize("form", FORMS)
def test_a_head_of_another_width_keeps_its_embeddings(tmp_path, target, form):
    head = make(hidden_size=24, intermediate_size=40)
    save_head(head, tmp_path, form)
    assert_same(load_head(tmp_path, target), head, but="")


def test_saved_type_and_loaded_type(tmp_path, target):
    head = make()
    save_head(head, tmp_path, dtype=torch.bfloat16)
    stored = load_file(tmp_path / "model.safetensors")
    assert stored["fc.weight"].dtype == torch.bfloat16
    assert stored["d2t"].dtype == torch.int64
    assert json.loads((tmp_path / "config.json").read_text())["torch_dtype"] == "bfloat16"
    loaded = load_head(tmp_path, target)  # a float32 target
    assert loaded.fc.weight.dtype == torch.float32
    assert torch.equal(loaded.fc.weight, head.fc.weight.bfloat16().float())


def test_names_and_offsets_in_the_files(tmp_path):
    head = make(fc_norm=True)
    names = {}
    for form in FORMS:
        save_head(head, tmp_path, form)
        stored = load_file(tmp_path / "model.safetensors")
        names[form] = set(stored)
        assert torch.equal(stored["d2t"] + torch.arange(40), head.draft_to_target)
        assert torch.equal(stored["t2d"].nonzero().flatten(), head.draft_to_target)
    assert {"midlayer.self_attn.q_proj.weight", "fc_norm.2.weight", "norm.weight"} < names["eagle3"]
    assert {"layers.0.self_attn.q_proj.weight", "layers.0.hidden_norm.weight", "fc.weight"} < names["speculators"]
    assert {"model.layers.0.mlp.up_proj.weight", "model.fc.weight", "lm_head.weight", "d2t"} < names["nemo"]


def test_pytorch_model_bin(tmp_path, target):
    head = make(norm_before_fc=True)
    save_head(head, tmp_path)
    weights = tmp_path / "model.safetensors"
    torch.save(load_file(weights), tmp_path / "pytorch_model.bin")
    weights.unlink()
    assert_same(load_head(tmp_path, target), head)


def test_transformers_reads_the_same_layer(tmp_path):
    save_head(make(rope=LLAMA3), tmp_path)
    raw = json.loads((tmp_path / "config.json").read_text())
    config = LlamaConfig.from_pretrained(tmp_path)
    assert raw["architectures"] == ["LlamaForCausalLMEagle3"]
    assert config.rope_parameters["rope_theta"] == 5e5
    assert config.rope_parameters["rope_type"] == "llama3"
    assert config.head_dim == TARGET.head_dim
    assert config.eagle_config["eagle_aux_hidden_state_layer_ids"] == [2, 4, 5]


def test_unknown_form(tmp_path):
    with pytest.raises(UsageError, match="gguf"):
        save_head(make(), tmp_path, "gguf")


class TestForeignConfigurations:
    """Files as other projects write them: what is taken from them, and what is said to be assumed."""

    @pytest.fixture
    def saved(self, tmp_path):
        def save(form: str = "eagle3", **changes) -> Path:
            save_head(make(**changes), tmp_path, form)
            edit(tmp_path, lambda raw: raw.pop("wingbeat"))
            return tmp_path

        return save

    def test_safeailab(self, saved, target):
        """A plain Llama configuration with draft_vocab_size, tensors in pytorch_model.bin."""
        path = saved()
        plain = {
            "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 32, "intermediate_size": 64,
            "num_attention_heads": 4, "num_key_value_heads": 2, "num_hidden_layers": 1, "vocab_size": 97,
            "draft_vocab_size": 40, "rms_norm_eps": 1e-5, "max_position_embeddings": 2048, "hidden_act": "silu",
        }
        (path / "config.json").write_text(json.dumps(plain))
        torch.save(load_file(path / "model.safetensors"), path / "pytorch_model.bin")
        (path / "model.safetensors").unlink()
        config = load_head(path, target).config
        assert config.taps == (2, 4, 5)
        assert config.rope == RopeConfig(theta=10000.0)
        assert config.head_dim == 8
        assert not config.norm_before_residual
        said = "; ".join(config.assumed)
        for words in ("rope_theta missing: 10000", "no tap ids given", "norm_before_residual missing: off",
                      "head_dim missing: 8", "target_hidden_size missing: 32", "norm_before_fc, fc_norm, norm_output"):
            assert words in said

    @pytest.mark.parametrize(
        ("form", "ids", "taps", "said"),
        [("eagle3", [1, 3, 5], (2, 4, 6), "output ids"), ("eagle3", [2, 4, 5], (2, 4, 5), "entry ids"),
         ("nemo", [1, 3, 4], (2, 4, 5), "output ids"), ("speculators", [2, 4, 5], (2, 4, 5), ""),
         ("speculators", [1, 3, 5], (1, 3, 5), "though they start at 1")],
    )
    def test_tap_ids(self, saved, form, ids, taps, said):
        path = saved(form)
        place = (lambda raw: raw) if form == "speculators" else (lambda raw: raw["eagle_config"])
        edit(path, lambda raw: place(raw).update(eagle_aux_hidden_state_layer_ids=ids))
        config = read_head_config(path, TARGET)
        assert config.taps == taps
        assert said in "".join(config.assumed)
        assert bool(config.assumed) == bool(said)

    @pytest.mark.parametrize(("form", "value"), [("speculators", True), ("eagle3", False), ("nemo", False)])
    def test_missing_norm_before_residual(self, saved, form, value):
        path = saved(form)
        edit(path, lambda raw: raw.pop("norm_before_residual"))
        config = read_head_config(path, TARGET)
        assert config.norm_before_residual == value
        assert any("norm_before_residual" in sentence for sentence in config.assumed)

    def test_norm_before_fc_of_nvidia_heads(self, saved, target):
        """The flag stands in eagle_config alone."""
        path = saved(norm_before_fc=True)
        edit(path, lambda raw: raw.pop("norm_before_fc"))
        assert load_head(path, target).config.norm_before_fc

    def test_norm_output(self, saved, target):
        """One name, two meanings (eagle3.md 2.3); and TensorRT-LLM's other name."""
        path = saved(norm_output=True)
        config = load_head(path, target).config
        assert config.norm_output
        assert any("SpecForge does not" in sentence for sentence in config.assumed)
        edit(path, lambda raw: (raw.pop("norm_output"), raw["eagle_config"].update(return_hidden_post_norm=True)))
        assert load_head(path, target).config.norm_output

    @pytest.mark.parametrize(("kind", "flag"), [("qwen3", "qk_norm"), ("qwen2", "qkv_bias")])
    def test_speculators_layer_kinds(self, saved, target, kind, flag):
        path = saved("speculators", **{flag: True})
        edit(path, lambda raw: [raw["transformer_layer_config"].pop(key) for key in ("qk_norm", "qkv_bias")])
        assert json.loads((path / "config.json").read_text())["transformer_layer_config"]["model_type"] == kind
        assert getattr(load_head(path, target).config, flag)

    def test_rope_as_transformers_5_writes_it(self, saved):
        path = saved("speculators")

        def change(raw) -> None:
            layer = raw["transformer_layer_config"]
            del layer["rope_theta"], layer["rope_scaling"]
            layer["rope_parameters"] = {"rope_type": "default", "rope_theta": 12345.0}

        edit(path, change)
        config = read_head_config(path, TARGET)
        assert config.rope.theta == 12345.0
        assert not config.assumed

    def test_nemo_repeats_the_targets_layers(self, saved, target):
        path = saved("nemo")
        edit(path, lambda raw: raw.update(num_hidden_layers=8))
        assert any("num_hidden_layers 8" in sentence for sentence in load_head(path, target).config.assumed)

    def test_whole_vocabulary_without_d2t(self, saved, target):
        path = saved(draft_vocab_size=97)
        stored = load_file(path / "model.safetensors")
        save_file({name: value for name, value in stored.items() if name not in ("d2t", "t2d")},
                  path / "model.safetensors")
        edit(path, lambda raw: raw.pop("draft_vocab_size"))
        head = load_head(path, target)
        assert torch.equal(head.draft_to_target, torch.arange(97))
        assert head.config.assumed == ("draft_vocab_size missing: 97",
                                       "tap ids [2, 4, 5] read as entry ids: the first is not 1")

    def test_sizes_alone_need_no_target(self, saved):
        path = saved()
        config = read_head_config(path)
        assert dataclasses.replace(config, assumed=()) == make().config

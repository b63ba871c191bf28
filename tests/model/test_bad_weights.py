"""Checkpoints that must be refused, each with an error that says what is wrong and where."""

import json
import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import LlamaConfig, LlamaForCausalLM

from wingbeat.errors import (
    CheckpointError,
    CorruptError,
    MismatchError,
    NonFiniteError,
    NotFoundError,
    StorageError,
    UnsupportedError,
)
from wingbeat.model.config import HeadConfig, TargetConfig
from wingbeat.model.draft_head import DraftHead
from wingbeat.model.target import Target
from wingbeat.model.weights import load_head, load_target, read_head_config, save_head

SIZES = {
    "vocab_size": 40, "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "tie_word_embeddings": False,
}


@pytest.fixture
def model(tmp_path) -> Path:
    """A directory with a small Llama."""
    LlamaForCausalLM(LlamaConfig(**SIZES)).save_pretrained(tmp_path)
    return tmp_path


@pytest.fixture(scope="module")
def target() -> Target:
    return Target.random(TargetConfig.tiny())


@pytest.fixture
def head(tmp_path, target) -> Path:
    """A directory with a head for `target`."""
    save_head(DraftHead.random(HeadConfig.for_target(target.config, 40)), tmp_path)
    return tmp_path


def edit_config(directory: Path, **changes) -> None:
    file = directory / "config.json"
    raw = json.loads(file.read_text()) | changes
    file.write_text(json.dumps({key: value for key, value in raw.items() if value != "absent"}))


def edit_tensors(directory: Path, change) -> None:
    file = directory / "model.safetensors"
    tensors = load_file(file)
    change(tensors)
    save_file({name: value.clone() for name, value in tensors.items()}, file)


def refuse(error: type[CheckpointError], message: str, path: Path, dtype: torch.dtype = torch.float32) -> None:
    with pytest.raises(error, match=message):
        load_target(path, dtype)


class TestDamagedFiles:
    @pytest.mark.parametrize("share", [0.0, 0.001, 0.1, 0.5, 0.999])
    def test_safetensors_cut_short(self, model, share):
        file = model / "model.safetensors"
        whole = file.read_bytes()
        file.write_bytes(whole[:int(len(whole) * share)])
        refuse(CorruptError, r"model\.safetensors is damaged or cut short", model)

    @pytest.mark.parametrize("place", [0, 3, 7, 9, 40])
    def test_safetensors_with_a_damaged_header(self, model, place):
        file = model / "model.safetensors"
        damaged = bytearray(file.read_bytes())
        damaged[place] ^= 0xFF
        file.write_bytes(damaged)
        refuse(CorruptError, r"model\.safetensors", model)

    @pytest.mark.parametrize("legacy", [False, True])
    def test_bin_cut_short(self, model, legacy):
        file = model / "pytorch_model.bin"
        torch.save(load_file(model / "model.safetensors"), file, _use_new_zipfile_serialization=not legacy)
        (model / "model.safetensors").unlink()
        whole = file.read_bytes()
        load_target(model, torch.float32)
        for share in (0.0, 0.01, 0.5, 0.99):
            file.write_bytes(whole[:int(len(whole) * share)])
            refuse(CorruptError, r"pytorch_model\.bin", model)

    def test_bin_that_would_run_code(self, model):
        class Trap:
            def __reduce__(self):
                return os.mkdir, (str(model / "sprung"),)

        (model / "model.safetensors").unlink()
        torch.save({"model.norm.weight": Trap()}, model / "pytorch_model.bin")
        refuse(CorruptError, "more than tensors", model)
        (model / "pytorch_model.bin").write_bytes(pickle.dumps(Trap(), protocol=2))
        refuse(CorruptError, "more than tensors", model)
        assert not (model / "sprung").exists()

    def test_bin_with_more_than_a_state_dict(self, model):
        torch.save({"state_dict": load_file(model / "model.safetensors")}, model / "pytorch_model.bin")
        (model / "model.safetensors").unlink()
        refuse(CorruptError, "save the state_dict alone", model)

    @pytest.mark.parametrize("text", ["", "{", "[1, 2]", "\udcff"])
    def test_configuration_that_is_no_json_object(self, model, text):
        (model / "config.json").write_bytes(text.encode("utf-8", "surrogateescape"))
        refuse(CorruptError, r"config\.json", model)


class TestMissingFiles:
    def test_path_does_not_exist(self, tmp_path):
        refuse(NotFoundError, "nowhere does not exist", tmp_path / "nowhere")

    def test_some_other_file(self, tmp_path):
        (tmp_path / "notes.txt").write_text("hello")
        refuse(NotFoundError, r"neither a directory nor a \.gguf file", tmp_path / "notes.txt")

    def test_no_configuration(self, tmp_path):
        refuse(NotFoundError, r"has no config\.json", tmp_path)

    def test_no_weights(self, model):
        (model / "model.safetensors").unlink()
        refuse(NotFoundError, "has no weights", model)

    def test_missing_shard(self, model):
        (model / "model.safetensors").rename(model / "model-00001-of-00002.safetensors")
        names = ("model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors")
        index = {"weight_map": {"model.norm.weight": names[0], "lm_head.weight": names[1]}}
        (model / "model.safetensors.index.json").write_text(json.dumps(index))
        refuse(NotFoundError, "lacks the shards model-00002-of-00002", model)

    def test_index_without_a_map(self, model):
        (model / "model.safetensors").rename(model / "model-00001-of-00001.safetensors")
        (model / "model.safetensors.index.json").write_text("{}")
        refuse(CorruptError, "has no weight_map", model)


class TestTargetTensors:
    def test_missing(self, model):
        edit_tensors(model, lambda tensors: tensors.pop("model.layers.1.self_attn.k_proj.weight"))
        refuse(MismatchError, r"lacks layers\.1\.self_attn\.k_proj\.weight", model)

    def test_missing_output_matrix_of_an_untied_model(self, model):
        edit_tensors(model, lambda tensors: tensors.pop("lm_head.weight"))
        refuse(MismatchError, r"lacks lm_head\.weight", model)

    def test_unexpected(self, model):
        edit_tensors(model, lambda tensors: tensors.update({"model.layers.0.self_attn.q_proj.bias": torch.ones(16)}))
        refuse(MismatchError, r"holds layers\.0\.self_attn\.q_proj\.bias", model)

    def test_wrong_shape(self, model):
        edit_tensors(model, lambda tensors: tensors.update({"model.layers.0.mlp.down_proj.weight": torch.ones(16, 23)}))
        refuse(MismatchError, r"down_proj\.weight.*expected shape \[16, 24\].*found \[16, 23\]", model)

    def test_other_number_of_heads(self, model):
        edit_config(model, head_dim=8)
        refuse(MismatchError, r"q_proj\.weight.*expected 32 rows, 4 heads of 8, found 16", model)

    @pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
    def test_not_finite(self, model, value):
        edit_tensors(model, lambda tensors: tensors["model.layers.1.mlp.up_proj.weight"].view(-1)[7:8].fill_(value))
        refuse(NonFiniteError, r"layers\.1\.mlp\.up_proj\.weight.*NaN or infinity", model)

    def test_value_that_float16_cannot_hold(self, model):
        edit_tensors(model, lambda tensors: tensors["model.norm.weight"].fill_(1e5))
        load_target(model, torch.bfloat16)
        refuse(NonFiniteError, r"norm\.weight.*float16 cannot hold", model, torch.float16)


class TestTargetConfigurations:
    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            ({"architectures": ["GPT2LMHeadModel"]}, "'GPT2LMHeadModel' is not implemented; known: LlamaForCausalLM"),
            ({"architectures": "absent", "model_type": "mamba"}, "mamba"),
            ({"attention_bias": True}, "attention_bias"),
            ({"mlp_bias": True}, "mlp_bias"),
            ({"hidden_act": "gelu"}, "gelu"),
            ({"rope_parameters": {"rope_type": "yarn", "factor": 4.0}}, "rope scaling 'yarn'"),
            ({"rope_parameters": "absent", "rope_scaling": {"type": "dynamic", "factor": 2.0}}, "rope scaling 'dynam"),
            ({"rope_parameters": {"rope_type": "default", "partial_rotary_factor": 0.5}}, "part of the head"),
            ({"use_sliding_window": True, "sliding_window": 128}, "sliding-window"),
            ({"layer_types": ["full_attention", "sliding_attention"]}, "sliding-window"),
            ({"quantization_config": {"quant_method": "awq"}}, "quantised"),
        ],
    )
    def test_unsupported(self, model, changes, message):
        edit_config(model, **changes)
        refuse(UnsupportedError, message, model)

    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            ({"hidden_size": "absent"}, "no 'hidden_size'"),
            ({"num_attention_heads": "four"}, "'num_attention_heads' is 'four'"),
            ({"num_hidden_layers": 2.5}, "whole number"),
            ({"vocab_size": -1}, "positive"),
            ({"num_key_value_heads": 3}, "4 heads cannot share 3"),
            ({"rope_parameters": {"rope_type": "llama3", "factor": 8.0}}, "low_freq_factor"),
            ({"rope_parameters": 7}, "rope_parameters"),
            ({"architectures": "Llama"}, "architectures"),
            ({"num_hidden_layers": 3}, "3 layers, the weights have 2"),
        ],
    )
    def test_nonsense(self, model, changes, message):
        edit_config(model, **changes)
        refuse(MismatchError, message, model)


class TestHeads:
    def refuse(self, error, message, head, target) -> None:
        with pytest.raises(error, match=message):
            load_head(head, target)

    @pytest.mark.parametrize(
        ("changes", "message"),
        [({"vocab_size": 96}, "of vocabulary 97, this target's is 96"),
         ({"hidden_size": 48}, "of hidden size 32, this target's is 48"),
         ({"num_layers": 1}, r"taps \[1, 2, 2\] do not exist in 1 layers")],
    )
    def test_another_target(self, head, changes, message):
        self.refuse(MismatchError, message, head, Target.random(TargetConfig.tiny(**changes)))

    def test_fc_for_other_taps(self, head, target):
        edit_tensors(head, lambda tensors: tensors.update({"fc.weight": torch.ones(32, 128)}))
        self.refuse(MismatchError, r"fc\.weight.*expected shape \[32, 96\].*found \[32, 128\]", head, target)

    @pytest.mark.parametrize(
        ("flag", "message"),
        [("norm_before_fc", r"lacks input_norm\.weight"), ("fc_norm", r"lacks fc_norm\.0\.weight"),
         ("qk_norm", r"lacks self_attn\.k_norm\.weight"), ("qkv_bias", r"lacks self_attn\.k_proj\.bias")],
    )
    def test_flag_without_its_tensor(self, head, target, flag, message):
        edit_config(head, **{flag: True, "eagle_config": {}})
        self.refuse(MismatchError, message, head, target)

    def test_tensor_without_its_flag(self, head, target):
        edit_tensors(head, lambda tensors: tensors.update({"input_norm.weight": torch.ones(96)}))
        self.refuse(MismatchError, r"holds input_norm\.weight", head, target)

    def test_one_tensor_under_two_names(self, head, target):
        edit_tensors(head, lambda tensors: tensors.update({"model.fc.weight": torch.ones(32, 96)}))
        self.refuse(MismatchError, r"fc\.weight under two names", head, target)

    def test_flags_that_contradict_each_other(self, head, target):
        edit_config(head, norm_before_fc=True)
        self.refuse(MismatchError, "norm_before_fc is True at the top level and False in eagle_config", head, target)
        edit_config(head, fc_norm=True, eagle_config={})
        self.refuse(MismatchError, "exclude each other", head, target)

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            (lambda tensors: tensors.pop("d2t"), "lacks d2t"),
            (lambda tensors: tensors["d2t"].add_(torch.arange(40)), "are they offsets"),
            (lambda tensors: tensors["d2t"][5:6].add_(-9), "increasing ids"),
            (lambda tensors: tensors["d2t"][-1:].add_(90), "below 97"),
            (lambda tensors: tensors.update(d2t=torch.zeros(39, dtype=torch.int64)), "expected 40 whole numbers"),
            (lambda tensors: tensors.update(d2t=torch.zeros(40)), "expected 40 whole numbers"),
            (lambda tensors: tensors.update(t2d=tensors["t2d"].roll(1)), "t2d and d2t .* disagree"),
            (lambda tensors: tensors.update(t2d=torch.ones(98, dtype=torch.bool)), r"expected shape \[97\]"),
        ],
    )
    def test_vocabulary_mapping(self, head, target, change, message):
        edit_tensors(head, change)
        self.refuse(MismatchError, message, head, target)

    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            ({"num_hidden_layers": 2}, "2 layers"),
            ({"speculators_model_type": "dflash"}, "dflash is not an EAGLE-3 head"),
            ({"architectures": ["LlamaForCausalLM"], "draft_vocab_size": "absent"}, "not an EAGLE-3 head"),
            ({"parallel_drafting": True}, "parallel drafting"),
            ({"bias": True}, "bias on fc"),
            ({"eagle_config": {"eh_proj_before_attn": True}}, "projection before attention"),
            ({"attention_bias": True}, "attention_bias"),
            ({"eagle_config": {"use_aux_hidden_state": False}}, "reads no taps"),
            ({"rope_scaling": {"rope_type": "yarn", "factor": 2.0}}, "yarn"),
        ],
    )
    def test_unsupported(self, head, target, changes, message):
        edit_config(head, **changes)
        self.refuse(UnsupportedError, message, head, target)

    def test_second_layer_among_the_tensors(self, head, target):
        edit_tensors(head, lambda tensors: tensors.update({"layers.1.mlp.up_proj.weight": torch.ones(64, 32)}))
        self.refuse(UnsupportedError, r"holds layers\.1\.mlp\.up_proj\.weight", head, target)

    @pytest.mark.parametrize("ids", [[1.5, 2, 3], "2,4,5", [2, 9, 3]])
    def test_taps_that_are_none(self, head, target, ids):
        edit_config(head, eagle_config={"eagle_aux_hidden_state_layer_ids": ids})
        self.refuse(MismatchError, "layer", head, target)

    def test_no_taps_and_no_target(self, head):
        edit_config(head, eagle_config={})
        with pytest.raises(MismatchError, match="name the target"):
            read_head_config(head)

    def test_draft_vocabulary_larger_than_the_vocabulary(self, head, target):
        edit_config(head, draft_vocab_size=98)
        self.refuse(MismatchError, r"config\.json: draft vocabulary 98 exceeds", head, target)

    def test_narrower_head_without_embeddings(self, tmp_path, target):
        narrow = HeadConfig.for_target(target.config, 40, hidden_size=24)
        save_head(DraftHead.random(narrow), tmp_path)
        edit_tensors(tmp_path, lambda tensors: tensors.pop("embed_tokens.weight"))
        self.refuse(MismatchError, "head's hidden size is 24, the target's is 32", tmp_path, target)

    def test_not_finite(self, head, target):
        edit_tensors(head, lambda tensors: tensors["lm_head.weight"][3].fill_(float("nan")))
        self.refuse(NonFiniteError, r"lm_head\.weight", head, target)

    def test_cut_short(self, head, target):
        file = head / "model.safetensors"
        file.write_bytes(file.read_bytes()[:-1])
        self.refuse(CorruptError, "cut short", head, target)


FULL_DISK = """
import resource, signal, sys
from pathlib import Path
from wingbeat.errors import StorageError
from wingbeat.model.config import HeadConfig, TargetConfig
from wingbeat.model.draft_head import DraftHead
from wingbeat.model.weights import save_head

head = DraftHead.random(HeadConfig.for_target(TargetConfig.tiny(), 40), seed=9)
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
limit = int(sys.argv[2])
resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
try:
    save_head(head, Path(sys.argv[1]))
except StorageError as error:
    print(error)
"""


class TestSaving:
    @pytest.mark.parametrize("limit", [0, 500, 20000])
    def test_disk_full(self, head, limit):
        """No byte may be written past a limit: what a full disk does to a file."""
        before = {file.name: file.read_bytes() for file in head.iterdir()}
        command = [sys.executable, "-c", FULL_DISK, str(head), str(limit)]
        said = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
        assert "model.safetensors could not be written" in said
        assert "untouched" in said
        assert {file.name: file.read_bytes() for file in head.iterdir()} == before

    def test_file_that_cannot_be_replaced(self, head):
        (head / "config.json").unlink()
        (head / "config.json").mkdir()
        with pytest.raises(StorageError, match=r"config\.json could not be written"):
            save_head(DraftHead.random(HeadConfig.for_target(TargetConfig.tiny(), 40)), head)
        assert sorted(file.name for file in head.iterdir()) == ["config.json", "model.safetensors"]

    def test_directory_that_cannot_be_made(self, tmp_path):
        (tmp_path / "file").write_text("in the way")
        with pytest.raises(StorageError, match="cannot be made"):
            save_head(DraftHead.random(HeadConfig.for_target(TargetConfig.tiny(), 40)), tmp_path / "file" / "head")

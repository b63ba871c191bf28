"""`describe` and `wingbeat info`: facts about a model or head on disk."""

import json
import subprocess
import sys

import pytest
import torch
import typer
from transformers import Qwen2Config, Qwen2ForCausalLM
from typer.testing import CliRunner

from wingbeat.cli.info import info
from wingbeat.errors import MismatchError
from wingbeat.model.config import HeadConfig, TargetConfig
from wingbeat.model.draft_head import DraftHead
from wingbeat.model.weights import describe, save_head

TARGET = TargetConfig.tiny(num_layers=8)


def run(*arguments: str):
    app = typer.Typer()
    app.command()(info)
    return CliRunner().invoke(app, arguments)


@pytest.fixture
def head(tmp_path):
    head = DraftHead.random(HeadConfig.for_target(TARGET, 40, fc_norm=True, norm_output=True))
    save_head(head, tmp_path, "speculators", torch.bfloat16)
    return tmp_path


def test_target_directory(tmp_path):
    config = Qwen2Config(
        vocab_size=40, hidden_size=16, intermediate_size=24, num_hidden_layers=6, num_attention_heads=4,
        num_key_value_heads=2, tie_word_embeddings=True, max_position_embeddings=128,
    )
    model = Qwen2ForCausalLM(config)
    model.save_pretrained(tmp_path)
    facts = describe(tmp_path)
    parameters = sum(parameter.numel() for parameter in model.parameters())
    expected = {
        "kind": "target", "family": "qwen2", "format": "Hugging Face", "parameters": parameters,
        "bytes in bfloat16": 2 * parameters, "layers": 6, "hidden size": 16, "heads": 4, "key/value heads": 2,
        "vocabulary": 40, "context": 128, "tied embeddings": True, "qkv bias": True, "default taps": [2, 3, 3],
        "bytes on disk": (tmp_path / "model.safetensors").stat().st_size,
    }
    assert facts | expected == facts


def test_head(head):
    facts = describe(head)
    weights = DraftHead(HeadConfig.for_target(TARGET, 40, fc_norm=True))
    parameters = sum(p.numel() for p in weights.parameters()) - weights.embed_tokens.weight.numel()
    expected = {
        "kind": "EAGLE-3 head", "format": "speculators configuration, speculators tensor names",
        "parameters": parameters, "taps (entry ids)": [2, 4, 5], "vocabulary": 97, "draft vocabulary": 40,
        "coverage of the vocabulary": 40 / 97, "embeddings": "the target's", "flags": ["fc_norm", "norm_output"],
        "assumed": [], "target hidden size": 32,
    }
    assert facts | expected == facts
    assert json.loads(json.dumps(facts)) == facts


def test_head_without_taps(head):
    raw = json.loads((head / "config.json").read_text())
    del raw["eagle_aux_hidden_state_layer_ids"]
    (head / "config.json").write_text(json.dumps(raw))
    assert "the target's default" in str(describe(head)["taps (entry ids)"])
    facts = describe(head, TARGET)
    assert facts["taps (entry ids)"] == [2, 4, 5]
    assert "no tap ids given" in str(facts["assumed"])


def test_head_for_another_target(head):
    with pytest.raises(MismatchError, match="vocabulary 97, this target's is 98"):
        describe(head, TargetConfig.tiny(vocab_size=98))


def test_command_prints_a_table(head):
    result = run(str(head))
    assert result.exit_code == 0
    for words in ("EAGLE-3 head", "2, 4, 5", "41.2%", "fc_norm"):
        assert words in result.stdout


def test_command_prints_json(head):
    result = run(str(head), "--json")
    assert json.loads(result.stdout) == describe(head)


def test_importing_the_command_imports_no_torch():
    code = "import sys, wingbeat.cli.info; print('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"

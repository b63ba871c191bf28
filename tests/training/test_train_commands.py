"""`wingbeat train` from text to an evaluated head, for a tiny model with the default model's tokenizer."""

from __future__ import annotations

import json

import pytest
import torch
from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM
from typer.testing import CliRunner

from wingbeat.cli.train import app
from wingbeat.errors import InterruptedRunError, MismatchError, NotFoundError, UsageError
from wingbeat.model.weights import locate_model
from wingbeat.training.data import read_conversations

SMALL = ["--ttt-steps", "2", "--batch-tokens", "128", "--held-out", "0.2", "--evaluate-every", "2"]
TALK = [
    ("What is a cat?", "A cat is a small animal that likes to sleep all day."),
    ("What is a dog?", "A dog is an animal that likes to run and to play."),
    ("What is a cow?", "A cow is a large animal that eats grass all day."),
    ("Count to five.", "One, two, three, four, five."),
    ("Name a colour.", "Red is a colour, and so are green and blue."),
    ("What is a fish?", "A fish is an animal that lives in the water."),
]


def run(command, folder, *arguments):
    """Runs a command for the model in `folder`; returns its output, raises its error."""
    model = [folder / "model"] if command == "data" else ["--model", folder / "model"]
    done = CliRunner().invoke(app, [str(argument) for argument in (command, *arguments, *model)])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == 0, done.output
    return done.stdout


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("train")
    lines = [json.dumps({"user": user, "assistant": answer}) for user, answer in TALK]
    (folder / "text.jsonl").write_text("\n".join(lines) + "\n")
    (folder / "questions.jsonl").write_text('{"question_id": 1, "turns": ["Say hello."]}\n')
    words = locate_model(None)
    AutoTokenizer.from_pretrained(str(words.parent), gguf_file=words.name).save_pretrained(folder / "model")
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=49152, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=512, tie_word_embeddings=True,
    )
    LlamaForCausalLM(config).save_pretrained(folder / "model")
    return folder


@pytest.fixture(scope="module")
def captured(folder):
    said = run("capture", folder, folder / "text.jsonl", "--out", folder / "captured", "--shard-samples", 4)
    assert said.startswith("6 conversations")
    return folder / "captured"


@pytest.fixture(scope="module")
def head(folder, captured):
    said = run("head", folder, captured, "--out", folder / "head", "--draft-vocab", 64, "--epochs", 2, *SMALL)
    assert "Held-out acceptance" in said
    return folder / "head"


def test_a_head_comes_with_its_card_and_is_evaluated_in_the_engine(folder, head):
    card = (head / "README.md").read_text()
    assert str(folder / "model") in card
    assert "| 1 |" in card
    assert "64 words" in card
    questions = folder / "questions.jsonl"
    size = ["--limit", 1, "--max-tokens", 6, "--steps", 2, "--nodes", 4, "--topk", 2]
    out = run("eval", folder, head, "--prompts", questions, *size, "--json")
    results = json.loads(out)
    assert list(results) == ["chain of 2", "tree of 4"]
    assert 1 <= results["chain of 2"]["questions"]["tokens_per_cycle"] <= 3


def test_training_goes_on_from_a_head_without_shards(folder, head):
    out = folder / "further"
    rest = ["--init", head, "--epochs", 1, "--format", "speculators"]
    run("head", folder, folder / "text.jsonl", "--out", out, *rest, *SMALL)
    assert json.loads((out / "config.json").read_text())["speculators_model_type"] == "eagle3"
    assert json.loads((out / "config.json").read_text())["draft_vocab_size"] == 64


def test_the_target_answers_given_questions(folder):
    out = folder / "answers.jsonl"
    questions = ["--prompts", folder / "questions.jsonl"]
    said = run("data", folder, *questions, "--out", out, "--answer-tokens", 12, "--temperatures", "1")
    assert said.startswith("1 conversations")
    (only,) = read_conversations(out)
    assert [message["role"] for message in only.messages] == ["user", "assistant"]


def test_what_does_not_fit_is_said(folder, captured, head):
    with pytest.raises(UsageError, match="no checkpoint to resume"):
        run("head", folder, captured, "--out", folder / "new", "--resume", "--draft-vocab", 64, *SMALL)
    with pytest.raises(UsageError, match="not both"):
        run("head", folder, captured, folder / "text.jsonl", "--out", folder / "new", *SMALL)
    with pytest.raises(MismatchError, match="other taps"):
        run("head", folder, captured, "--out", folder / "new", "--taps", "1,2,3", *SMALL)
    with pytest.raises(NotFoundError, match="no captured text"):
        run("head", folder, folder, "--out", folder / "new", *SMALL)
    with pytest.raises(UsageError, match="curriculum"):
        run("head", folder, captured, "--out", folder / "new", "--curriculum", "soon:3", *SMALL)
    with pytest.raises(UsageError, match="no answers"):
        run("capture", folder, folder / "questions.jsonl", "--out", folder / "new")


def test_ctrl_c_saves_and_resume_finishes(folder, captured, monkeypatch):
    from wingbeat.cli import train_head

    arguments = ["head", folder, captured, "--out", folder / "stopped", "--draft-vocab", 64, "--epochs", 2, *SMALL]
    monkeypatch.setattr(train_head, "_when_interrupted", lambda: lambda progress: progress.step == 2)
    with pytest.raises(InterruptedRunError, match="--resume"):
        run(*arguments)
    monkeypatch.undo()
    run(*arguments, "--resume")
    assert (folder / "stopped" / "model.safetensors").exists()

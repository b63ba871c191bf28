import pytest

from wingbeat.probe.redact import HIDDEN, clean, clean_code, is_secret


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("HF_TOKEN", "abc"), ("OPENAI_API_KEY", "abc"), ("AWS_SECRET_ACCESS", "1"), ("DB_PASSWORD", "12345"),
        ("hugging_face_hub_token", "abc"), ("TOKENIZER_API_KEY", "abc"), ("TOKENS", "a,b"),
    ],
)  # fmt: skip
def test_secrets_by_name(name, value):
    assert is_secret(name, value)
    assert clean({name: value}) == {name: HIDDEN}
    assert value not in clean(f"x {name}={value}y z").replace(name, "")


@pytest.mark.parametrize(
    ("name", "value"),
    [("TOKENIZERS_PARALLELISM", "false"), ("max_tokens", "64"), ("NCCL_PROTO", "LL"), ("TOKENIZER_PATH", "/x")],
)
def test_what_is_no_secret(name, value):
    assert not is_secret(name, value)
    assert clean({name: value}) == {name: value}


def test_arguments_texts_and_addresses():
    assert clean(["serve", "--api-key", "abc", "--max-tokens", "64", "--port=1"]) == [
        "serve", "--api-key", HIDDEN, "--max-tokens", "64", "--port=1",
    ]  # fmt: skip
    assert clean("--api-key=abc123 --x 1") == f"--api-key={HIDDEN} --x 1"
    assert clean("run --api-key abc123 --x 1") == f"run --api-key {HIDDEN} --x 1"
    assert clean('{"api_key": "abc123", "x": 1}') == f'{{"api_key": "{HIDDEN}", "x": 1}}'
    assert clean("https://me:pass@host/x") == f"https://{HIDDEN}@host/x"
    assert clean("got hf_abcdefghijklmnopqrstu here") == f"got {HIDDEN} here"
    assert clean({"a": [{"PASSWORD": "x", "n": 3}]}) == {"a": [{"PASSWORD": HIDDEN, "n": 3}]}


def test_code_keeps_its_keys_and_loses_literals():
    assert clean_code("+    key = self.k_proj(x)") == "+    key = self.k_proj(x)"
    assert clean_code('+    api_key = "abcdef123"') == f'+    api_key = "{HIDDEN}"'

import pytest

from wingbeat.probe.redact import HIDDEN, clean, clean_code, is_secret


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("HF_TOKEN", "abc"), ("OPENAI_API_KEY", "abc"), ("AWS_SECRET_ACCESS", "1"), ("DB_PASSWORD", "12345"),
        ("hugging_face_hub_token", "abc"), ("TOKENIZER_API_KEY", "abc"), ("TOKENS", "a,b"), ("API_TOKEN", "1234567"),
        ("Authorization", "Basic"), ("token_map_key", "abc"),
    ],
)  # fmt: skip
def test_secrets_by_name(name, value):
    assert is_secret(name, value)
    assert clean({name: value}) == {name: HIDDEN}
    assert value not in clean(f"x {name}={value}y z").replace(name, "")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("TOKENIZERS_PARALLELISM", "false"), ("max_tokens", "64"), ("NCCL_PROTO", "LL"), ("TOKENIZER_PATH", "/x"),
        ("speculative-token-map", "hot.pt"), ("long-prefill-token-threshold", "1024"), ("num_key_value_heads", "8"),
        ("SGLANG_DEEPEP_NUM_MAX_DISPATCH_TOKENS_PER_RANK", "128"), ("max-num-batched-tokens", "8k"),
        ("monkey_patch.pth", "0123456789abcdef"), ("HF_HUB_DISABLE_IMPLICIT_TOKEN", "1"), ("eos_token_id", "[1, 2]"),
    ],
)  # fmt: skip
def test_what_is_no_secret(name, value):
    assert not is_secret(name, value)
    assert clean({name: value}) == {name: value}


def test_arguments_texts_and_addresses():
    assert clean(["serve", "--api-key", "abc", "--max-tokens", "64", "--port=1"]) == [
        "serve", "--api-key", HIDDEN, "--max-tokens", "64", "--port=1",
    ]  # fmt: skip
    assert clean("--api-key=abc123 --x 1") == f"--api-key={HIDDEN} --x 1"
    assert clean("run `x --max-tokens 1`, --n 2") == "run `x --max-tokens 1`, --n 2"
    assert clean("run --api-key abc123 --x 1") == f"run --api-key {HIDDEN} --x 1"
    assert clean('{"api_key": "abc123", "x": 1}') == f'{{"api_key": "{HIDDEN}", "x": 1}}'
    assert clean("https://me:pass@host/x") == f"https://{HIDDEN}@host/x"
    assert clean("got hf_abcdefghijklmnopqrstu here") == f"got {HIDDEN} here"
    assert clean({"a": [{"PASSWORD": "x", "n": 3}]}) == {"a": [{"PASSWORD": HIDDEN, "n": 3}]}


@pytest.mark.parametrize(
    "arguments",
    [
        ["serve", "--api-key", "swordfish", "swordfish", "m/swordfish", "--x"],
        ["serve", "--api-key", "sword=fish=", "swordfish="],
        ["env", "HF_TOKEN=a swordfish"],
        ["--password=a swordfish"],
        ["--config", '{"api_key": "a swordfish", "n": 1}'],
        ["--config", r'{"inner": "{\"api_key\": \"swordfish\"}"}'],
        ["--header", "Authorization: Bearer swordfish"],
        ["bash", "-c", "serve --password 'a swordfish' --port 1"],
        ["-c", "import os; os.environ['HF_TOKEN'] = 'swordfish'"],
        ["--config", '{"api_keys": ["a", "swordfish"], "n": 1}'],
    ],
)
def test_no_argument_shows_a_secret(arguments):
    shown = clean(arguments)
    assert "fish" not in str(shown)
    assert HIDDEN in str(shown)
    assert clean(shown) == shown


@pytest.mark.parametrize(
    "address",
    ["me:sword@fish@host/x", "me:sword/fish@host", ":swordfish@host:80", "swordfish@host", "me@there:sword@fish@host"],
)
def test_addresses_lose_all_that_signs_in(address):
    assert "fish" not in clean(f"git+https://{address}")
    assert "host" in clean(f"git+https://{address}")


def test_a_configuration_stays_readable():
    text = '{"eos_token_id": [\n 1,\n 2\n], "num_key_value_heads": 8, "image_token_index": 151655, "x": "a"}'
    assert clean(text) == text


def difference(path, *lines):
    return "\n".join([f"diff --git a/{path} b/{path}", "@@ -1 +1 @@", *lines])


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("a.py", '+os.environ["HF_TOKEN"] = "swordfish"'), ("a.py", '+    api_key: str = "swordfish"'),
        ("a.py", '+x = getenv("API_KEY", "swordfish")'), ("a.py", '+x = getenv("API_KEY") or "swordfish"'),
        ("a.py", '+headers = {"Authorization": "Bearer swordfish"}'), ("a.py", '+api_key = b"""swordfish"""'),
        ("a.py", '+x.setdefault(\n+    "HF_TOKEN",\n+    "swordfish",\n+)'), ("a.py", '+run("HF_TOKEN=swordfish x")'),
        ("a.py", '+run("serve --api-key swordfish")'), ("a.py", '+["--api-key", "swordfish"]'),
        (".env", "+HF_TOKEN=a swordfish"), ("a.yaml", " api_key: swordfish, too"),
        ("run.sh", "-export X_TOKEN=swordfish"), ("a.yaml", "+password: 'x'"),
        ("a.pem", "+-----BEGIN PRIVATE KEY-----\n+swordfish\n+-----END PRIVATE KEY-----"),
    ],
)  # fmt: skip
def test_a_difference_without_secrets(path, line):
    text = difference("first.py", "+    key = self.k_proj(x)") + "\n" + difference(path, line)
    shown = clean_code(text)
    assert HIDDEN in shown
    assert "fish" not in shown
    assert "'x'" not in shown
    assert shown.startswith(difference("first.py", "+    key = self.k_proj(x)"))
    assert clean_code(shown) == shown


def test_code_keeps_its_keys_and_loses_literals():
    assert clean_code("+    key = self.k_proj(x)") == "+    key = self.k_proj(x)"
    assert clean_code('+    api_key = "abcdef123"') == f'+    api_key = "{HIDDEN}"'

"""Work of the host for each token: turning it into text, counting it, passing it on between processes."""

from wingbeat.investigate.causes.shapes import BETWEEN_PHASES
from wingbeat.investigate.hypothesis import Cause, Watch

PACKAGES = (
    "tokenizers", "tiktoken", "sentencepiece", "mistral-common", "fastokens", "numpy", "pyzmq", "msgspec", "uvloop",
    "uvicorn", "fastapi", "orjson",
)  # fmt: skip
CAUSE = Cause(
    key="tokenizer",
    family="software",
    question="Does the host take longer to make text of tokens, and to pass it on?",
    predicts=(BETWEEN_PHASES,),
    watches=(
        *(Watch(f"installed.{name}") for name in PACKAGES),
        Watch("setting.tokenizer_*"),
        Watch("setting.*tokenizer_worker_num"),
        Watch("setting.skip_tokenizer_init"),
        Watch("setting.stream_interval"),
    ),
    decides=("python.packages", "setting.arguments"),
    shape="a constant for every cycle, and more with every request; the GPU's own times stay",
    see="`wingbeat fingerprint --pid` of the server",
    experiments=("library", "configuration"),
    near=2,
)

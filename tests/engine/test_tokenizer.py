"""The tokenizer of a .gguf file is read once, and what is kept is the same tokenizer."""

from wingbeat.engine.tokenizer import Tokenizer
from wingbeat.model.weights import locate_model

TEXT = "Why is the sky blue? Größe: 42 µm; 東京.\n\n```python\nprint('hi')\n```"


def test_the_kept_tokenizer_is_the_one_in_the_file(tmp_path):
    path, kept = locate_model(None), tmp_path / "kept"
    first = Tokenizer(path, kept)
    [folder] = kept.iterdir()
    second = Tokenizer(path, kept)
    assert list(kept.iterdir()) == [folder]
    messages = [{"role": role, "content": TEXT} for role in ("user", "assistant", "user")]
    for prompt, raw in ((TEXT, False), (TEXT, True), (messages, False)):
        assert first.encode(prompt, raw) == second.encode(prompt, raw)
    assert first.end_ids == second.end_ids
    assert first.open_turn() == second.open_turn()
    ids = first.encode(TEXT, raw=True)
    assert first.decode(ids) == second.decode(ids) == TEXT


def test_a_cache_that_cannot_be_written_is_no_error(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("")
    assert Tokenizer(locate_model(None), blocked / "below").encode("Hello")

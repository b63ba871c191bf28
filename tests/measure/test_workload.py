import json
from collections import Counter

import pytest

from wingbeat.errors import CorruptError, NotFoundError, UsageError
from wingbeat.measure import workload


@pytest.fixture
def write(tmp_path):
    def write(*lines):
        path = tmp_path / "questions.jsonl"
        path.write_text("\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines))
        return path

    return write


def question(name, category="", text="Why?"):
    return {"question_id": name, "category": category, "turns": [text, "And then?"]}


def test_bundled_prompts_are_three_of_each_of_eight_kinds():
    prompts = workload.bundled().prompts
    assert Counter(prompt.category for prompt in prompts) == dict.fromkeys(
        [
            "writing", "reasoning", "code", "maths", "extraction", "summary", "translation", "question answering",
        ],
        3,
    )
    lengths = [len(prompt.text.split()) for prompt in prompts]
    assert min(lengths) < 15
    assert max(lengths) > 100


def test_first_turn_is_the_prompt_and_blank_lines_do_not_matter(write):
    read = workload.read(write(question(81, "writing", "First?"), "", question(82, text="Second?")))
    assert [(prompt.id, prompt.category, prompt.text) for prompt in read.prompts] == [
        ("81", "writing", "First?"), ("82", "", "Second?"),
    ]
    assert read.name == "questions.jsonl"


def test_a_line_separator_inside_a_text_does_not_end_the_line(write):
    line = json.dumps(question(1, text="one\u2028two"), ensure_ascii=False)
    assert workload.read(write(line)).prompts[0].text == "one\u2028two"


def test_digest_follows_the_texts_and_not_the_categories(write):
    digest = workload.read(write(question(1, "a"), question(2, "a"))).digest
    assert workload.read(write(question(1, "b"), question(2, "a"))).digest == digest
    assert workload.read(write(question(1, text="Who?"), question(2))).digest != digest
    assert workload.read(write(question(2), question(1))).digest != digest


def test_a_subset_is_spread_over_the_categories(write):
    read = workload.read(write(*(question(f"{kind}{n}", kind) for kind in "abc" for n in range(3))))
    assert [prompt.id for prompt in read.take(4).prompts] == ["a0", "a1", "b0", "c0"]
    assert read.take(100) == read
    with pytest.raises(UsageError, match="at least 1"):
        read.take(0)


@pytest.mark.parametrize(
    ("lines", "error", "message"),
    [
        ([question(1), "{not json"], CorruptError, "line 2: not JSON"),
        ([question(1), '["list"]'], CorruptError, "line 2: 'turns'"),
        ([{"question_id": 1, "turns": []}], CorruptError, "line 1: 'turns'"),
        ([{"question_id": 1, "turns": ["  "]}], CorruptError, "line 1: 'turns'"),
        ([{"question_id": 1, "turns": "text"}], CorruptError, "line 1: 'turns'"),
        ([question(1), question(1)], CorruptError, "line 2: question_id '1' occurs a second time"),
        ([""], UsageError, "holds no questions"),
    ],
)
def test_a_bad_file_is_an_error_that_says_where(write, lines, error, message):
    with pytest.raises(error, match=message):
        workload.read(write(*lines))


def test_a_missing_or_binary_file_is_an_error_that_names_it(tmp_path):
    with pytest.raises(NotFoundError, match=r"nowhere\.jsonl"):
        workload.read(tmp_path / "nowhere.jsonl")
    binary = tmp_path / "binary.jsonl"
    binary.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(CorruptError, match="not UTF-8"):
        workload.read(binary)

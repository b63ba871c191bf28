"""Training text: every shape of conversation, tokens and masks, and a target that writes its own."""

from __future__ import annotations

import gzip
import json

import pytest

from wingbeat.errors import CorruptError, NotFoundError, UsageError
from wingbeat.training.data import Conversation, WritePlan, deduplicate, read_conversations, tokenise, write_text


class Letters:
    """A tokenizer of characters: a template of role marks (U, A, S) and a full stop that ends a turn."""

    end = ord(".")

    def encode(self, prompt):
        marked = "".join(message["role"][0].upper() + message["content"] + "." for message in prompt)
        return [ord(letter) for letter in marked + "A"]

    def continuation(self, text):
        return [ord(letter) for letter in text]


def text_of(sample):
    """The sample as text, the target's own tokens in brackets."""
    out, inside = "", False
    for token, own in zip(sample.tokens.tolist(), sample.mask.tolist(), strict=True):
        out += ("[" if own and not inside else "]" if inside and not own else "") + chr(token)
        inside = own
    return out + ("]" if inside else "")


def write_lines(path, entries):
    path.write_text("\n".join(json.dumps(entry) for entry in entries) + "\n")
    return path


def test_every_shape_is_read(tmp_path):
    path = write_lines(
        tmp_path / "text.jsonl",
        [
            {"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]},
            {"conversations": [{"from": "human", "value": "q2"}, {"from": "gpt", "value": "a2"}]},
            {"turns": ["q3", "q4"]},
            {"prompt": "q5"},
            {"prompt": "q6", "response": "a6"},
            {"user": "q7", "assistant": "a7", "temperature": 0.5, "finish": "length"},
        ],
    )
    found = read_conversations(path)
    said = [[message["content"] for message in item.messages] for item in found]
    assert said == [["q", "a"], ["q2", "a2"], ["q3", "q4"], ["q5"], ["q6", "a6"], ["q7", "a7"]]
    assert [item.is_open for item in found] == [False, False, True, True, False, False]
    assert (found[5].temperature, found[5].finished, found[0].finished) == (0.5, False, True)
    packed = tmp_path / "text.jsonl.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert read_conversations(packed) == found
    assert read_conversations(write_lines(tmp_path / "again", [json.loads(found[5].line())])) == [found[5]]


@pytest.mark.parametrize(
    "line",
    [
        '{"text": "x"}', "not json", '{"messages": []}', "[1]", '"a"',
        '{"messages": [{"role": "robot", "content": "x"}]}',
    ],
)
def test_a_line_without_a_conversation_is_named(tmp_path, line):
    path = tmp_path / "text.jsonl"
    path.write_text('{"prompt": "fine"}\n' + line + "\n")
    with pytest.raises(CorruptError, match="line 2"):
        read_conversations(path)
    with pytest.raises(NotFoundError):
        read_conversations(tmp_path / "missing")


def test_damaged_gzip_is_said(tmp_path):
    path = tmp_path / "text.jsonl.gz"
    path.write_bytes(gzip.compress(b'{"prompt": "q"}\n' * 1000)[:-20])
    with pytest.raises(CorruptError, match="cannot be read"):
        read_conversations(path)


def talk(*said, **rest):
    roles = ("user", "assistant")
    return Conversation(tuple({"role": roles[i % 2], "content": text} for i, text in enumerate(said)), **rest)


def test_answers_are_masked_with_their_end_token():
    (sample,) = tokenise(talk("hello", "world"), Letters(), 100, 100)
    assert text_of(sample) == "Uhello.A[world.]"
    (cut,) = tokenise(talk("hello", "world", finished=False), Letters(), 100, 100)
    assert text_of(cut) == "Uhello.A[world]"
    (short,) = tokenise(talk("hello", "world"), Letters(), 4, 100)
    assert text_of(short) == "Uhello.A[worl]"
    assert not list(tokenise(talk("hello", "no"), Letters(), 100, 100))
    assert not list(tokenise(talk("hello"), Letters(), 100, 100))
    (sampled,) = tokenise(talk("q", "answer", temperature=0.5), Letters(), 9, 99)
    assert (sample.greedy, sampled.greedy) == (True, False)


def test_turns_are_one_sample_unless_the_template_rewrites_history():
    (sample,) = tokenise(talk("one", "first", "two", "second"), Letters(), 100, 100)
    assert text_of(sample) == "Uone.A[first.]Utwo.A[second.]"

    class Forgetful(Letters):
        def encode(self, prompt):
            return super().encode(prompt[-1:])

    parts = tokenise(talk("one", "first", "two", "second"), Forgetful(), 100, 100)
    assert [text_of(part) for part in parts] == ["Uone.A[first.]", "Utwo.A[second.]"]


def test_repeated_questions_are_left_out():
    seen: set[str] = set()
    kept = list(deduplicate([talk("A  b", "x"), talk("a B", "y"), talk("c", "z")], seen))
    assert [item.messages[0]["content"] for item in kept] == ["A  b", "c"]
    assert not list(deduplicate([talk("C", "w")], seen))


class Writer:
    """Generation by rule: new questions "q0", "q1", ...; an answer repeats its prompt. Counts its calls."""

    def __init__(self, stale=False):
        self.asked, self.heats, self.stale = 0, [], stale

    def __call__(self, prompts, temperatures, max_tokens, seed):
        self.heats.append(tuple(temperatures))
        out = []
        for prompt in prompts:
            if prompt == [ord("U")]:
                out.append((f"q{0 if self.stale else self.asked}", True))
                self.asked += 1
            else:
                out.append(("re:" + "".join(map(chr, prompt)), max_tokens > 5))
        return out


def test_the_target_asks_and_answers_and_goes_on_where_it_was_killed(tmp_path):
    path = tmp_path / "out" / "text.jsonl"
    plan = WritePlan(count=5, batch=3, temperatures=(0.0, 0.0, 0.7))
    reports = []
    writer = Writer()
    assert write_text(path, plan, writer, Letters(), [ord("U")], lambda *report: reports.append(report)) == 5
    assert [count for count, _ in reports] == [3, 5]
    found = read_conversations(path)
    assert [item.messages[0]["content"] for item in found] == ["q0", "q1", "q2", "q3", "q4"]
    assert found[1].messages[1]["content"] == "re:Uq1.A"
    assert [item.temperature for item in found] == [0.0, 0.0, 0.7, 0.0, 0.0]
    with path.open("a") as stream:
        stream.write('{"messages": [{"ro')  # killed in the middle of a line
    assert write_text(path, WritePlan(count=7, batch=3), writer, Letters(), [ord("U")]) == 7
    assert len(read_conversations(path)) == 7
    assert write_text(path, WritePlan(count=7), writer, Letters(), [ord("U")]) == 7


def test_given_questions_are_answered_turn_by_turn(tmp_path):
    path = tmp_path / "text.jsonl"
    turns = Conversation(({"role": "user", "content": "a"}, {"role": "user", "content": "b"}))
    count = write_text(path, WritePlan(count=9), Writer(), Letters(), [turns, talk("c"), talk("C", "old answer")])
    assert count == 2
    first, second = read_conversations(path)
    assert [message["role"] for message in first.messages] == ["user", "assistant", "user", "assistant"]
    assert first.messages[3]["content"] == "re:Ua.Are:Ua.A.Ub.A"
    assert second.messages[1]["content"] == "re:Uc.A"


def test_an_answer_that_was_cut_ends_the_conversation(tmp_path):
    path = tmp_path / "text.jsonl"
    turns = Conversation(({"role": "user", "content": "a"}, {"role": "user", "content": "b"}))
    write_text(path, WritePlan(count=1, answer_tokens=5), Writer(), Letters(), [turns])
    (only,) = read_conversations(path)
    assert len(only.messages) == 2
    assert not only.finished


def test_a_model_that_repeats_itself_is_given_up(tmp_path):
    plan = WritePlan(count=5, batch=2, attempts=3)
    with pytest.raises(UsageError, match="nothing new"):
        write_text(tmp_path / "text.jsonl", plan, Writer(stale=True), Letters(), [ord("U")])
    assert len(read_conversations(tmp_path / "text.jsonl")) == 1

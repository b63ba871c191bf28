"""Questions for a draft head's training text, from public sets; the target answers them (`wingbeat train data`).

    python benchmarks/training_prompts.py FOLDER --exclude QUESTIONS... > prompts.jsonl

FOLDER holds what you have of: `gsm8k-train.jsonl` (openai/grade-school-math), `nq-open.jsonl` (NQ-open.dev, from
google-research-datasets/natural-questions), `mbpp.jsonl`, `t0/` (articles and dialogues to summarise),
`seed-tasks.jsonl` and `user-oriented.jsonl` (all three from yizhongw/self-instruct). Functions to complete also come
from Python's own library. A question that shares eight words in a row with one of QUESTIONS, the sets that a head is
evaluated on, is left out.
"""

from __future__ import annotations

import argparse
import ast
import json
import random
import re
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import Any

OVERLAP = 8  # words in a row
LONGEST = 2600  # characters of an article
HEADING = re.compile(r"^([^\n]{0,120}(summary|dialogue|dialog|document|article)[^\n]{0,60}|Summarize):\s")
FOLLOW_UPS = (
    "Rewrite your answer in half as many words.", "Now explain it to a child of ten.", "Give one more example.",
    "What is wrong with your answer? Correct it.", "Turn that into a list of bullet points.",
    "Write it again as a short poem.", "What would somebody say who disagrees?", "Summarise that in one sentence.",
    "Rewrite it as an email to a colleague.", "Which of these points matters most, and why?",
)  # fmt: skip


def lines(path: Path) -> list[dict[str, Any]]:
    """The lines of a set, none where it is missing."""
    return [json.loads(line) for line in path.read_text().splitlines() if line.strip()] if path.exists() else []


def word_problems(folder: Path) -> Iterator[list[str]]:
    for entry in lines(folder / "gsm8k-train.jsonl"):
        yield [entry["question"]]


def facts(folder: Path) -> Iterator[list[str]]:
    for entry in lines(folder / "nq-open.jsonl"):
        yield [entry["question"][0].upper() + entry["question"][1:] + "?"]


def functions(folder: Path) -> Iterator[list[str]]:
    """Stubs with a docstring and examples, and functions of the standard library cut after their docstring."""
    for entry in lines(folder / "mbpp.jsonl"):
        tests = [test.removeprefix("assert ") for test in entry["test_list"]]
        found = re.search(r"def\s+(\w+)\s*\(([^)]*)\)", entry["code"])
        if found and found[1] in tests[0]:
            doc = "\n".join(f"    {line}" for line in [entry["text"], *tests])
            yield [f'Complete the code I provided.\ndef {found[1]}({found[2].strip()}):\n    """\n{doc}\n    """\n']
        yield [f"{entry['text']} Your code should satisfy: {tests[0]}"]
    for path in sorted(Path(sysconfig.get_path("stdlib")).glob("*.py")):
        source = path.read_text(errors="replace")
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.FunctionDef) and ast.get_docstring(node) and node.col_offset == 0:
                stub = source.splitlines()[node.lineno - 1 : node.body[0].end_lineno]
                if len(stub) < 25:
                    yield ["Complete the code I provided.\n" + "\n".join(stub) + "\n"]


def articles(folder: Path) -> Iterator[list[str]]:
    for path in sorted((folder / "t0").glob("*.jsonl")):
        for place, entry in enumerate(lines(path)):
            text = max(re.split(r"\n\n+", entry["prompt"]), key=len).strip()
            text = HEADING.sub("", text)
            if len(text) > 300:
                yield [("Summarize: " if place % 4 else "Write a short summary of this text.\n\n") + text[:LONGEST]]


def instructions(folder: Path) -> Iterator[list[str]]:
    entries = lines(folder / "seed-tasks.jsonl") + lines(folder / "user-oriented.jsonl")
    for place, entry in enumerate(entries):
        given = str(entry["instances"][0].get("input", "")) if entry["instances"] else ""
        question = f"{entry['instruction']}\n{given}".strip()
        yield [question[:LONGEST], FOLLOW_UPS[place % len(FOLLOW_UPS)]] if place % 2 else [question[:LONGEST]]


SOURCES = {
    "word problems": word_problems, "facts": facts, "functions": functions, "articles": articles,
    "instructions": instructions,
}  # fmt: skip


def shingles(text: str) -> set[str]:
    words = re.findall(r"\w+", text.lower())
    return {" ".join(words[i : i + OVERLAP]) for i in range(max(1, len(words) - OVERLAP + 1))}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--each", type=int, default=700, help="questions of each kind at most")
    parser.add_argument("--exclude", type=Path, nargs="*", default=[], help="question sets that must not be touched")
    options = parser.parse_args()
    kept_out = {item for path in options.exclude for entry in lines(path) for turn in entry["turns"]
                for item in shingles(turn)}  # fmt: skip
    seen: set[str] = set()
    chosen: list[list[str]] = []
    for name, source in SOURCES.items():
        found = list(source(options.folder))
        random.Random(0).shuffle(found)
        kept: list[list[str]] = []
        for turns in found:
            start = turns[0][-200:].lower()  # articles of two sets may begin differently
            if start not in seen and not any(shingles(turn) & kept_out for turn in turns):
                seen.add(start)
                kept.append(turns)
        print(f"{name}: {len(found)} found, {len(kept)} usable, {len(kept[: options.each])} taken", file=sys.stderr)
        chosen += kept[: options.each]
    random.Random(1).shuffle(chosen)
    for turns in chosen:
        print(json.dumps({"turns": turns}, ensure_ascii=False))


if __name__ == "__main__":
    main()

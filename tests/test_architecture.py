"""The rules of the house, held by parsing the source: who imports whom, how big things are, what the public sees."""

import ast
import importlib
import itertools
import statistics
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer

import wingbeat
from wingbeat.cli.main import app

SOURCE = Path(wingbeat.__file__).parent
FILES = sorted(SOURCE.rglob("*.py"))

# What a room may import of wingbeat; its own modules always. "measure.record" allows that module alone.
IMPORTS = {
    "": {"errors", "engine.llm", "engine.request"},  # the package itself: its public names, lazily
    "errors": set(),
    "model": {"errors"},
    "engine": {"model", "errors"},
    "serving": {"engine", "errors"},
    "measure": {"probe", "errors"},
    "probe": {"errors"},
    "investigate": {"measure.record", "measure.stats", "measure.replicates", "measure.series", "probe", "errors"},
    "training": {"model", "errors"},
    "report": {"measure.record", "measure.stats", "measure.replicates", "investigate", "probe", "errors"},
    "cli": {"engine", "errors", "investigate", "measure", "model", "probe", "report", "serving", "training"},
}
MORE_IMPORTS = {  # one module of a room may import more than the room
    "measure.subjects": {"engine"},
    "measure.profiler": {"engine", "model"},  # runs forwards of both, one by one
    "report.profile": {"measure.roofline"},
    "report.plots": {"measure.roofline"},
}
WITHOUT_TORCH = {"errors", "probe", "investigate", "report", "measure", "cli", ""}  # while a module loads
HEAVY = {
    "torch", "numpy", "scipy", "matplotlib", "transformers", "safetensors", "gguf", "wingbeat.engine", "wingbeat.model",
}
FORBIDDEN_NAMES = {"utils", "util", "common", "core", "helpers", "helper", "misc"}

FILE_LINES, FUNCTION_LINES, FUNCTION_P95, NESTING, ARGUMENTS = 400, 80, 40, 3, 6
# "module:function" or "module": why it may exceed a budget. The commands may take more arguments: theirs are the flags.
EXCEPTIONS: dict[str, str] = {"engine.llm:__init__": "keywords, each a choice of its own"}

PUBLIC_NAMES = ["LLM", "SamplingParams", "errors"]

MODEL_FLAGS = ["--context", "--device", "--dtype", "--head", "--model"]
DRAFT_FLAGS = ["--nodes", "--speculate", "--topk"]
SAMPLING_FLAGS = ["--max-tokens", "--min-p", "--seed", "--temperature", "--top-k", "--top-p"]
FLAGS = {
    "": ["--version"],
    "generate": [
        "prompt", "--raw", "--drafter", "--stop", "--ignore-eos", "--weights", "--verify-path", "--eager",
        *MODEL_FLAGS, *DRAFT_FLAGS, *SAMPLING_FLAGS,
    ],
    "chat": ["--drafter", "--weights", "--verify-path", "--eager", *MODEL_FLAGS, *DRAFT_FLAGS, *SAMPLING_FLAGS],
    "bench": [
        "--prompts", "--limit", "--rounds", "--launches", "--arms", "--name", "--store", "--json", "--temperature",
        "--seed", "--max-tokens", "--weights", "--eager", *MODEL_FLAGS, *DRAFT_FLAGS,
    ],
    "bench-launch": ["path"],
    "compare": ["before", "after", "--history", "--same-within", "--plot", "--store", "--json"],
    "fingerprint": [
        "names", "--out", "--json", "--pid", "--ssh", "--model", "--head", "--under-load", "--seconds", "--command",
        "--force", "--store", "--timeout",
    ],
    "explain": ["run", "--same-within", "--store", "--json"],
    "investigate": [
        "before", "after", "--tried", "--run-experiments", "--yes", "--same-within", "--format", "--out", "--store",
    ],
    "info": ["path", "--json", "--model"],
    "plot": ["runs", "--out", "--store"],
    "profile": [
        "--run", "--store", "--widths", "--contexts", "--repeats", "--eager", "--limit", "--arms", "--trace", "--plot",
        "--json", "--max-tokens", "--weights", *MODEL_FLAGS, "--steps", "--topk", "--nodes",
    ],
    "runs": [],
    "runs list": ["--store", "--json"],
    "runs show": ["run", "--store", "--json"],
    "runs rename": ["run", "new_name", "--store"],
    "runs remove": ["names", "--store"],
    "runs export": ["run", "out", "--table", "--store"],
    "runs import": ["files", "--name", "--format", "--arm", "--seconds", "--fingerprint", "--store"],
    "runs add-fingerprint": ["run", "files", "--store"],
    "runs new": [
        "name", "--arm", "--tokens-per-second", "--tokens-per-cycle", "--cycle-ms", "--draft-ms", "--verify-ms",
        "--accept-ms", "--commit-ms", "--extend-ms", "--host-ms", "--ttft-ms", "--tpot-ms", "--steps", "--context",
        "--running", "--acceptance", "--note", "--model", "--fingerprint", "--store",
    ],
    "train": [],
    "train data": [
        "model", "--out", "--count", "--prompts", "--temperatures", "--answer-tokens", "--batch", "--seed", "--dtype",
        "--device",
    ],
    "train capture": [
        "text", "--out", "--model", "--taps", "--answer-tokens", "--longest", "--shard-samples", "--dtype", "--device",
    ],
    "train head": [
        "source", "--out", "--model", "--init", "--draft-vocab", "--taps", "--ttt-steps", "--decay", "--curriculum",
        "--epochs", "--minutes", "--rate", "--warmup", "--floor", "--clip", "--batch-tokens", "--accumulate",
        "--held-out", "--evaluate-every", "--answer-tokens", "--longest", "--resume", "--format", "--seed",
        "--precision", "--device",
    ],
    "train eval": [
        "head", "--prompts", "--model", "--limit", "--steps", "--topk", "--nodes", "--max-tokens", "--json", "--dtype",
        "--device", "--weights",
    ],
}

Function = ast.FunctionDef | ast.AsyncFunctionDef
BLOCKS = (ast.If, ast.For, ast.AsyncFor, ast.While, ast.With, ast.AsyncWith, ast.Try, ast.Match)


def module_name(path: Path) -> str:
    """The module's name inside wingbeat: "" for the package itself, "model.layers", "engine.drafters"."""
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return ".".join(part for part in parts if part != "__init__")


def room(module: str) -> str:
    return module.partition(".")[0]


def parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


def imported(tree: ast.AST) -> Iterator[str]:
    """Every module that a file imports, wherever in it; `from a import b` counts as a and as a.b."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def functions(path: Path) -> Iterator[tuple[str, Function]]:
    for node in ast.walk(parse(path)):
        if isinstance(node, Function):
            yield f"{module_name(path)}:{node.name}", node


ALL_FUNCTIONS = [pair for path in FILES for pair in functions(path)]


def within(module: str, allowed: str) -> bool:
    return module == allowed or module.startswith(f"{allowed}.")


@pytest.mark.parametrize("path", FILES, ids=module_name)
def test_rooms_import_only_what_the_table_allows(path):
    module = module_name(path)
    assert room(module) in IMPORTS, f"a new room: give {room(module)!r} a line in IMPORTS and in docs/architecture.md"
    allowed = IMPORTS[room(module)] | MORE_IMPORTS.get(module, set())
    for name in imported(parse(path)):
        if not within(name, "wingbeat"):
            continue
        inner = name.removeprefix("wingbeat").removeprefix(".")
        own = room(inner) == room(module)
        assert own or any(within(inner, one) for one in allowed), f"{module} must not import {name}"


def loading_imports(tree: ast.Module) -> Iterator[str]:
    """What is imported when the module is: not inside functions, not under TYPE_CHECKING."""
    pending: list[ast.AST] = [tree]
    while pending:
        node = pending.pop()
        yield from imported(ast.Module([node], [])) if isinstance(node, ast.Import | ast.ImportFrom) else ()
        if isinstance(node, Function) or (isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)):
            continue
        pending.extend(ast.iter_child_nodes(node))


@pytest.mark.parametrize("path", FILES, ids=module_name)
def test_only_the_rooms_of_the_engine_load_torch(path):
    if room(module_name(path)) in WITHOUT_TORCH:
        loaded = [name for name in loading_imports(parse(path)) if any(within(name, one) for one in HEAVY)]
        assert not loaded, f"{module_name(path)} loads {loaded}; import it in the function that needs it"


@pytest.mark.parametrize("path", [path for path in FILES if room(module_name(path)) == "probe"], ids=module_name)
def test_probes_load_only_the_standard_library(path):
    outside = {name.partition(".")[0] for name in loading_imports(parse(path))} - sys.stdlib_module_names
    assert outside <= {"wingbeat"}


@pytest.mark.parametrize("path", FILES, ids=module_name)
def test_every_module_can_be_imported(path):
    importlib.import_module(f"wingbeat.{module_name(path)}".rstrip("."))


@pytest.mark.parametrize("path", FILES, ids=module_name)
def test_a_file_is_not_too_long_and_says_what_it_is(path):
    lines = len(path.read_text(encoding="utf-8").splitlines())
    assert lines <= FILE_LINES or module_name(path) in EXCEPTIONS
    assert not lines or ast.get_docstring(parse(path)), f"{module_name(path)} does not say what lives there"


def test_no_room_for_things_without_a_place():
    names = {part for path in FILES for part in path.relative_to(SOURCE).with_suffix("").parts}
    assert not names & FORBIDDEN_NAMES


def test_functions_are_short():
    lengths = {name: node.end_lineno - node.lineno + 1 for name, node in ALL_FUNCTIONS}
    long = {name: length for name, length in lengths.items() if length > FUNCTION_LINES and name not in EXCEPTIONS}
    assert not long
    assert statistics.quantiles(lengths.values(), n=20)[-1] <= FUNCTION_P95


def depth(node: ast.AST, is_elif: bool = False) -> int:
    """How many blocks are nested in a node; an elif stands beside its if, a nested function begins anew."""
    inner = 0
    for name, value in ast.iter_fields(node):
        children = [child for child in (value if isinstance(value, list) else [value]) if isinstance(child, ast.AST)]
        elif_here = isinstance(node, ast.If) and name == "orelse" and len(children) == 1
        for child in children:
            if not isinstance(child, Function):
                inner = max(inner, depth(child, elif_here and isinstance(child, ast.If)))
    return inner + (isinstance(node, BLOCKS) and not is_elif)


def test_nesting_is_shallow():
    deep = {name: depth(node) for name, node in ALL_FUNCTIONS if depth(node) > NESTING and name not in EXCEPTIONS}
    assert not deep


def walk_commands(command, name: str = ""):
    """Every command below this one, by name."""
    yield name, command
    for inner, child in getattr(command, "commands", {}).items():
        yield from walk_commands(child, f"{name} {inner}".strip())


COMMANDS = dict(walk_commands(typer.main.get_command(app)))


def test_functions_take_few_arguments():
    callbacks = [command.callback for command in COMMANDS.values() if command.callback]
    commands = {f"{callback.__module__.removeprefix('wingbeat.')}:{callback.__name__}" for callback in callbacks}
    many = {}
    for name, node in ALL_FUNCTIONS:
        arguments = node.args.posonlyargs + node.args.args + node.args.kwonlyargs
        count = sum(argument.arg not in ("self", "cls") for argument in arguments)
        if count > ARGUMENTS and name not in EXCEPTIONS and name not in commands:
            many[name] = count
    assert not many


def test_every_function_has_a_return_type():
    assert not [name for name, node in ALL_FUNCTIONS if node.returns is None]


def public_definitions(path: Path) -> Iterator[tuple[str, ast.AST]]:
    for node in parse(path).body:
        if isinstance(node, Function | ast.ClassDef) and not node.name.startswith("_"):
            yield f"{module_name(path)}:{node.name}", node


def test_public_functions_and_classes_say_what_they_are():
    definitions = itertools.chain.from_iterable(map(public_definitions, FILES))
    assert not [name for name, node in definitions if not ast.get_docstring(node)]


def test_public_names():
    assert wingbeat.__all__ == PUBLIC_NAMES
    assert all(getattr(wingbeat, name) is not None for name in PUBLIC_NAMES)
    with pytest.raises(AttributeError, match="nonsense"):
        wingbeat.nonsense  # noqa: B018


def flags(command) -> list[str]:
    """A command's arguments and options, without --help."""
    options = [option for parameter in command.params for option in (parameter.opts or [parameter.name])]
    return sorted(option for option in options if option != "--help")


def test_command_line_flags_are_the_frozen_list():
    assert {name: flags(command) for name, command in COMMANDS.items()} == {
        name: sorted(frozen) for name, frozen in FLAGS.items()
    }

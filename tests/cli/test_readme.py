"""What the README tells people to type exists."""

import re
import shlex
from pathlib import Path

import pytest
import typer

from wingbeat.cli.main import app

README = Path(__file__).parents[2] / "README.md"
BLOCKS = re.findall(r"```\n(.*?)```", README.read_text(encoding="utf-8"), re.S)
LINES = [line[line.index("wingbeat ") :] for block in BLOCKS for line in block.splitlines() if "wingbeat " in line]


@pytest.mark.parametrize("line", LINES)
def test_a_command_line_of_the_readme_can_be_read(line):
    _, *arguments = shlex.split(line, comments=True)
    command = typer.main.get_command(app)
    while arguments and arguments[0] in getattr(command, "commands", {}):
        command = command.commands[arguments.pop(0)]
    assert not getattr(command, "commands", {}), f"no such command in {line!r}"
    command.make_context("wingbeat", arguments)


COMMANDS = typer.main.get_command(app).commands


@pytest.mark.parametrize("name", [name for name, command in COMMANDS.items() if not command.hidden])
def test_every_command_has_an_example(name):
    assert any(line.split()[1] == name for line in LINES) or f"`wingbeat {name} " in README.read_text(encoding="utf-8")

"""Each command of the runbook is one that there is, with the options that it names."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest

from speed.cli.app import speed
from speed.daemon.command import speedd

RUNBOOK = Path(__file__).parents[2] / "docs" / "howto" / "runbook.md"
COMMANDS: dict[str, click.Command] = {"speed": speed, "speedd": speedd}


def commands_of(page: str) -> list[str]:
    """What stands in back quotes, or at the beginning of a line of a block."""
    quoted = re.findall(r"`(speedd? [^`]+)`", page)
    typed = re.findall(r"^(speedd? [^#\n]+)", page, re.MULTILINE)
    return sorted({one.strip() for one in (*quoted, *typed)} - {"speed status` tells"})


@pytest.mark.parametrize("command", commands_of(RUNBOOK.read_text(encoding="utf-8")))
def test_a_command_of_the_runbook_is_there(command: str) -> None:
    program, *words = command.split()
    found, context = COMMANDS[program], click.Context(COMMANDS[program], info_name=program)
    while isinstance(found, click.Group) and words:
        name = words.pop(0)
        following = found.get_command(context, name)
        assert following is not None, f"there is no {name!r} in {command!r}"
        found, context = following, click.Context(following, info_name=name, parent=context)
    known = {option for one in found.params for option in (*one.opts, *one.secondary_opts)}
    assert {word for word in words if word.startswith("-")} <= known | {"--root", "--key", "--json"}


def test_the_runbook_names_some_commands() -> None:
    assert len(commands_of(RUNBOOK.read_text(encoding="utf-8"))) > 20

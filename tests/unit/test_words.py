"""The table of words (docs/reference/words.md) says what is in the code: each name is there, and so is each default."""

from __future__ import annotations

import inspect
import re
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import click
import pytest

import speed
from speed.cli.app import speed as command_line

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "reference" / "words.md").read_text("utf-8")
PUBLIC = {
    "C++": ("bindings/cpp/include", ".hpp"),
    "Java": ("bindings/java/src/main/java/speed", ".java"),
    "contract": ("registry_spec", ".md"),
}


def rows(heading: str) -> list[dict[str, str]]:
    """The rows of the table under a heading, by the names of its columns."""
    section = PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    lines = [line.strip()[1:-1].split("|") for line in section.splitlines() if line.startswith("|")]
    table = [[cell.strip() for cell in line] for line in lines]
    return [dict(zip(table[0], cells, strict=False)) for cells in table[2:]]


def named(cell: str | None) -> list[str]:
    return re.findall(r"`([^`]+)`", cell or "")


@cache
def text_of(kind: str) -> str:
    """All that a language declares for programs."""
    place, suffix = PUBLIC[kind]
    files = (one for one in (ROOT / place).rglob(f"*{suffix}") if "internal" not in one.parts)
    return "\n".join(one.read_text("utf-8") for one in files)


def has(kind: str, name: str) -> bool:
    """Whether each part of a name is declared somewhere: `SendOptions::ack` is two."""
    return all(re.search(rf"\b{re.escape(part)}\b", text_of(kind)) for part in re.split(r"::|\.", name))


def option(name: str, default_verb: str = "__init__") -> inspect.Parameter:
    """`lease_seconds` of a node, or `call(timeout=)`."""
    found = re.fullmatch(r"(\w+)\((\w+)=\)", name)
    verb, parameter = found.groups() if found else (default_verb, name)
    return inspect.signature(getattr(speed.Node, verb)).parameters[parameter]


def is_in_python(name: str) -> bool:
    """A public name, a module, a member of a class, or an option of a node."""
    if name in inspect.signature(speed.Node).parameters:
        return True
    where: Any = speed
    parts = name.split(".")
    if parts[0] == "speed":
        module = name if len(parts) == 2 else name.rpartition(".")[0]
        where, parts = import_module(module), parts[2:]
    for part in parts:
        where = getattr(where, part, None)
    return where is not None


THINGS = rows("Things")
VERBS = rows("Options of a verb")


def test_the_page_has_its_tables() -> None:
    assert len(THINGS) > 30
    assert len(VERBS) > 8


def test_each_python_name_of_a_thing_is_public() -> None:
    assert [name for row in THINGS for name in named(row["Python"]) if not is_in_python(name)] == []


@pytest.mark.parametrize("kind", PUBLIC)
def test_each_other_name_is_there(kind: str) -> None:
    table = [*THINGS, *VERBS]
    assert [name for row in table for name in named(row.get(kind)) if not has(kind, name)] == []


def is_listed(words: list[str]) -> bool:
    """Whether help lists a command: `root init`."""
    found: click.Command | None = command_line
    for word in words:
        assert isinstance(found, click.Group)
        found = found.get_command(click.Context(found), word)
    return found is not None and not found.hidden


def test_each_command_is_there() -> None:
    told = {name for row in THINGS for name in named(row["command line"])}
    assert sorted(name for name in told if not is_listed(name.split()[1:])) == []


@pytest.mark.parametrize("row", VERBS, ids=lambda row: row["what"])
def test_each_default_that_is_a_value_is_that_of_python(row: dict[str, str]) -> None:
    name, value = named(row["Python"])[0], row["default"]
    default = option(name).default
    if re.fullmatch(r"`\d+`", value):
        assert default in (float(value.strip("`")), None)  # None: the engine's, which the tests of calls look at
    elif value == "no":
        assert default in (False, "process", "auto")
    elif value == "none":
        assert default == ()

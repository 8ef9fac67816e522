"""The page of the commands `speed` and `speedd`, from what `--help` says."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

import click

from scripts.reference.cells import cell
from speed.cli.app import speed
from speed.daemon.command import speedd

INTRODUCTION = """# Commands

`speed` looks at nodes, calls their services and keeps a root in order; `speedd` hosts services and supervises
processes. `--help` says the same as this page.
"""


def page() -> str:
    """The whole page in Markdown."""
    return "\n".join([INTRODUCTION, *_group(speed, "speed"), *_group(speedd, "speedd")])


def _group(group: click.Group, name: str) -> Iterator[str]:
    yield from _command(group, name, None, "##")


def _command(command: click.Command, name: str, parent: click.Context | None, heading: str) -> Iterator[str]:
    """A command, and after it those below it."""
    context = click.Context(command, parent=parent, info_name=name.rpartition(" ")[2])
    yield f"{heading} {name}\n\n{_text(command.help)}\n"
    usage = " ".join(command.collect_usage_pieces(context))
    yield f"```text\n{name} {usage}\n```\n"
    yield from _options(command, context)
    if command.epilog:
        yield f"```text\n{_text(command.epilog)}\n```\n"
    if isinstance(command, click.Group):
        for child in command.list_commands(context):
            below = command.get_command(context, child)
            assert below is not None, child
            yield from _command(below, f"{name} {child}", context, "###")


def _options(command: click.Command, context: click.Context) -> Iterator[str]:
    records = [one.get_help_record(context) for one in command.get_params(context)]
    told = [record for record in records if record and record[1] and "--help" not in record[0]]
    rows = [f"| {cell(f'`{names}`')} | {cell(says)} |" for names, says in told]
    if rows:
        yield "\n".join(["| option | |", "|---|---|", *rows, ""])


def _text(text: str | None) -> str:
    """Help as it is written, without click's mark against wrapping."""
    return "\n".join(line for line in inspect.cleandoc(text or "").splitlines() if line.strip() != "\b").strip()

"""``speed schema``: may a new schema take the place of an old one (M-29)?"""

from __future__ import annotations

import click

from speed.cli.output import echo, print_value
from speed.message.schemas import MODES, incompatibilities
from speed.trust.schemas import read_schema


@click.group("schema")
def schema_command() -> None:
    """Compare schemas of payloads."""


@schema_command.command("check")
@click.argument("old", type=click.Path(exists=True, dir_okay=False))
@click.argument("new", type=click.Path(exists=True, dir_okay=False))
@click.option("--mode", type=click.Choice(MODES), default="backward", show_default=True, help="who must read what")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def check_command(context: click.Context, old: str, new: str, mode: str, as_json: bool) -> None:
    """Say whether NEW is compatible with OLD: exit status 0 if it is, 1 if not.

    backward: readers of NEW read what writers of OLD wrote. forward: readers of OLD read what writers of NEW write.
    Files end in .json (JSON Schema), .avsc (Avro) or .desc (protobuf, made by protoc -o).
    """
    problems = incompatibilities(read_schema(old), read_schema(new), mode)
    if as_json:
        print_value({"mode": mode, "compatible": not problems, "problems": problems}, True)
    else:
        for problem in problems:
            echo(problem)
        echo(f"{'NOT compatible' if problems else 'compatible'} ({mode})")
    context.exit(1 if problems else 0)

"""``speed schema``: may a new schema take the place of an old one, and who still uses what is old (M-29, M-37)?"""

from __future__ import annotations

import os
from collections.abc import Iterable
from datetime import datetime, timezone
from typing import Any

import click

from speed.cli.output import echo, print_rows, print_value
from speed.message.schemas import MODES, incompatibilities
from speed.trust.schemas import read_schema
from speed.trust.usage import Use, read_usage

_ENDING = ".json"


@click.group("schema")
def schema_command() -> None:
    """Compare schemas of payloads, and see who uses old ones."""


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


@schema_command.command("usage")
@click.argument("places", nargs=-1, required=True, type=click.Path(exists=True))
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def usage_command(places: tuple[str, ...], as_json: bool) -> None:
    """List who wrote or read deprecated fields and old versions of schemas.

    PLACES are files of a SchemaUsage, or directories with such files. A row without a field is about a version; one
    without a consumer about what a node wrote.
    """
    rows = _listed(_merged(_files(places)))
    if as_json:
        print_value(rows, True)
        return
    columns = [*Use._fields, "messages", "last"]
    print_rows(columns, [[row[name] for name in columns] for row in rows], empty="nothing old was used")


def _files(places: Iterable[str]) -> list[str]:
    found: list[str] = []
    for place in places:
        if os.path.isdir(place):
            found += sorted(entry.path for entry in os.scandir(place) if entry.name.endswith(_ENDING))
        else:
            found.append(place)
    return found


def _merged(files: Iterable[str]) -> dict[Use, tuple[int, int]]:
    """What several processes counted, added up."""
    merged: dict[Use, tuple[int, int]] = {}
    for file in files:
        for use, (messages, last_ms) in read_usage(file).items():
            before, last = merged.get(use, (0, 0))
            merged[use] = before + messages, max(last, last_ms)
    return merged


def _listed(uses: dict[Use, tuple[int, int]]) -> list[dict[str, Any]]:
    return [
        {**use._asdict(), "messages": messages, "last": _time(last_ms)}
        for use, (messages, last_ms) in sorted(uses.items())
    ]


def _time(unix_ms: int) -> str:
    return datetime.fromtimestamp(unix_ms / 1000, timezone.utc).isoformat(timespec="seconds")

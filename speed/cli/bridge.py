"""``speed bridge``: what the bridges of a speedd do, as it tells."""

from __future__ import annotations

from typing import Any

import click

from speed.cli.options import Settings, node_options
from speed.cli.output import answer_of, echo, print_rows, print_value

COLUMNS = ("bridge", "source", "target", "topics", "state", "lag", "carried", "dead", "dropped")


@click.group("bridge")
def bridge_command() -> None:
    """See messages on their way between a root and backends."""


@bridge_command.command("list")
@click.option("--host", default="speedd", show_default=True, help="The node of the speedd that has the bridges.")
@node_options
def list_command(settings: Settings, host: str) -> None:
    """List bridges with their state, how many messages wait, and what is wrong."""
    with settings.node() as node:
        bridges = node.call(host, "bridges.list")
    if settings.as_json:
        print_value(bridges, True)
        return
    with answer_of(host):
        print_rows(COLUMNS, [[_cell(one[column]) for column in COLUMNS] for one in bridges], empty="No bridges.")
        for one in bridges:
            if one["trouble"]:
                echo(f"{one['bridge']}: {one['trouble']}", error=True)


def _cell(value: Any) -> Any:
    return "" if value is None else value

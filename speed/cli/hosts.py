"""``speed hosts``: the hosts that this one is joined with, as the gateway of the root sees them."""

from __future__ import annotations

from typing import Any

import click

from speed.cli.options import Settings, node_options
from speed.cli.output import answer_of, echo, print_rows, print_value
from speed.wire.hosts import GATEWAY

COLUMNS = ("host", "state", "round trip", "waiting", "key")


@click.command("hosts")
@node_options
def hosts_command(settings: Settings) -> None:
    """List other hosts, whether they answer, and how many calls to them wait.

    speedd must have [hosts], and allow this command there.
    """
    with settings.node() as node:
        told = node.call(GATEWAY, "list")
    if settings.as_json:
        print_value(told, True)
        return
    with answer_of(GATEWAY):
        print_rows(COLUMNS, [_row(one) for one in told["hosts"]], empty="No other hosts.")
        echo(f"This host is {told['name']}. NATS: {told['broker']}.", error=True)


def _row(one: dict[str, Any]) -> list[Any]:
    state, round_trip = ("up", f"{one['roundTripMs']:.1f} ms") if one["up"] else ("away", "")
    return [one["host"], state, round_trip, one["waiting"], one["keyId"]]

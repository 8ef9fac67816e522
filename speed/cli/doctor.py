"""``speed doctor``: examine a root and this machine, and say what to do."""

from __future__ import annotations

from dataclasses import asdict

import click

from speed.cli.finding import Finding
from speed.cli.options import Settings, node_options
from speed.cli.output import print_rows, print_value


@click.command("doctor")
@click.option("--node", metavar="NAME", help="Ping, call and examine this node instead; for who writes one.")
@node_options
def doctor_command(settings: Settings, node: str | None) -> int:
    """Examine filesystem, bells, permissions, clock, inotify limits, registry and leftovers.

    With --node: one node's entry, claim, heartbeat, lanes, cursors and quarantine, held to the contract. It is pinged
    and called, and sent one message of the topic `speed.doctor`, so it must allow this command.

    Ends with status 8 when nodes cannot write or read here, with 1 when something else is broken; warnings alone do
    not fail.
    """
    findings = _findings(settings, node)
    broken = any(finding.state == "broken" for finding in findings)
    if settings.as_json:
        print_value({"healthy": not broken, "findings": [asdict(finding) for finding in findings]}, True)
    else:
        rows = [(one.state, one.check, one.found, one.todo) for one in findings]
        print_rows(("", "check", "found", "what to do"), rows, title=node or settings.root)
    return 8 if any(finding.code for finding in findings) else int(broken)


def _findings(settings: Settings, node: str | None) -> list[Finding]:
    if node is not None:
        from speed.cli.node_checks import examine_node

        return examine_node(settings, node)
    from speed.cli.checks import examine

    return examine(settings)

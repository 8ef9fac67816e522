"""``speed gc``: remove what dead nodes left behind, and only that."""

from __future__ import annotations

from typing import Any

import click

from speed.cli.leftovers import Leftover, find_leftovers, remove
from speed.cli.options import Settings, common_options, span
from speed.cli.output import bytes_text, echo, print_rows, print_value


@click.command("gc")
@click.option("--dry-run", is_flag=True, help="Only say what would be removed.")
@click.option(
    "--quarantine-hours",
    type=span("hours", 0),
    default=24.0,
    show_default=True,
    help="Keep what was refused for so long.",
)
@common_options
def gc_command(settings: Settings, dry_run: bool, quarantine_hours: float) -> None:
    """Remove stale entries, old claims, temporary and quarantined files, ephemeral nodes, empty lanes of dead nodes.

    Messages that wait for a node to come back, and all that belongs to a live node, stay.
    """
    registry = settings.registry()
    found = find_leftovers(registry, quarantine_hours * 3600)
    rows = [(one, "kept" if not one.removable else "would go" if dry_run else "") for one in found]
    if not dry_run:
        rows = [(one, state or _remove(registry, one)) for one, state in rows]
    if settings.as_json:
        print_value({"dryRun": dry_run, "leftovers": [_described(one, state) for one, state in rows]}, True)
        return
    columns = ("", "what", "bytes", "path", "why")
    table = [(state, one.kind, one.size, one.path, one.reason) for one, state in rows]
    print_rows(columns, table, empty="Nothing was left behind.")
    gone = [one for one, state in rows if state in ("removed", "would go")]
    if gone:
        verb = "would be removed" if dry_run else "removed"
        echo(f"{len(gone)} {verb}, {bytes_text(sum(one.size for one in gone))}.")


def _remove(registry: Any, leftover: Leftover) -> str:
    return "removed" if remove(registry, leftover) else "kept"


def _described(leftover: Leftover, state: str) -> dict[str, Any]:
    return {
        "kind": leftover.kind,
        "path": leftover.path,
        "bytes": leftover.size,
        "state": state,
        "reason": leftover.reason,
    }

"""``speed root doctor``, ``gc`` and ``purge``: examine a root, and remove what nodes left behind in it."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from speed.cli.options import Settings, echo, node_options, print_rows, print_value

if TYPE_CHECKING:
    pass

import os
from typing import Any

from speed.cli.options import common_options, span
from speed.core.access import Verdict
from speed.errors import NameTakenError, StorageError
from speed.fs.registry import Registry
from speed.observe import Finding, bytes_text
from speed.observe.leftovers import LeftFiles, Leftover, find_leftovers, left_of, listed, remove_leftover, remove_node
from speed.observe.root import examine
from speed.observe.speedd import daemon_troubles
from speed.wire import names


@click.command("doctor")
@click.option("--node", metavar="NAME", help="Ping, call and examine this node instead; for who writes one.")
@node_options
def doctor_command(settings: Settings, node: str | None) -> int:
    """Examine filesystem, bells, permissions, clock, inotify limits, registry, grants and leftovers; ask speedd.

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

    return [*examine(settings.root, settings.key), *daemon_troubles(settings.root)]


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
    return "removed" if remove_leftover(registry, leftover) else "kept"


def _described(leftover: Leftover, state: str) -> dict[str, Any]:
    return {
        "kind": leftover.kind,
        "path": leftover.path,
        "bytes": leftover.size,
        "state": state,
        "reason": leftover.reason,
    }


@click.command("purge")
@click.argument("node")
@click.option("--dry-run", is_flag=True, help="Only say what would be removed.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@common_options
def purge_command(settings: Settings, node: str, dry_run: bool, yes: bool) -> None:
    """Remove all that is left of NODE: messages that wait for it, dead letters, segments, its entry.

    A live node is refused. What NODE sent to others, and its last claim, stay.
    """
    registry = settings.registry()
    _check(registry, node)
    left = [one for one in left_of(registry, node) if one.files]
    if not settings.as_json:
        print_rows(("what", "files", "bytes"), left, empty=f"Nothing is left of {node}.")
    if left and not dry_run:
        if not yes:
            if settings.as_json:
                raise click.UsageError("with --json nobody is asked: give --yes or --dry-run")
            click.confirm(f"Remove all of this of {node} for ever?", abort=True, err=True)
        remove_node(registry, node)
    _tell(settings, node, left, dry_run)


def _tell(settings: Settings, node: str, left: list[LeftFiles], dry_run: bool) -> None:
    if settings.as_json:
        print_value({"node": node, "dryRun": dry_run, "left": [one._asdict() for one in left]}, True)
    elif left:
        size = bytes_text(sum(one.size for one in left))
        echo(f"{sum(one.files for one in left)} files {'would be ' * dry_run}removed, {size}.")


def _check(registry: Registry, node: str) -> None:
    names.check_node_name(node)
    directory = names.node_dir(registry.root, node)
    if os.path.islink(directory):
        raise StorageError(f"{directory} cannot be removed: it is a link, which you can remove yourself")
    if names.JOURNAL_LOCK in listed(directory):
        raise click.UsageError(f"{node} is a journal and no node")
    entry, verdict = registry.verdict(node)
    if entry is not None and verdict is Verdict.LIVE and not registry.process_gone(entry):
        raise NameTakenError(f"{node!r} is alive: process {entry.pid} on {entry.host}; stop it before")

"""``speed purge``: remove all that is left of one node that is not alive."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import click

from speed.cli.options import Settings, common_options
from speed.cli.output import bytes_text, echo, print_rows, print_value
from speed.core.lease import Verdict
from speed.errors import NameTakenError, StorageError
from speed.wire import names

if TYPE_CHECKING:
    from speed.fs.registry import Registry


class Left(NamedTuple):
    """So many files of one kind."""

    what: str
    files: int
    size: int


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
        remove(registry, node)
    _tell(settings, node, left, dry_run)


def _tell(settings: Settings, node: str, left: list[Left], dry_run: bool) -> None:
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
    if names.JOURNAL_LOCK in _listed(directory):
        raise click.UsageError(f"{node} is a journal and no node")
    entry, verdict = registry.verdict(node)
    if entry is not None and verdict is Verdict.LIVE and not registry.process_gone(entry):
        raise NameTakenError(f"{node!r} is alive: process {entry.pid} on {entry.host}; stop it before")


def left_of(registry: Registry, node: str) -> Iterator[Left]:
    """What stands in the directory of a node, by kind, and its entry."""
    own = names.node_dir(registry.root, node)
    kinds = {
        "waiting messages": names.inbox_dir(registry.root, node),
        "dead letters": names.dead_letters_dir(registry.root, node),
        "quarantined files": names.quarantine_dir(registry.root, node),
        "segments": names.segments_dir(registry.root, node),
    }
    counted = 0
    for what, directory in kinds.items():
        sizes = list(_sizes(directory))
        counted += len(sizes)
        yield Left(what, len(sizes), sum(sizes))
    others = list(_sizes(own))
    yield Left("other files", len(others) - counted, sum(others) - sum(map(sum, map(_sizes, kinds.values()))))
    entry = names.entry_path(registry.root, node)
    yield Left("entry", int(os.path.lexists(entry)), os.path.getsize(entry) if os.path.lexists(entry) else 0)


def _sizes(directory: str) -> Iterator[int]:
    for path, _, files in os.walk(directory):
        for file in files:
            try:
                yield os.lstat(names.child_path(path, file)).st_size
            except FileNotFoundError:
                continue  # somebody else was quicker


def _listed(directory: str) -> list[str]:
    try:
        return os.listdir(directory)
    except OSError:
        return []


def remove(registry: Registry, node: str) -> None:
    """Remove it while this process holds the node's name, so that it cannot start meanwhile.

    An entry of another boot is watched for its lease before. NameTakenError if the node started, StorageError if
    something cannot be removed.
    """
    import shutil

    from speed.fs.claiming import hold

    with hold(registry, node, waits=True):
        path = names.node_dir(registry.root, node)
        try:
            shutil.rmtree(path)
        except FileNotFoundError:
            pass
        except OSError as error:
            why = error.strerror or error
            raise StorageError(f"{path} cannot be removed: {why}; see `speed doctor`") from error
        registry.remove_stale_entry(node)
